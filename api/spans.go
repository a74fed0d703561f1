package api

import (
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain/knowledge"
	"refold/projections"
)

// spanJSON is one step of the processing of a document, on the wire.
type spanJSON struct {
	Document  string         `json:"knowledge_id"`
	Attempt   int            `json:"attempt"` // the revision
	ID        string         `json:"span_id"`
	Parent    string         `json:"parent_span_id,omitempty"`
	Name      string         `json:"name"`
	Kind      string         `json:"kind"`
	Status    string         `json:"status"`
	Input     map[string]any `json:"input,omitempty"`
	Output    map[string]any `json:"output,omitempty"`
	ErrorCode string         `json:"error_code,omitempty"`
	Error     string         `json:"error_message,omitempty"`
	StartedAt *time.Time     `json:"started_at,omitempty"`
	EndedAt   *time.Time     `json:"finished_at,omitempty"`
	Took      int64          `json:"duration_ms,omitempty"`
	CreatedAt time.Time      `json:"created_at"`
	UpdatedAt time.Time      `json:"updated_at"`
	Children  []spanJSON     `json:"children,omitempty"`
}

// wireStages are the stages that the wire always shows, with those of ours that
// each stands for.
var wireStages = []struct {
	name   string
	stages []string
}{
	{"docreader", []string{knowledge.StageFetch, knowledge.StageParse}}, {"chunking", []string{knowledge.StageChunk}}, {"embedding", []string{knowledge.StageEmbed}},
	{"multimodal", nil}, {"postprocess", []string{knowledge.StageIndex, knowledge.StageSync}},
}

func wireStage(stage string) string {
	for _, s := range wireStages {
		if slices.Contains(s.stages, stage) {
			return s.name
		}
	}
	return stage
}

// documentSpans shows how a document was processed: the tries of one revision.
func (a *API) documentSpans(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	d, err := a.document(r, chi.URLParam(r, "document"))
	if err != nil {
		return 0, nil, err
	}
	attempt, err := number(r, "attempt", d.State.Revision, 0, 1<<30)
	if err != nil {
		return 0, nil, err
	}
	if attempt == 0 {
		attempt = d.State.Revision
	}
	facts, err := a.Commands.History(r.Context(), tenant(r), d.ID)
	if err != nil {
		return 0, nil, err
	}
	out := body{"knowledge_id": d.ID, "attempt": attempt, "latest_attempt": d.State.Revision, "current_attempt": d.State.Revision,
		"parse_status": d.State.Status(), "current_stage": wireStage(d.State.Stage()), "trace": nil}
	if attempt <= d.State.Revision {
		out["trace"] = traceOf(d.ID, attempt, d.State, projections.Spans(facts))
	}
	if f := d.State.Trouble; f != nil && attempt == d.State.Revision {
		out["last_error"] = body{"stage": wireStage(f.Stage), "code": wireError(f.Stage, f.Code), "message": f.Message, "name": f.Stage, "error_code": f.Code,
			"error_message": f.Message, "finished_at": f.At}
	}
	return http.StatusOK, ok(out), nil
}

