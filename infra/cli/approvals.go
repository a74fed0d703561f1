package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"refold/projections"
)

// Approvals lists and answers approvals.
type Approvals struct {
	List    ApprovalsList    `cmd:"" default:"withargs" help:"List approvals."`
	Approve ApprovalsApprove `cmd:"" help:"Approve a call: it runs."`
	Reject  ApprovalsReject  `cmd:"" help:"Reject a call: it does not run."`
}

// ApprovalsList lists approvals.
type ApprovalsList struct {
	Status string `help:"pending, approved, rejected, timed_out, canceled or all." default:"pending" enum:"pending,approved,rejected,timed_out,canceled,all"`
}

// Help gives examples.
func (Approvals) Help() string {
	return `Examples:
  refold approvals
  refold approvals approve ID
  refold approvals approve ID --args '{"amount": 10}'
  refold approvals reject ID --reason "not this customer"`
}

// Help gives examples.
func (ApprovalsList) Help() string {
	return `Examples:
  refold approvals list
  refold approvals list --status all --json | jq -r '.tool + " " + .status'`
}

// Run lists them.
func (l ApprovalsList) Run(e *env) error {
	return e.withClient(func(c *client) error {
		q := "?page_size=1000"
		if l.Status != "all" {
			q += "&status=" + l.Status
		}
		var rows []projections.ApprovalEntry
		if err := c.call(e.ctx, http.MethodGet, "/api/v1/agent/tool-approvals"+q, nil, &rows); err != nil {
			return err
		}
		for _, a := range rows {
			if e.cli.JSON {
				e.line(a)
				continue
			}
			fmt.Fprintf(e.out, "%s  %s  %s\n  %s\n  %s\n  expires %s\n", a.ID, a.Status, a.Tool, plainText(a.Question), plainText(string(a.Args)), a.Expires.Format(time.RFC3339))
		}
		if len(rows) == 0 && !e.cli.JSON {
			fmt.Fprintln(e.err, "Nothing waits for a person.")
		}
		return nil
	})
}

// ApprovalsApprove approves a call.
type ApprovalsApprove struct {
	ID     string `arg:"" help:"Id of the approval."`
	Args   string `help:"JSON object that replaces the arguments." placeholder:"JSON"`
	Reason string `help:"Reason, for the record." placeholder:"TEXT"`
}

// Help gives examples.
func (ApprovalsApprove) Help() string {
	return `With a running server the call runs at once; without one the decision is recorded
and the next server goes on from it.

Examples:
  refold approvals approve ID
  refold approvals approve ID --args '{"amount": 10}' --reason "less is enough"`
}

// Run approves.
func (a ApprovalsApprove) Run(e *env) error {
	body := map[string]any{"decision": "approve", "reason": a.Reason}
	if a.Args != "" {
		if !json.Valid([]byte(a.Args)) {
			return usage("--args is not valid JSON")
		}
		body["modified_args"] = json.RawMessage(a.Args)
	}
	return e.resolve(a.ID, body, "Approved.")
}

// ApprovalsReject rejects a call.
type ApprovalsReject struct {
	ID     string `arg:"" help:"Id of the approval."`
	Reason string `help:"Reason, for the record and the model." placeholder:"TEXT"`
}

// Help gives examples.
func (ApprovalsReject) Help() string {
	return `Examples:
  refold approvals reject ID
  refold approvals reject ID --reason "not this customer"`
}

// Run rejects.
func (r ApprovalsReject) Run(e *env) error {
	return e.resolve(r.ID, map[string]any{"decision": "reject", "reason": r.Reason}, "Rejected.")
}

func (e *env) resolve(id string, body map[string]any, said string) error {
	return e.withClient(func(c *client) error {
		if err := c.call(e.ctx, http.MethodPost, "/api/v1/agent/tool-approvals/"+url.PathEscape(id), body, nil); err != nil {
			return err
		}
		if e.cli.JSON {
			e.line(map[string]any{"id": id, "decision": body["decision"]})
		} else {
			fmt.Fprintln(e.out, said)
		}
		return nil
	})
}

// withClient talks to the running server, or to the record itself. Without a
// server the decision is recorded, and the next server goes on from it.
func (e *env) withClient(f func(*client) error) error {
	c := e.config
	c.Idle = true
	l, err := e.connect(c)
	if err != nil {
		return err
	}
	err = f(l.client)
	if cerr := l.close(); err == nil {
		err = cerr
	}
	return err
}
