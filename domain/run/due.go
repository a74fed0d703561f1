package run

import (
	"slices"
	"time"
)

// Effect is something that the outside world still owes the run.
type Effect interface{ effect() }

// CallModel asks for a model call.
type CallModel struct {
	Round, Attempt int
	Purpose        string
}

// CallTool asks to run a call: attempt n of it.
type CallTool struct {
	Call    string
	Attempt int
}

// RecoverModel says that the open model call's owner is gone.
type RecoverModel struct{ Call int }

// RecoverTool says that the owner of a running call is gone.
type RecoverTool struct {
	Call    string
	Attempt int
}

// LapseApproval says that nobody answered an approval in time.
type LapseApproval struct{ Approval string }

// LapseRun says that the run's own deadline has passed.
type LapseRun struct{}

func (CallModel) effect()     {}
func (CallTool) effect()      {}
func (RecoverModel) effect()  {}
func (RecoverTool) effect()   {}
func (LapseApproval) effect() {}
func (LapseRun) effect()      {}

// void tells whether a claim no longer counts.
func (m Moment) void(owner string, deadline time.Time) bool {
	return !m.Now.Before(deadline) || (m.Sole && owner != m.Self) || slices.Contains(m.Gone, owner)
}

// Due lists what the outside world owes at a moment, in the order in which it
// should be begun. Empty means that the run is over, waits for a person, waits
// for a time (see NextWake), or that somebody works on it.
func Due(s State, m Moment) []Effect {
	if !s.Begun() || s.Over() {
		return nil
	}
	if s.Model != nil {
		if m.void(s.Model.Owner, s.Model.Deadline) {
			return []Effect{RecoverModel{s.Model.Call}}
		}
		return nil
	}
	if !s.Start.Deadline.IsZero() && !m.Now.Before(s.Start.Deadline) && s.Synthesis == "" {
		return []Effect{LapseRun{}}
	}
	var out []Effect
	open := false
	for _, c := range s.Open {
		if c.Status == CallClosed {
			continue
		}
		// One at a time unless the agent allows parallel tools: a later call
		// waits until the earlier ones are closed.
		if open && !s.Start.Agent.ParallelTools {
			break
		}
		open = true
		switch {
		case c.Approval != "":
			if a, ok := s.FindApproval(c.Approval); ok && !m.Now.Before(a.Expires) {
				out = append(out, LapseApproval{c.Approval})
			}
		case c.Status == CallRunning:
			if m.void(c.Owner, c.Deadline) {
				out = append(out, RecoverTool{c.Call, c.Attempt})
			}
		case c.Status == CallRequested:
			out = append(out, CallTool{c.Call, c.Attempt + 1})
		}
	}
	if open || len(out) > 0 {
		return out
	}
	// A time further off than any pause is no pause: the clock was set back since.
	if pause := s.RetryAt.Sub(m.Now); pause > 0 && pause <= MaxRetryAfter {
		return nil
	}
	call := CallModel{Round: s.nextRound(), Attempt: s.Failures + s.Lost + 1, Purpose: PurposeRound}
	if s.Synthesis != "" { // not a round of its own
		call.Round, call.Purpose = s.Round, PurposeSynthesis
	} else if s.Wanted != nil {
		call = CallModel{Round: s.Round, Attempt: s.memory.tries + s.memory.lost + 1, Purpose: PurposeMemory}
	}
	return []Effect{call}
}

// NextWake is the earliest time after now at which Due may list something new
// by itself; zero if only an event can change it.
func NextWake(s State, now time.Time) time.Time {
	var next time.Time
	add := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if !s.Begun() || s.Over() {
		return next
	}
	add(s.RetryAt)
	add(s.Start.Deadline)
	if s.Model != nil {
		add(s.Model.Deadline)
	}
	for _, c := range s.Open {
		if c.Status == CallRunning {
			add(c.Deadline)
		}
		if c.Approval != "" {
			if a, ok := s.FindApproval(c.Approval); ok {
				add(a.Expires)
			}
		}
	}
	return next
}