// traceOf puts the tries of a revision under the stages that the wire knows.
func traceOf(document string, attempt int, s knowledge.State, spans []projections.Span) spanJSON {
	root := spanJSON{Document: document, Attempt: attempt, ID: knowledge.DerivedID("span", document, itoa(attempt)), Name: "knowledge_processing", Kind: "root",
		Status: "pending", CreatedAt: s.BegunAt, UpdatedAt: s.BegunAt}
	var failed *spanJSON
	for _, stage := range wireStages {
		st := spanJSON{Document: document, Attempt: attempt, ID: knowledge.DerivedID("span", document, itoa(attempt), stage.name), Parent: root.ID, Name: stage.name,
			Kind: "stage", Status: "pending", CreatedAt: root.CreatedAt, UpdatedAt: root.UpdatedAt}
		if stage.stages == nil {
			st.Status = "skipped"
		}
		for _, sp := range spans {
			if sp.Revision == attempt && slices.Contains(stage.stages, sp.Stage) {
				st.add(wireSpan(document, st.ID, sp))
			}
		}
		root.cover(st)
		if st.Status == "failed" {
			failed = &st
		}
		root.Children = append(root.Children, st)
	}
	switch {
	case attempt < s.Revision && root.StartedAt != nil:
		root.Status = "done"
	case attempt == s.Revision:
		root.Status = map[string]string{knowledge.StatusCompleted: "done", knowledge.StatusFailed: "failed", knowledge.StatusCancelled: "cancelled",
			knowledge.StatusProcessing: "running", knowledge.StatusFinalizing: "running"}[s.Status()]
		if root.Status == "" {
			root.Status = "pending"
		}
	}
	if root.Status == "running" || root.Status == "pending" {
		root.EndedAt, root.Took = nil, 0
	} else {
		for i := range root.Children { // what was the same as before was not made again
			if c := &root.Children[i]; c.Status == "pending" {
				c.Status = "skipped"
			}
		}
	}
	if failed != nil {
		root.ErrorCode, root.Error = failed.ErrorCode, failed.Error
	}
	return root
}

func wireSpan(document, parent string, sp projections.Span) spanJSON {
	out := spanJSON{Document: document, Attempt: sp.Revision, ID: knowledge.DerivedID("span", document, "claim", itoa(sp.Claim)), Parent: parent, Name: sp.Stage, Kind: "subspan",
		Status: sp.Status, Input: map[string]any{"try": sp.Attempt}, Output: sp.Result, Error: sp.Error, StartedAt: &sp.BegunAt, CreatedAt: sp.BegunAt, UpdatedAt: sp.BegunAt}
	switch sp.Status {
	case "lost":
		out.Status, out.ErrorCode = "cancelled", "SERVER_RESTART"
	case "failed":
		out.ErrorCode = wireError(sp.Stage, sp.Code)
	}
	if !sp.EndedAt.IsZero() {
		out.EndedAt, out.UpdatedAt, out.Took = &sp.EndedAt, sp.EndedAt, sp.EndedAt.Sub(sp.BegunAt).Milliseconds()
	}
	return out
}

// add adds a try to a stage, which is then as its newest try is.
func (s *spanJSON) add(try spanJSON) {
	s.Children = append(s.Children, try)
	s.Status, s.ErrorCode, s.Error, s.Output = try.Status, try.ErrorCode, try.Error, try.Output
	s.cover(try)
	s.EndedAt = try.EndedAt
}

// cover widens a span to what a child took.
func (s *spanJSON) cover(child spanJSON) {
	if child.StartedAt == nil {
		return
	}
	if s.StartedAt == nil || child.StartedAt.Before(*s.StartedAt) {
		s.StartedAt = child.StartedAt
	}
	if child.EndedAt != nil && (s.EndedAt == nil || child.EndedAt.After(*s.EndedAt)) {
		s.EndedAt = child.EndedAt
	}
	s.UpdatedAt = child.UpdatedAt
	if s.EndedAt != nil {
		s.Took = max(s.EndedAt.Sub(*s.StartedAt).Milliseconds(), 0)
	}
}

// wireError names a failure as the wire does.
func wireError(stage, code string) string {
	switch {
	case code == knowledge.CodeLost, code == knowledge.CodeReturned:
		return "SERVER_RESTART"
	case code == "timeout":
		return "TASK_TIMEOUT"
	case stage == knowledge.StageFetch, stage == knowledge.StageParse:
		return "DOCREADER_PARSE_FAILED"
	case stage == knowledge.StageChunk:
		return "CHUNKING_FAILED"
	case stage == knowledge.StageEmbed && code == "rate_limited":
		return "EMBEDDING_RATE_LIMIT"
	case stage == knowledge.StageEmbed:
		return "EMBEDDING_PROVIDER_FAIL"
	case stage == knowledge.StageIndex, stage == knowledge.StageSync:
		return "VECTORSTORE_WRITE_FAILED"
	}
	return "UNKNOWN"
}
