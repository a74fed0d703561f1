package projections

import (
	"encoding/json"
	"time"

	"refold/domain/event"
	"refold/domain/run"
)

// ApprovalEntry is an approval in the inbox. Status is pending, approved,
// rejected, timed_out or canceled.
type ApprovalEntry struct {
	ID         string          `json:"id"`
	Run        string          `json:"run"`
	Session    string          `json:"session"`
	Call       string          `json:"call"`
	Tool       string          `json:"tool"`
	Trigger    string          `json:"trigger"`
	Question   string          `json:"question"`
	Args       json.RawMessage `json:"args"`
	Digest     string          `json:"digest"`
	Status     string          `json:"status"`
	Reason     string          `json:"reason,omitempty"`
	By         string          `json:"by,omitempty"`
	At         time.Time       `json:"at"`
	Expires    time.Time       `json:"expires"`
	ResolvedAt time.Time       `json:"resolved_at,omitzero"`
}

// Approvals is the inbox of approvals. Index: status, session, run, at (unix
// microseconds).
var Approvals = Projection{Name: "approvals", Version: 1, Filter: event.Filter{Categories: []string{run.Category}}, Fold: foldApproval}

func foldApproval(v *View, f Fact) {
	var a *ApprovalEntry
	switch e := f.Event.(type) {
	case run.ApprovalRequired:
		a = &ApprovalEntry{ID: e.Approval, Run: f.Stream.ID, Session: sessionOf(f), Call: e.Call, Tool: e.Tool, Trigger: e.Trigger,
			Question: e.Question, Args: e.Args, Digest: e.Digest, Status: "pending", At: e.At, Expires: e.Expires}
	case run.ApprovalResolved:
		if a = Get[ApprovalEntry](v, "", f.Stream.Tenant, e.Approval); a != nil {
			a.Status, a.Reason, a.By, a.ResolvedAt = e.Outcome, e.Reason, e.By, e.At
			if len(e.Args) > 0 {
				a.Args, a.Digest = e.Args, e.Digest
			}
		}
	}
	if a != nil {
		Put(v, "", f.Stream.Tenant, a.ID, a, map[string]any{"status": a.Status, "session": a.Session, "run": a.Run, "at": a.At.UnixMicro()})
	}
}
