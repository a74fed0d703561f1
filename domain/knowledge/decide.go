package knowledge

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Decide says which events follow from a command in a state; it may refuse. Nil
// events with a nil error mean that nothing is new. It has no clock, no ids and
// no I/O: all of that arrives in commands.
func Decide(s State, c Command) ([]Event, error) {
	if add, ok := c.(Add); ok {
		return decideAdd(s, add)
	}
	if !s.Begun() {
		return nil, ErrNoDocument
	}
	switch c := c.(type) {
	case Claim:
		return decideClaim(s, c)
	case Record:
		return decideRecord(s, c)
	case RecordFailure:
		return decideFailure(s, c), nil
	case RecordLost:
		return decideLost(s, c), nil
	}
	if s.Deleted {
		return nil, ErrNoDocument
	}
	switch c := c.(type) {
	case Change:
		return decideChange(s, c)
	case SetTags:
		if len(c.Tags) > MaxDocTags {
			return nil, invalid("too_many_tags", "a document carries at most %d tags", MaxDocTags)
		}
		if slices.Equal(c.Tags, s.Tags) {
			return nil, nil
		}
		return []Event{c.DocumentTagged}, nil
	case Replace:
		return decideReplace(s, c)
	case Reparse:
		return decideReparse(s, c)
	case Cancel:
		if s.Settled() || s.putting == s.Revision { // the index may hold it already
			return nil, ErrNotProcessing
		}
		return []Event{IngestionCancelled{Revision: s.Revision, By: c.By, At: c.Now}}, nil
	case EditChunk:
		return decideEdit(s, c)
	case Delete:
		return []Event{c.DocumentDeleted}, nil
	}
	return nil, fmt.Errorf("knowledge: unknown command %T", c)
}

func decideAdd(s State, c Add) ([]Event, error) {
	if s.Begun() {
		return nil, ErrDocumentExists
	}
	e := c.DocumentAdded
	var err error
	if e.Title, err = plainTitle(e.Title); err != nil {
		return nil, err
	}
	if e.Folder, err = PlainFolder(e.Folder); err != nil {
		return nil, err
	}
	e.Description = text(e.Description)
	if runes(e.Description) > MaxDescription {
		return nil, invalid("description_too_long", "the description has more than %d characters; shorten it", MaxDescription)
	}
	if e.FileName = line(e.FileName); runes(e.FileName) > MaxFileName || runes(e.FileType) > MaxFileType || runes(e.Channel) > MaxChannel {
		return nil, invalid("bad_file_name", "the name of a file has at most %d characters, its type and the channel at most %d", MaxFileName, MaxChannel)
	}
	if len(e.Tags) > MaxDocTags {
		return nil, invalid("too_many_tags", "a document carries at most %d tags", MaxDocTags)
	}
	if e.Metadata, err = plainObject("metadata", e.Metadata); err != nil {
		return nil, err
	}
	if e.Process, err = plainObject("process_config", e.Process); err != nil {
		return nil, err
	}
	if e.Recipe.Chunking, err = e.Recipe.Chunking.plain(); err != nil {
		return nil, err
	}
	switch e.Origin {
	case OriginFile:
		if e.Content.Digest == "" || e.FileName == "" {
			return nil, invalid("empty_file", "a file needs a name and content; this one has none")
		}
	case OriginURL, OriginFileURL:
		if e.URL, err = PlainURL(e.URL); err != nil {
			return nil, err
		}
	case OriginManual:
		if e.Content.Digest == "" || e.Content.Size > MaxManualBytes {
			return nil, invalid("bad_content", "the content of a document has 1 to %d characters", MaxManual)
		}
	case OriginFAQ:
		if e.FAQ == nil {
			return nil, errNoEntry
		}
		f, err := e.FAQ.plain()
		if err != nil {
			return nil, err
		}
		e.FAQ, e.Title, e.Content = &f, f.Question, f.content(e.Recipe)
	default:
		return nil, invalid("bad_type", "there are no documents of type %q", e.Origin)
	}
	return []Event{e}, nil
}

func decideChange(s State, c Change) ([]Event, error) {
	e := c.DocumentChanged
	var err error
	if e.Title, err = plainTitle(e.Title); err != nil {
		return nil, err
	}
	if e.Title == "" {
		e.Title = s.Title
	}
	if e.Folder, err = PlainFolder(e.Folder); err != nil {
		return nil, err
	}
	if e.Description = text(e.Description); runes(e.Description) > MaxDescription {
		return nil, invalid("description_too_long", "the description has more than %d characters; shorten it", MaxDescription)
	}
	if e.Custom, err = plainObject("custom_metadata", e.Custom); err != nil {
		return nil, err
	}
	if e.Title == s.Title && e.Description == s.Description && string(e.Custom) == string(s.Custom) && e.Folder == s.Folder && e.Disabled == s.Disabled {
		return nil, nil
	}
	return []Event{e}, nil
}

