package projections

import (
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
)

// RunEntry is a run in the list of runs. Status is posted, running, waiting
// (for a person), completed, failed or stopped.
type RunEntry struct {
	ID         string    `json:"id"`
	Session    string    `json:"session"`
	Query      string    `json:"query"` // first 200 runes
	Agent      string    `json:"agent"`
	Model      string    `json:"model,omitempty"`
	Status     string    `json:"status"`
	EndReason  string    `json:"end_reason,omitempty"`
	ErrorCode  string    `json:"error_code,omitempty"`
	Error      string    `json:"error,omitempty"`
	Rounds     int       `json:"rounds"`
	Calls      int       `json:"tool_calls"`
	Pending    int       `json:"pending_approvals"`
	Failures   int       `json:"failed_attempts"`
	Usage      run.Usage `json:"usage"`
	DurationMS int64     `json:"duration_ms"`
	At         time.Time `json:"at"`
	EndedAt    time.Time `json:"ended_at,omitzero"`
}

// Open tells whether the run has not ended.
func (r RunEntry) Open() bool {
	return r.Status == "posted" || r.Status == "running" || r.Status == "waiting"
}

// Runs lists runs, from the message that asks for one. Index: status, session,
// open, at (unix microseconds).
var Runs = Projection{Name: "runs", Version: 1, Filter: event.Filter{Categories: facts}, Fold: foldRun}

func foldRun(v *View, f Fact) {
	tenant := f.Stream.Tenant
	if e, ok := f.Event.(session.MessagePosted); ok {
		putRun(v, tenant, &RunEntry{ID: e.Run, Session: f.Stream.ID, Query: preview(e.Query, 200), Agent: e.Agent, Status: "posted", At: e.At})
		return
	}
	if f.Stream.Category != run.Category {
		return
	}
	r := Get[RunEntry](v, "", tenant, f.Stream.ID)
	if r == nil || !r.Open() {
		return
	}
	end := func(status, reason string, usage run.Usage, rounds int, ms int64, at time.Time) {
		r.Status, r.EndReason, r.Usage, r.Rounds, r.DurationMS, r.EndedAt = status, reason, usage, rounds, ms, at
	}
	switch e := f.Event.(type) {
	case run.RunStarted:
		r.Status, r.Model = "running", e.Agent.Model
	case run.Thought:
		r.Rounds = e.Round + 1
		r.Usage = r.Usage.Add(e.Usage)
		if e.Model != "" {
			r.Model = e.Model
		}
	case run.MemoryConsolidated:
		r.Usage = r.Usage.Add(e.Usage)
	case run.ModelCallFailed:
		r.Failures++
	case run.ToolCallRequested:
		r.Calls++
	case run.ApprovalRequired:
		r.Pending++
		r.Status = "waiting"
	case run.ApprovalResolved:
		if r.Pending--; r.Pending <= 0 {
			r.Pending, r.Status = 0, "running"
		}
	case run.RunCompleted:
		end(run.OutcomeCompleted, e.EndReason, e.Usage, e.Rounds, e.DurationMS, e.At)
	case run.RunFailed:
		end(run.OutcomeFailed, e.EndReason, e.Usage, e.Rounds, e.DurationMS, e.At)
		r.ErrorCode, r.Error = e.Code, e.Message
	case run.RunStopped:
		end(run.OutcomeStopped, run.EndUser, e.Usage, e.Rounds, e.DurationMS, e.At)
	default:
		return
	}
	putRun(v, tenant, r)
}

func putRun(v *View, tenant string, r *RunEntry) {
	Put(v, "", tenant, r.ID, r, map[string]any{"status": r.Status, "session": r.Session, "open": r.Open(), "at": r.At.UnixMicro()})
}
