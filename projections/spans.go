package projections

import (
	"time"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// Span is one try at a stage of a document's ingestion. Status is running, done,
// failed, cancelled (its result was not wanted any more) or lost (its process was
// gone, or handed it back).
type Span struct {
	Revision int
	Claim    int // number, unique in the document
	Stage    string
	Attempt  int
	Status   string
	Owner    string
	BegunAt  time.Time
	EndedAt  time.Time // zero while it is running
	Code     string
	Error    string
	RetryAt  time.Time
	Result   map[string]any // what is worth knowing about it, plain values
}

// Spans gives the tries of every revision of a document, oldest first, from all
// its facts (commands.History): the live fold of its record.
func Spans(facts []event.Recorded[knowledge.Event]) []Span {
	var out []Span
	// end closes the span that is running. A stage that was done together with the
	// one before it has none: it gets one.
	end := func(stage, status string, at time.Time, result map[string]any) *Span {
		if len(out) == 0 {
			return &Span{}
		}
		s := &out[len(out)-1]
		if s.Status != "running" && stage != "" {
			more := *s
			more.Stage, more.Attempt, more.BegunAt = stage, 1, s.EndedAt
			out = append(out, more)
			s = &out[len(out)-1]
		}
		s.Status, s.EndedAt, s.Result = status, at, result
		return s
	}
	for _, rec := range facts {
		switch e := rec.Event.(type) {
		case knowledge.StageStarted:
			out = append(out, Span{Revision: e.Revision, Claim: e.Number, Stage: e.Stage, Attempt: e.Attempt, Status: "running", Owner: e.Owner, BegunAt: e.At})
		case knowledge.Fetched:
			end(knowledge.StageFetch, "done", e.At, map[string]any{"url": e.URL, "bytes": e.Content.Size, "digest": e.Content.Digest})
		case knowledge.Parsed:
			end(knowledge.StageParse, "done", e.At, map[string]any{"characters": e.Runes, "pages": e.Pages, "tables": e.Tables, "encoding": e.Encoding, "notes": e.Notes})
		case knowledge.Chunked:
			end(knowledge.StageChunk, "done", e.At, map[string]any{"chunks": e.Chunks, "searched": e.Searched, "tokens": e.Tokens})
		case knowledge.Embedded:
			s := end(knowledge.StageEmbed, "done", e.At, map[string]any{"model": e.Model, "vectors": e.Vectors, "kept": e.Kept})
			if e.Skipped != "" {
				s.Status, s.Result = "skipped", map[string]any{"reason": e.Skipped}
			}
		case knowledge.Indexed:
			end(knowledge.StageIndex, "done", e.At, map[string]any{"chunks": e.Chunks})
		case knowledge.Synced:
			end(knowledge.StageSync, "done", e.At, map[string]any{"changes": e.Change})
		case knowledge.DocumentRemoved:
			end(knowledge.StageRemove, "done", e.At, nil)
		case knowledge.StageFailed:
			status := "failed"
			switch e.Code {
			case knowledge.CodeLost, knowledge.CodeReturned:
				status = "lost"
			case knowledge.CodeSuperseded:
				status = "cancelled"
			}
			s := end("", status, e.At, nil)
			s.Code, s.Error, s.RetryAt = e.Code, e.Message, e.RetryAt
		}
	}
	return out
}
