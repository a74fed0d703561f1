package commands

import (
	"context"
	"encoding/json"

	"refold/domain/event"
	"refold/domain/run"
)

// Decision is a person's answer to an approval.
type Decision struct {
	Run      string
	Approval string
	Approve  bool
	Reason   string          // at most 2000 runes are kept
	Args     json.RawMessage // replaces the arguments; nil = as they are
}

// ResolveApproval records a decision, once, from any process.
func (c *Commands) ResolveApproval(ctx context.Context, by Caller, d Decision) (event.Position, error) {
	r, err := c.OpenRun(ctx, by.Tenant, d.Run)
	if err != nil {
		return "", err
	}
	if !r.State.Begun() {
		return "", run.ErrApprovalNotFound
	}
	if reason := []rune(d.Reason); len(reason) > 2000 {
		d.Reason = string(reason[:2000])
	}
	_, err = r.Do(ctx, by, "ResolveApproval", func(run.State) ([]run.Command, error) {
		return []run.Command{run.ResolveApproval{Approval: d.Approval, Approve: d.Approve, Reason: d.Reason, By: by.Principal,
			Args: d.Args, Now: c.Now().UTC()}}, nil
	})
	return r.Position, err
}
