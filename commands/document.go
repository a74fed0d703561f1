package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// Document is a document as one process sees it: its state up to a version. It is
// not safe for concurrent use.
type Document struct {
	commands *Commands
	Tenant   string
	ID       string
	State    knowledge.State
	Version  int64
	Position event.Position // of the last event that this process appended

	executed map[string]event.Position // what idempotent requests did, by reservation and command
}

// OpenDocument folds a document's stream. One that does not exist has version 0.
func (c *Commands) OpenDocument(ctx context.Context, tenant, id string) (*Document, error) {
	d := &Document{commands: c, Tenant: tenant, ID: id}
	return d, d.Refresh(ctx)
}

// Document gives a document that is not deleted; knowledge.ErrNoDocument
// otherwise.
func (c *Commands) Document(ctx context.Context, tenant, id string) (*Document, error) {
	d, err := c.OpenDocument(ctx, tenant, id)
	if err == nil && !d.State.Live() {
		err = knowledge.ErrNoDocument
	}
	return d, err
}

// Refresh folds what others have appended.
func (d *Document) Refresh(ctx context.Context) error {
	recs, err := d.commands.Documents.Load(ctx, d.Tenant, d.ID, d.Version)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		d.State, d.Version = knowledge.Evolve(d.State, rec.Event), rec.Version
		if rec.Meta.Causation != "" {
			if d.executed == nil {
				d.executed = map[string]event.Position{}
			}
			d.executed[rec.Meta.Causation+" "+rec.Meta.Command] = rec.Position
		}
	}
	return nil
}

