package run

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"refold/domain"
	"refold/domain/tool"
)

// Refusals. Their codes are stable.
var (
	ErrAlreadyStarted    = domain.Reject(domain.Conflict, "run_already_started", "this run has already been started")
	ErrNotStarted        = domain.Reject(domain.Missing, "run_not_found", "there is no such run")
	ErrOver              = domain.Reject(domain.Conflict, "run_over", "this run has already ended")
	ErrNotDue            = domain.Reject(domain.Conflict, "not_due", "this work is not due: it is done, taken by another worker, or the run is over")
	ErrDefinitionChanged = domain.Reject(domain.Conflict, "definition_changed", "the tool's definition has changed since the run was started")
	ErrApprovalNotFound  = domain.Reject(domain.Missing, "approval_not_found", "there is no such approval")
	ErrAlreadyResolved   = domain.Reject(domain.Invalid, "already_resolved", "this approval has already been resolved")
	ErrApprovalExpired   = domain.Reject(domain.Invalid, "approval_expired", "this approval has expired: nobody answered in time, and the call was not run")
	ErrBadArguments      = domain.Reject(domain.Invalid, "bad_modified_args", "modified_args must be a JSON object that replaces the arguments")
)

// Decide says which events follow from a command in a state; it may refuse.
// Nil events with a nil error mean that the command reports something already
// known. It has no clock, no ids and no I/O: all of that arrives in commands.
func Decide(s State, c Command) ([]Event, error) {
	if start, ok := c.(Start); ok {
		return decideStart(s, start)
	}
	if !s.Begun() {
		return nil, ErrNotStarted
	}
	switch c := c.(type) {
	case ClaimModel:
		return decideClaimModel(s, c)
	case MeasureContext:
		return decideMeasure(s, c), nil
	case ClaimTool:
		return decideClaimTool(s, c)
	case RecordReply:
		return decideReply(s, c), nil
	case RecordFailure:
		return decideFailure(s, c), nil
	case RecordTool:
		return decideTool(s, c), nil
	case RefuseCall:
		return decideRefuseCall(s, c), nil
	case RecordLostModel:
		return decideLostModel(s, c), nil
	case RecordLostTool:
		return decideLostTool(s, c), nil
	case ResolveApproval:
		return decideResolve(s, c)
	case ExpireApproval:
		return decideExpireApproval(s, c), nil
	case Expire:
		return decideExpire(s, c), nil
	case Steer:
		return decideSteer(s, c)
	case RecordImages:
		return decideImages(s, c), nil
	case Stop:
		return decideStop(s, c)
	}
	return nil, fmt.Errorf("run: unknown command %T", c)
}

func decideStart(s State, c Start) ([]Event, error) {
	if s.Begun() {
		return nil, ErrAlreadyStarted
	}
	switch {
	case c.Run == "" || c.Session == "":
		return nil, domain.Reject(domain.Invalid, "incomplete_run", "a run needs an id and a session")
	case blank(c.Query):
		return nil, domain.Reject(domain.Invalid, "empty_query", "the question is empty; write one")
	case utf8.RuneCountInString(c.Query) > MaxQuery:
		return nil, domain.Reject(domain.Invalid, "query_too_long", fmt.Sprintf("the question has more than %d characters; shorten it or put the text into a file", MaxQuery))
	case c.At.IsZero():
		return nil, domain.Reject(domain.Invalid, "incomplete_run", "a run needs the time of its start")
	}
	e := c.RunStarted
	e.Tools = slices.Clone(e.Tools)
	slices.SortFunc(e.Tools, func(a, b tool.Definition) int {
		if a.Name < b.Name {
			return -1
		}
		if a.Name > b.Name {
			return 1
		}
		return 0
	})
	if e.Language == "" {
		e.Language = LanguageOf(e.Query)
	}
	return append([]Event{e}, quickStart(e)...), nil
}

// DecideAll decides one command after another, folding between them, and gives
// all events and the state after them. It ends at the first refusal.
func DecideAll(s State, cs ...Command) ([]Event, State, error) {
	var out []Event
	for _, c := range cs {
		events, err := Decide(s, c)
		if err != nil {
			return nil, s, err
		}
		for _, e := range events {
			s = Evolve(s, e)
		}
		out = append(out, events...)
	}
	return out, s, nil
}

func (s State) elapsed(at interface{ UnixMilli() int64 }) int64 {
	return max(0, at.UnixMilli()-s.Start.At.UnixMilli())
}
