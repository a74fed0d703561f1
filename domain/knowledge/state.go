package knowledge

import (
	"encoding/json"
	"slices"
	"time"
)

// State is the fold of a document's events. Use states linearly.
type State struct {
	Added       *DocumentAdded
	Title       string
	Description string
	Custom      json.RawMessage
	Folder      string
	Disabled    bool
	Tags        []string
	FileName    string
	FileType    string
	Process     json.RawMessage

	// The revision that counts, and what has been made of it. What an earlier one
	// has in common with it is kept.
	Revision int
	Content  Blob
	FAQ      *FAQ
	Draft    bool
	Recipe   Recipe
	Parsed   *Parsed
	Chunked  *Chunked
	Embedded *Embedded
	Edits    []ChunkEdited // the newest of each chunk, in order of place
	fetched  bool          // the content is of this revision
	edited   []int         // the change that each edit was
	putting  int           // newest revision that somebody has begun to put into the index, 0 = none

	Indexed   int // revision that the index holds, 0 = none
	Chunks    int // chunks of it
	Claims    int // so far
	Claim     *StageStarted
	Failed    *StageFailed // the ingestion of the revision has failed
	Trouble   *StageFailed // newest attempt of the revision that failed, nil after a success
	Started   bool         // a stage of the revision has begun
	Cancelled bool
	Deleted   bool
	Changes   int // so far that are none of the content
	Synced    int // of them, those that the index knows
	BegunAt   time.Time
	DoneAt    time.Time // when the revision that the index holds was put there

	ingest lane
	upkeep lane
}

// lane is how one kind of work goes: the way into the index, or keeping what is
// there up to date.
type lane struct {
	stage    string // that the counts are of
	tries    int
	failures int // that count
	lost     int
	retryAt  time.Time
}

// Begun tells whether there is such a document at all.
func (s State) Begun() bool { return s.Added != nil }

// Live tells whether the document exists for its users.
func (s State) Live() bool { return s.Added != nil && !s.Deleted }

// Origin is where the document comes from, "" if it does not exist.
func (s State) Origin() Origin {
	if s.Added == nil {
		return ""
	}
	return s.Added.Origin
}

// Base is the base that the document is in.
func (s State) Base() string {
	if s.Added == nil {
		return ""
	}
	return s.Added.Base
}

// Settled tells whether nothing more will be done for the revision by itself.
func (s State) Settled() bool {
	return s.Draft || s.Cancelled || s.Failed != nil || s.Indexed == s.Revision
}

// Edit finds the newest edit of a chunk of the revision.
func (s State) Edit(index int) (ChunkEdited, bool) {
	i := slices.IndexFunc(s.Edits, func(e ChunkEdited) bool { return e.Index == index })
	if i < 0 {
		return ChunkEdited{}, false
	}
	return s.Edits[i], true
}

// Unsynced are the edits that the index does not know yet.
func (s State) Unsynced() []ChunkEdited {
	var out []ChunkEdited
	for i, e := range s.Edits {
		if s.edited[i] > s.Synced {
			out = append(out, e)
		}
	}
	return out
}

// Entry is what the index is told about the document as one of its revisions.
func (s State) Entry(tenant string, revision int) Entry {
	if s.Added == nil {
		return Entry{Tenant: tenant}
	}
	return Entry{Tenant: tenant, Base: s.Added.Base, Document: s.Added.Document, Revision: revision, Title: s.Title,
		Tags: slices.Clone(s.Tags), Disabled: s.Disabled}
}

// The states of a document on the wire.
const (
	StatusPending    = "pending"    // nothing has begun
	StatusProcessing = "processing" // on its way
	StatusFinalizing = "finalizing" // being put into the index
	StatusCompleted  = "completed"
	StatusFailed     = "failed"
	StatusCancelled  = "cancelled"
	StatusDraft      = "draft"
	StatusDeleting   = "deleting"
)

// Status is the state as the wire format names it.
func (s State) Status() string {
	switch {
	case s.Deleted:
		return StatusDeleting
	case s.Draft:
		return StatusDraft
	case s.Cancelled:
		return StatusCancelled
	case s.Failed != nil:
		return StatusFailed
	case s.Revision > 0 && s.Indexed == s.Revision:
		return StatusCompleted
	case s.putting == s.Revision:
		return StatusFinalizing
	case !s.Started:
		return StatusPending
	}
	return StatusProcessing
}

// Progress is how far the revision has come, from 0 to 100.
func (s State) Progress() int {
	if s.Revision > 0 && s.Indexed == s.Revision {
		return 100
	}
	if s.Draft || s.Added == nil {
		return 0
	}
	return ProgressAt(s.Added.Origin, s.Stage())
}