func decideReplace(s State, c Replace) ([]Event, error) {
	e := c.ContentReplaced
	var err error
	if e.Recipe.Chunking, err = e.Recipe.Chunking.plain(); err != nil {
		return nil, err
	}
	switch s.Origin() {
	case OriginManual:
		if e.Content.Digest == "" || e.Content.Size > MaxManualBytes {
			return nil, invalid("bad_content", "the content of a document has 1 to %d characters", MaxManual)
		}
		e.FAQ = nil
	case OriginFAQ:
		if e.FAQ == nil {
			return nil, errNoEntry
		}
		f := *e.FAQ
		f.ID = s.FAQ.ID
		if f, err = f.plain(); err != nil {
			return nil, err
		}
		e.FAQ, e.Content, e.Draft = &f, f.content(e.Recipe), false
	default:
		return nil, ErrNotManual
	}
	if e.Draft == s.Draft && e.Content == s.Content && equal(e.FAQ, s.FAQ) && s.stands(e.Recipe) {
		return nil, nil
	}
	e.Revision = s.Revision + 1
	return []Event{e}, nil
}

func decideReparse(s State, c Reparse) ([]Event, error) {
	e := c.ReparseRequested
	var err error
	if e.Recipe.Chunking, err = e.Recipe.Chunking.plain(); err != nil {
		return nil, err
	}
	if e.Process, err = plainObject("process_config", e.Process); err != nil {
		return nil, err
	}
	if s.Draft {
		return nil, invalid("draft", "a draft is not processed; publish it")
	}
	// An address is asked again, unless that is just being done.
	if !e.Force && s.stands(e.Recipe) && (!s.Origin().Fetched() || s.Indexed != s.Revision) {
		return nil, nil
	}
	e.Revision = s.Revision + 1
	return []Event{e}, nil
}

// stands tells whether the present revision, treated by a recipe, would become
// what it is or is becoming.
func (s State) stands(r Recipe) bool {
	return s.Failed == nil && !s.Cancelled && len(s.Edits) == 0 && s.Recipe.Parser == r.Parser && s.Recipe.Chunker == r.Chunker &&
		s.Recipe.FAQ == r.FAQ && s.Recipe.Separate == r.Separate && s.Recipe.Vector == r.Vector && s.Recipe.Chunking.same(r.Chunking) && s.vectors() == r.vectors()
}

// vectors is what the vectors of the revision are called, or will be.
func (s State) vectors() string {
	if s.Embedded != nil {
		return s.Embedded.Model
	}
	return s.Recipe.vectors()
}

func decideEdit(s State, c EditChunk) ([]Event, error) {
	e := c.ChunkEdited
	last, edited := s.Edit(e.Index)
	switch {
	case s.Origin() == OriginFAQ:
		return nil, invalid("faq_chunk", "the chunk of an FAQ entry is changed by changing the entry")
	case s.Indexed == 0 || s.Indexed != s.Revision:
		return nil, ErrNotIndexed
	case e.Index < 0 || e.Index >= s.Chunks || ChunkID(s.Added.Document, s.Revision, e.Index) != e.Chunk || last.Deleted:
		return nil, ErrNoSuchChunk
	case c.Expect != nil && *c.Expect != last.Edition:
		return nil, ErrEdition.With(map[string]any{"revision": last.Edition})
	}
	e.Content = text(e.Content)
	if n := runes(e.Content); !e.Deleted && (n == 0 || n > MaxChunkText) {
		return nil, invalid("bad_content", "the content of a chunk has 1 to %d characters", MaxChunkText)
	}
	if e.Deleted {
		e.Content, e.Tokens, e.Disabled = "", 0, true
	}
	if edited && last.Content == e.Content && last.Disabled == e.Disabled && last.Deleted == e.Deleted {
		return nil, nil
	}
	e.Revision, e.Edition = s.Revision, last.Edition+1
	return []Event{e}, nil
}

func plainTitle(title string) (string, error) {
	if title = line(title); runes(title) > MaxTitle {
		return "", invalid("title_too_long", "the title has more than %d characters; shorten it", MaxTitle)
	}
	return title, nil
}

// plainObject checks JSON that must be an object; null and nothing are none.
func plainObject(name string, raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) > MaxCustom {
		return nil, invalid("bad_"+name, "%s has more than %d bytes", name, MaxCustom)
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, invalid("bad_"+name, "%s must be a JSON object", name)
	}
	return plainJSON(name, raw)
}
