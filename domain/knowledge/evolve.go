package knowledge

import (
	"slices"
	"time"
)

// Evolve folds one event into the state. It is total: it never fails, never
// panics, also on an event that does not fit.
func Evolve(s State, e Event) State {
	if e, ok := e.(DocumentAdded); ok {
		if s.Added == nil {
			s = s.added(e)
		}
		return s
	}
	if s.Added == nil {
		return s
	}
	switch e := e.(type) {
	case DocumentChanged:
		s.Title, s.Description, s.Custom, s.Folder, s.Disabled = e.Title, e.Description, e.Custom, e.Folder, e.Disabled
		s.Changes++
	case DocumentTagged:
		s.Tags = e.Tags
		s.Changes++
	case ContentReplaced:
		s = s.begin(e.Revision, e.Recipe, e.Content.Digest == s.Content.Digest, e.At)
		s.Content, s.FAQ, s.Draft = e.Content, e.FAQ, e.Draft
		if e.FAQ != nil {
			s.Title = e.FAQ.Question
		}
	case ReparseRequested:
		s = s.begin(e.Revision, e.Recipe, !e.Force, e.At)
		s.Process, s.fetched = e.Process, false
	case StageStarted:
		l := s.lane(e.Stage)
		if l.stage != e.Stage {
			*l = lane{stage: e.Stage}
		}
		l.tries = max(l.tries+1, e.Attempt)
		s.Claim, s.Claims = &e, max(s.Claims+1, e.Number)
		s.Started = s.Started || !upkeep(e.Stage) && e.Revision == s.Revision
		if e.Stage == StageIndex {
			s.putting = max(s.putting, e.Revision)
		}
	case StageFailed:
		return s.failed(e)
	case IngestionCancelled:
		s.Cancelled = true
	case ChunkEdited:
		s = s.edit(e)
	case DocumentDeleted:
		s.Deleted = true
	default:
		return s.done(e)
	}
	return s
}

func (s State) added(e DocumentAdded) State {
	s.Added, s.Title, s.Description, s.Folder, s.Disabled, s.Tags = &e, e.Title, e.Description, e.Folder, e.Disabled, e.Tags
	s.FileName, s.FileType, s.Process = e.FileName, e.FileType, e.Process
	s.Revision, s.Content, s.FAQ, s.Draft, s.Recipe, s.BegunAt = 1, e.Content, e.FAQ, e.Draft, e.Recipe, e.At
	s.fetched = e.Content.Digest != ""
	return s
}

// begin starts a revision. What comes out the same is kept: the text if content
// and rules of reading are the same, the pieces if they are cut the same way,
// the vectors if the model is the same.
func (s State) begin(revision int, r Recipe, same bool, at time.Time) State {
	if same = same && s.Recipe.Parser == r.Parser; !same {
		s.Parsed = nil
	}
	if same = same && s.Recipe.Chunker == r.Chunker && s.Recipe.FAQ == r.FAQ && s.Recipe.Separate == r.Separate && s.Recipe.Chunking.same(r.Chunking); !same {
		s.Chunked = nil
	}
	if same = same && s.Embedded != nil && s.Recipe.Vector == r.Vector && s.Embedded.Model == r.vectors(); !same {
		s.Embedded = nil
	}
	s.Revision, s.Recipe, s.BegunAt = revision, r, at
	s.Failed, s.Trouble, s.Cancelled, s.Draft, s.Started, s.ingest = nil, nil, false, false, false, lane{}
	s.Edits, s.edited = nil, nil
	return s
}

func (r Recipe) vectors() string {
	if !r.Vector {
		return ""
	}
	return r.Vectors
}

// done folds the result of a stage. One of an earlier revision only closes the
// claim, but what the index was told is true whatever came after.
func (s State) done(e Event) State {
	current := func(revision int) bool { return revision == s.Revision }
	switch e := e.(type) {
	case Fetched:
		if current(e.Revision) {
			if e.Content.Digest != s.Content.Digest {
				s.Parsed, s.Chunked, s.Embedded = nil, nil, nil
			}
			s.Content, s.fetched = e.Content, true
			if e.FileName != "" {
				s.FileName = e.FileName
			}
			if e.FileType != "" {
				s.FileType = e.FileType
			}
			s = s.name(e.Title)
		}
	case Parsed:
		if current(e.Revision) {
			s.Parsed, s.Chunked, s.Embedded = &e, nil, nil
			s = s.name(e.Title)
		}
	case Chunked:
		if current(e.Revision) {
			s.Chunked, s.Embedded = &e, nil
		}
	case Embedded:
		if current(e.Revision) {
			s.Embedded = &e
		}
	case Indexed:
		s.Indexed, s.Chunks, s.Synced, s.DoneAt = max(s.Indexed, e.Revision), e.Chunks, max(s.Synced, e.Change), e.At
	case Synced:
		s.Synced = max(s.Synced, e.Change)
	case DocumentRemoved:
		s.Indexed, s.Chunks, s.putting = 0, 0, 0
	default:
		return s
	}
	if s.Claim != nil {
		*s.lane(s.Claim.Stage) = lane{}
		s.Claim, s.Trouble = nil, nil
	}
	return s
}

// name takes the title that content gives itself, if nobody gave it one.
func (s State) name(title string) State {
	if s.Title == "" {
		s.Title = title
	}
	return s
}

func (s State) failed(e StageFailed) State {
	if s.Claim != nil && s.Claim.Stage == e.Stage {
		s.Claim = nil
	}
	if !upkeep(e.Stage) && e.Revision != s.Revision {
		return s
	}
	l := s.lane(e.Stage)
	l.retryAt = e.RetryAt
	switch {
	case e.Code == CodeReturned, e.Code == CodeSuperseded:
		return s
	case e.Code == CodeLost:
		l.lost++
	case e.Moved:
		l.failures, l.lost = 1, 0
	default:
		l.failures++
		l.lost = 0
	}
	if upkeep(e.Stage) {
		return s
	}
	s.Trouble = &e
	if e.RetryAt.IsZero() {
		s.Failed = &e
	}
	return s
}

func (s State) edit(e ChunkEdited) State {
	s.Changes++
	if e.Revision != s.Revision {
		return s
	}
	i, found := slices.BinarySearchFunc(s.Edits, e.Index, func(o ChunkEdited, index int) int { return o.Index - index })
	s.Edits, s.edited = slices.Clone(s.Edits), slices.Clone(s.edited)
	if found {
		s.Edits[i], s.edited[i] = e, s.Changes
		return s
	}
	s.Edits, s.edited = slices.Insert(s.Edits, i, e), slices.Insert(s.edited, i, s.Changes)
	return s
}
