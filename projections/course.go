package projections

import (
	"time"

	"refold/domain/knowledge"
)

// Course is how far a document has come on its way into the index: what
// knowledge.State says in its Status, Progress and Open, folded without the rest.
type Course struct {
	Revision  int       `json:"revision"`
	Indexed   int       `json:"indexed,omitempty"` // revision that the index holds, 0 = none
	Chunks    int       `json:"chunks,omitempty"`  // of it
	Tokens    int       `json:"tokens,omitempty"`  // of what searches find, of the present revision
	Stage     string    `json:"stage,omitempty"`   // newest that has begun
	Draft     bool      `json:"draft,omitempty"`
	Cancelled bool      `json:"cancelled,omitempty"`
	Failed    bool      `json:"failed,omitempty"`
	Code      string    `json:"error_code,omitempty"` // of the newest attempt that failed
	Error     string    `json:"error,omitempty"`
	RetryAt   time.Time `json:"retry_at,omitzero"`
	BegunAt   time.Time `json:"begun_at"`
	DoneAt    time.Time `json:"done_at,omitzero"`    // of the ingestion, however it ended
	Put       int       `json:"put,omitempty"`       // newest revision that somebody has begun to put into the index
	Changes   int       `json:"changes,omitempty"`   // beside the content
	Synced    int       `json:"synced,omitempty"`    // of them, those that the index knows
	Embedding string    `json:"embedding,omitempty"` // what its vectors are called
}

// fold takes one fact. Facts about another revision than the present one change
// what the index holds and nothing else.
func (c *Course) fold(e any) {
	switch e := e.(type) {
	case knowledge.DocumentAdded:
		c.begin(1, e.Draft, e.At)
	case knowledge.ContentReplaced:
		c.begin(e.Revision, e.Draft, e.At)
	case knowledge.ReparseRequested:
		c.begin(e.Revision, false, e.At)
	case knowledge.DocumentChanged, knowledge.DocumentTagged, knowledge.ChunkEdited:
		c.Changes++
	case knowledge.StageStarted:
		if e.Stage == knowledge.StageIndex {
			c.Put = max(c.Put, e.Revision)
		}
		if e.Revision == c.Revision && e.Stage != knowledge.StageSync && e.Stage != knowledge.StageRemove {
			c.Stage, c.RetryAt = e.Stage, time.Time{}
		}
	case knowledge.Chunked:
		if e.Revision == c.Revision {
			c.Tokens = e.Tokens
		}
	case knowledge.Embedded:
		if e.Revision == c.Revision {
			c.Embedding = e.Model
		}
	case knowledge.Indexed:
		if e.Revision >= c.Indexed {
			c.Indexed, c.Chunks = e.Revision, e.Chunks
		}
		c.Synced = max(c.Synced, e.Change)
		if e.Revision == c.Revision {
			c.Code, c.Error, c.DoneAt = "", "", e.At
		}
	case knowledge.Synced:
		c.Synced = max(c.Synced, e.Change)
	case knowledge.StageFailed:
		c.fail(e)
	case knowledge.IngestionCancelled:
		c.Cancelled, c.DoneAt = true, e.At
	case knowledge.DocumentRemoved:
		c.Indexed, c.Chunks, c.Put = 0, 0, 0
	}
}

func (c *Course) begin(revision int, draft bool, at time.Time) {
	c.Revision, c.Draft, c.BegunAt, c.DoneAt = revision, draft, at, time.Time{}
	c.Stage, c.Cancelled, c.Failed, c.Code, c.Error, c.RetryAt = "", false, false, "", "", time.Time{}
}

func (c *Course) fail(e knowledge.StageFailed) {
	if e.Revision != c.Revision || e.Stage == knowledge.StageSync || e.Stage == knowledge.StageRemove ||
		e.Code == knowledge.CodeReturned || e.Code == knowledge.CodeSuperseded {
		return
	}
	c.Code, c.Error, c.RetryAt = e.Code, e.Message, e.RetryAt
	if e.RetryAt.IsZero() {
		c.Failed, c.DoneAt = true, e.At
	}
}

func (c Course) settled() bool { return c.Draft || c.Cancelled || c.Failed || c.Indexed == c.Revision }

// Status is the state on the wire.
func (c Course) Status() string {
	switch {
	case c.Draft:
		return knowledge.StatusDraft
	case c.Cancelled:
		return knowledge.StatusCancelled
	case c.Failed:
		return knowledge.StatusFailed
	case c.Indexed == c.Revision:
		return knowledge.StatusCompleted
	case c.Put == c.Revision:
		return knowledge.StatusFinalizing
	case c.Stage == "":
		return knowledge.StatusPending
	}
	return knowledge.StatusProcessing
}

// Progress is how far the revision has come, from 0 to 100.
func (c Course) Progress(o knowledge.Origin) int {
	switch {
	case c.Indexed == c.Revision && !c.Draft:
		return 100
	case c.Stage == "":
		return 0
	}
	return knowledge.ProgressAt(o, c.Stage)
}

// processing tells whether the revision is on its way.
func (c Course) processing() bool { return !c.settled() }

// owing tells whether anything is to be done for the document.
func (c Course) owing() bool {
	return !c.settled() || c.Draft && max(c.Indexed, c.Put) > 0 || !c.Draft && c.Indexed > 0 && c.Synced < c.Changes
}
