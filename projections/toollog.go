package projections

import (
	"encoding/json"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tool"
)

// ToolEntry is one tool call in the tool log. Outcome is requested, running,
// waiting (for a person), unknown, success or failed.
type ToolEntry struct {
	Call       string          `json:"call"`
	Run        string          `json:"run"`
	Session    string          `json:"session"`
	Tool       string          `json:"tool"`
	Args       json.RawMessage `json:"args"`
	Round      int             `json:"round"`
	Attempts   int             `json:"attempts"`
	Outcome    string          `json:"outcome"`
	Reason     string          `json:"reason,omitempty"`
	Error      string          `json:"error,omitempty"`
	Preview    string          `json:"preview,omitempty"` // first 500 runes of the output as it is kept, see tool.Stored
	Result     string          `json:"result,omitempty"`  // digest of the full output, if it was cut
	Late       string          `json:"late,omitempty"`    // outcome that became known after the call was closed
	DurationMS int64           `json:"duration_ms"`
	At         time.Time       `json:"at"`
	EndedAt    time.Time       `json:"ended_at,omitzero"`
}

// ToolLog lists every tool call. Index: tool, outcome, session, run, at (unix
// microseconds).
var ToolLog = Projection{Name: "toollog", Version: 3, Filter: event.Filter{Categories: []string{run.Category}}, Fold: foldToolLog}

func foldToolLog(v *View, f Fact) {
	tenant, runID := f.Stream.Tenant, f.Stream.ID
	if e, ok := f.Event.(run.ToolCallRequested); ok {
		putTool(v, tenant, &ToolEntry{Call: e.Call, Run: runID, Session: sessionOf(f), Tool: e.Name, Args: e.Args, Round: e.Round,
			Outcome: "requested", At: e.At})
		return
	}
	change := func(call string, fn func(*ToolEntry)) {
		if t := Get[ToolEntry](v, "", tenant, runID+"/"+call); t != nil {
			fn(t)
			putTool(v, tenant, t)
		}
	}
	switch e := f.Event.(type) {
	case run.ToolStarted:
		change(e.Call, func(t *ToolEntry) { t.Outcome, t.Attempts = "running", e.Attempt })
	case run.ToolOutcomeUnknown:
		change(e.Call, func(t *ToolEntry) { t.Outcome = "unknown" })
	case run.ApprovalRequired:
		change(e.Call, func(t *ToolEntry) {
			if t.Outcome != "unknown" {
				t.Outcome = "waiting"
			}
		})
	case run.ApprovalResolved:
		change(e.Call, func(t *ToolEntry) {
			t.Outcome = "requested"
			if len(e.Args) > 0 {
				t.Args = e.Args
			}
		})
	case run.ToolCompleted:
		change(e.Call, func(t *ToolEntry) {
			outcome := "failed"
			if e.Success {
				outcome = "success"
			}
			if e.Late {
				t.Late = outcome
				return
			}
			t.Outcome, t.Reason, t.Error, t.Result = outcome, e.Reason, tool.ForPeople(e.Error), e.Result
			output, _ := tool.Stored(t.Tool, e.Success, e.Output, e.Data)
			t.Preview, t.DurationMS, t.EndedAt = preview(output, 500), e.DurationMS, e.At
		})
	}
}

func putTool(v *View, tenant string, t *ToolEntry) {
	Put(v, "", tenant, t.Run+"/"+t.Call, t, map[string]any{"tool": t.Tool, "outcome": t.Outcome, "session": t.Session,
		"run": t.Run, "at": t.At.UnixMicro()})
}
