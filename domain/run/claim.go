package run

import (
	"slices"

	"refold/domain"
	"refold/domain/tool"
)

// decideClaimModel grants the model call only if it is due right now, so that
// of two workers one is told "not due" by the log itself.
func decideClaimModel(s State, c ClaimModel) ([]Event, error) {
	want := CallModel{Round: c.Round, Attempt: c.Attempt, Purpose: c.Purpose}
	if !slices.Contains(Due(s, c.Moment), Effect(want)) {
		return nil, ErrNotDue
	}
	if c.Self == "" || !c.Deadline.After(c.Now) {
		return nil, domain.Reject(domain.Invalid, "bad_claim", "a claim needs an owner and a deadline in the future")
	}
	return []Event{ModelCallStarted{Call: s.ModelCalls + 1, Round: c.Round, Attempt: c.Attempt, Purpose: c.Purpose,
		Size: max(0, c.Size), Counted: max(0, c.Counted), Dropped: max(0, c.Dropped), Owner: c.Self, Deadline: c.Deadline, At: c.Now}}, nil
}

func decideClaimTool(s State, c ClaimTool) ([]Event, error) {
	if !slices.Contains(Due(s, c.Moment), Effect(CallTool{c.Call, c.Attempt})) {
		return nil, ErrNotDue
	}
	if c.Self == "" || c.Key == "" || !c.Deadline.After(c.Now) {
		return nil, domain.Reject(domain.Invalid, "bad_claim", "a claim needs an owner, a key and a deadline in the future")
	}
	call, _ := s.FindCall(c.Call)
	def, ok := s.Tool(call.Name)
	if !ok || (def.Effect != tool.ReadOnly && def.Hash() != c.ToolHash) {
		return nil, ErrDefinitionChanged
	}
	key := call.Key
	if key == "" {
		key = c.Key
	}
	return []Event{ToolStarted{Call: c.Call, Attempt: c.Attempt, Owner: c.Self, Key: key, Deadline: c.Deadline, At: c.Now}}, nil
}