// Do decides and appends in one step what ask wants in the current state, and
// folds it. After a lost race it asks again on the new state; ask must not have
// effects. It gives the events appended; none is no error.
func (d *Document) Do(ctx context.Context, by Caller, command string, ask func(knowledge.State) ([]knowledge.Command, error)) ([]knowledge.Event, error) {
	c := d.commands
	for try := 1; ; try++ {
		if pos, done := d.executed[by.Reservation+" "+command]; done && by.Reservation != "" {
			d.Position = pos
			return nil, nil
		}
		if d.State.Live() {
			if err := by.holdsAt(d.Version); err != nil {
				return nil, err
			}
		}
		cmds, err := ask(d.State)
		if err != nil {
			return nil, err
		}
		events, next, err := knowledge.DecideAll(d.State, cmds...)
		if err != nil || len(events) == 0 {
			return nil, err
		}
		recs, err := c.Documents.Append(ctx, d.Tenant, d.ID, event.Exactly(d.Version), c.envelope(by, next.Base(), command), facts(c.NewID, events)...)
		if errors.Is(err, event.ErrConflict) && try < maxTries {
			if err := d.Refresh(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
		d.State, d.Version, d.Position = next, recs[len(recs)-1].Version, recs[len(recs)-1].Position
		return events, nil
	}
}

// AddDocument is a file, an address or a typed text for a base. The content is
// stored already.
type AddDocument struct {
	Base        string
	Origin      knowledge.Origin // file, url, file_url or manual
	Title       string           // "" = the file's name, or what the content is called
	Description string
	FileName    string
	FileType    string // extension; "" = that of FileName
	URL         string
	Channel     string
	Folder      string
	Tags        []string // ids or numbers
	Metadata    json.RawMessage
	Process     json.RawMessage // process_config of the request; its chunking_config counts
	Content     knowledge.Blob
	Draft       bool // of a typed text
	Disabled    bool
}

// Added answers what adds a document.
type Added struct {
	Document string
	Position event.Position
}

// maxGenerations bounds how often the same thing can be added and deleted.
const maxGenerations = 1000

// AddDocument adds a document to a base. The same file under the same name, or
// the same address, that is there already is refused with
// knowledge.ErrDuplicateFile or ErrDuplicateURL, whose details name it
// (knowledge_id): of several at once, also in several processes, one is added.
func (c *Commands) AddDocument(ctx context.Context, by Caller, a AddDocument) (Added, error) {
	b, err := c.Base(ctx, by.Tenant, a.Base)
	if err != nil {
		return Added{}, err
	}
	if b.Kind() == knowledge.KindFAQ || a.Origin == knowledge.OriginFAQ {
		return Added{}, knowledge.ErrWrongKind
	}
	e := knowledge.DocumentAdded{Base: a.Base, Origin: a.Origin, Title: a.Title, Description: a.Description, FileName: path.Base(strings.ReplaceAll(a.FileName, "\\", "/")),
		FileType: a.FileType, URL: a.URL, Channel: a.Channel, Folder: a.Folder, Metadata: a.Metadata, Process: a.Process, Content: a.Content, Draft: a.Draft, Disabled: a.Disabled}
	if a.FileName == "" {
		e.FileName = ""
	}
	if e.FileType == "" {
		e.FileType = strings.ToLower(strings.TrimPrefix(path.Ext(e.FileName), "."))
	}
	if e.Tags, err = b.TagIDs(a.Tags); err != nil {
		return Added{}, err
	}
	if e.Recipe, err = c.recipe(by.Tenant, b, a.Process); err != nil {
		return Added{}, err
	}
	ids, duplicate := func(int) string { return c.idFor(by, "document") }, error(knowledge.ErrDocumentExists)
	switch a.Origin {
	case knowledge.OriginFile:
		if e.Title == "" {
			e.Title = e.FileName
		}
		ids = func(n int) string { return knowledge.FileID(a.Base, a.Content.Digest, e.FileName, n) }
		duplicate = knowledge.ErrDuplicateFile
	case knowledge.OriginURL, knowledge.OriginFileURL:
		plain, err := knowledge.PlainURL(a.URL)
		if err != nil {
			return Added{}, err
		}
		ids = func(n int) string { return knowledge.URLID(a.Base, plain, n) }
		duplicate = knowledge.ErrDuplicateURL
	}
	return c.add(ctx, by, "AddDocument", e, ids, duplicate)
}

// add takes the first id whose document is not there, or is deleted and so makes
// room for the next.
func (c *Commands) add(ctx context.Context, by Caller, command string, e knowledge.DocumentAdded, ids func(int) string, duplicate error) (Added, error) {
	e.By, e.At = by.Principal, c.Now().UTC()
	for n := range maxGenerations {
		e.Document = ids(n)
		d, err := c.OpenDocument(ctx, by.Tenant, e.Document)
		if err != nil {
			return Added{}, err
		}
		if pos, done := d.executed[by.Reservation+" "+command]; done && by.Reservation != "" {
			return Added{Document: d.ID, Position: pos}, nil
		}
		if d.State.Deleted && e.Origin != knowledge.OriginManual {
			continue
		}
		_, err = d.Do(ctx, by, command, func(knowledge.State) ([]knowledge.Command, error) {
			return []knowledge.Command{knowledge.Add{DocumentAdded: e}}, nil
		})
		if errors.Is(err, knowledge.ErrDocumentExists) {
			if d.State.Deleted {
				continue
			}
			return Added{}, existing(duplicate, d.ID)
		}
		return Added{Document: d.ID, Position: d.Position}, err
	}
	return Added{}, existing(duplicate, e.Document)
}

// DocumentChange is what changes about a document; nil stays as it is.
type DocumentChange struct {
	Title       *string
	Description *string
	Custom      *json.RawMessage
	Folder      *string
	Enabled     *bool
}

// ChangeDocument changes a document without its content.
func (c *Commands) ChangeDocument(ctx context.Context, by Caller, id string, ch DocumentChange) (event.Position, error) {
	return c.onDocument(ctx, by, id, "ChangeDocument", func(s knowledge.State) ([]knowledge.Command, error) {
		return []knowledge.Command{c.change(by, s, ch)}, nil
	})
}

func (c *Commands) change(by Caller, s knowledge.State, ch DocumentChange) knowledge.Change {
	e := knowledge.DocumentChanged{Title: s.Title, Description: s.Description, Custom: s.Custom, Folder: s.Folder, Disabled: s.Disabled, By: by.Principal, At: c.Now().UTC()}
	set(&e.Title, ch.Title)
	set(&e.Description, ch.Description)
	set(&e.Custom, ch.Custom)
	set(&e.Folder, ch.Folder)
	if ch.Enabled != nil {
		e.Disabled = !*ch.Enabled
	}
	return knowledge.Change{DocumentChanged: e}
}

// TagDocument replaces the tags of a document, which are named by id or number.
func (c *Commands) TagDocument(ctx context.Context, by Caller, id string, tags []string) (event.Position, error) {
	return c.onDocument(ctx, by, id, "TagDocument", func(s knowledge.State) ([]knowledge.Command, error) {
		return c.tag(ctx, by, s, tags)
	})
}

func (c *Commands) tag(ctx context.Context, by Caller, s knowledge.State, tags []string) ([]knowledge.Command, error) {
	b, err := c.Base(ctx, by.Tenant, s.Base())
	if err != nil {
		return nil, err
	}
	ids, err := b.TagIDs(tags)
	if err != nil {
		return nil, err
	}
	return []knowledge.Command{knowledge.SetTags{DocumentTagged: knowledge.DocumentTagged{Tags: ids, By: by.Principal, At: c.Now().UTC()}}}, nil
}

// ReplaceText replaces the content of a typed document, whose blob is stored
// already, and its title if it is not "". A draft is not searched.
func (c *Commands) ReplaceText(ctx context.Context, by Caller, id, title string, content knowledge.Blob, draft bool) (event.Position, error) {
	return c.onDocument(ctx, by, id, "ReplaceText", func(s knowledge.State) ([]knowledge.Command, error) {
		b, err := c.Base(ctx, by.Tenant, s.Base())
		if err != nil {
			return nil, err
		}
		recipe, err := c.recipe(by.Tenant, b, s.Process)
		if err != nil {
			return nil, err
		}
		cmds := []knowledge.Command{knowledge.Replace{ContentReplaced: knowledge.ContentReplaced{Content: content, Draft: draft, Recipe: recipe, By: by.Principal, At: c.Now().UTC()}}}
		if title != "" {
			cmds = append(cmds, c.change(by, s, DocumentChange{Title: &title}))
		}
		return cmds, nil
	})
}

// ReparseDocument reads a document again, by the present settings of its base and
// process, the process_config of the request ("" = that of the last one). What
// would come out the same is not made again, unless force is set; if all of it
// would, nothing happens.
func (c *Commands) ReparseDocument(ctx context.Context, by Caller, id string, process json.RawMessage, force bool) (event.Position, error) {
	return c.onDocument(ctx, by, id, "ReparseDocument", func(s knowledge.State) ([]knowledge.Command, error) {
		b, err := c.Base(ctx, by.Tenant, s.Base())
		if err != nil {
			return nil, err
		}
		if len(process) == 0 {
			process = s.Process
		}
		recipe, err := c.recipe(by.Tenant, b, process)
		if err != nil {
			return nil, err
		}
		return []knowledge.Command{knowledge.Reparse{ReparseRequested: knowledge.ReparseRequested{Recipe: recipe, Process: process, Force: force, By: by.Principal, At: c.Now().UTC()}}}, nil
	})
}

// CancelDocument ends the ingestion of a document's present revision;
// knowledge.ErrNotProcessing if it is over, or about to be.
func (c *Commands) CancelDocument(ctx context.Context, by Caller, id string) (event.Position, error) {
	return c.onDocument(ctx, by, id, "CancelDocument", func(knowledge.State) ([]knowledge.Command, error) {
		return []knowledge.Command{knowledge.Cancel{By: by.Principal, Now: c.Now().UTC()}}, nil
	})
}

// DeleteDocument hides a document; the index forgets it soon.
func (c *Commands) DeleteDocument(ctx context.Context, by Caller, id string) (event.Position, error) {
	return c.onDocument(ctx, by, id, "DeleteDocument", func(knowledge.State) ([]knowledge.Command, error) {
		return []knowledge.Command{knowledge.Delete{DocumentDeleted: knowledge.DocumentDeleted{By: by.Principal, At: c.Now().UTC()}}}, nil
	})
}

// ChunkEdit is what changes about a chunk; nil stays as it is. Expect, if not nil,
// is the edition that the caller has seen.
type ChunkEdit struct {
	Content *string
	Enabled *bool
	Deleted bool
	Expect  *int
}

// EditChunk edits a chunk that was read from the index and gives it as it is then.
func (c *Commands) EditChunk(ctx context.Context, by Caller, chunk knowledge.Chunk, ed ChunkEdit) (knowledge.Chunk, event.Position, error) {
	var after knowledge.State
	pos, err := c.onDocument(ctx, by, chunk.Document, "EditChunk "+chunk.ID, func(s knowledge.State) ([]knowledge.Command, error) {
		now := chunk
		if e, edited := s.Edit(chunk.Index); edited {
			now = chunk.Apply(e)
		}
		e := knowledge.ChunkEdited{Index: chunk.Index, Chunk: chunk.ID, Content: now.Content, Disabled: now.Disabled, Deleted: ed.Deleted, By: by.Principal, At: c.Now().UTC()}
		set(&e.Content, ed.Content)
		if ed.Enabled != nil {
			e.Disabled = !*ed.Enabled
		}
		return []knowledge.Command{knowledge.EditChunk{ChunkEdited: e, Expect: ed.Expect}}, nil
	}, func(s knowledge.State) { after = s })
	if err != nil {
		return chunk, pos, err
	}
	if e, edited := after.Edit(chunk.Index); edited {
		chunk = chunk.Apply(e)
	}
	return chunk, pos, nil
}

// ChunkEditions gives the edits of a chunk, oldest first, and the list of pieces
// that it was made from.
func (c *Commands) ChunkEditions(ctx context.Context, tenant, document, chunk string) ([]knowledge.ChunkEdited, error) {
	recs, err := c.Documents.Load(ctx, tenant, document, 0)
	if err != nil {
		return nil, err
	}
	var out []knowledge.ChunkEdited
	for _, rec := range recs {
		if e, ok := rec.Event.(knowledge.ChunkEdited); ok && e.Chunk == chunk {
			out = append(out, e)
		}
	}
	return out, nil
}

// History gives all facts about a document, oldest first.
func (c *Commands) History(ctx context.Context, tenant, document string) ([]event.Recorded[knowledge.Event], error) {
	return c.Documents.Load(ctx, tenant, document, 0)
}

func (c *Commands) onDocument(ctx context.Context, by Caller, id, command string, ask func(knowledge.State) ([]knowledge.Command, error), then ...func(knowledge.State)) (event.Position, error) {
	d, err := c.OpenDocument(ctx, by.Tenant, id)
	if err != nil {
		return "", err
	}
	_, err = d.Do(ctx, by, command, func(s knowledge.State) ([]knowledge.Command, error) {
		if !s.Live() {
			return nil, knowledge.ErrNoDocument
		}
		return ask(s)
	})
	for _, f := range then {
		f(d.State)
	}
	return d.Position, err
}
