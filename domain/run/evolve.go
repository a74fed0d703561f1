package run

import "slices"

// Evolve folds one event into the state. It is total: it never fails, never
// panics, also on an event that does not fit. Use states linearly.
func Evolve(s State, e Event) State {
	if start, ok := e.(RunStarted); ok {
		if s.Start == nil {
			s.Start = &start
		}
		return s
	}
	if s.Start == nil {
		return s
	}
	switch e := e.(type) {
	case ModelCallStarted:
		s = s.settle().read()
		s.Model = &ModelClaim{e}
		if s.memory = s.memory.claimed(e); e.Purpose != PurposeMemory { // which is no round
			s.Round, s.consumed = e.Round, false
		}
		s.ModelCalls = max(s.ModelCalls, e.Call)
	case Thought:
		s = s.reply(e)
	case ModelCallFailed:
		if s.Model != nil {
			s.refused = s.Model.ModelCallStarted
		}
		s.Model = nil
		s = s.announce(e.Shown)
		if e.Purpose == PurposeMemory {
			s.memory = s.memory.failed(e)
		} else if e.Code == CodeLost {
			s.Lost++
		} else {
			s.Failures++
		}
		s.RetryAt = e.RetryAt
	case ModelSwitched:
		s.memory = s.memory.moved()
		s.Switches++
		s.Failures, s.Lost = 0, 0
		s.RetryAt = e.At
	case Nudged:
		s = s.settle()
		if e.Reason == "loop" {
			s.loop.told = true
		} else {
			s.Nudges++
		}
		s.Steps = append(s.Steps, Step{Nudge: &e})
	case ImagesDescribed:
		s.Captions = e.Captions
		s.Usage = s.Usage.Add(e.Usage)
	case MessageSteered:
		s = s.steer(e)
	case MemoryRequested:
		s.memory = s.memory.requested(e)
	case MemoryConsolidated:
		s.Model, s.RetryAt = nil, e.At
		s.Usage = s.Usage.Add(e.Usage)
		s.memory = s.memory.consolidated(e)
	case ContextExceeded:
		s.memory = s.memory.exceeded(e)
	case SynthesisRequested:
		s = s.settle()
		s.Wanted = nil // what does not fit is left out
		s.Synthesis, s.Note = e.Reason, e.Note
		s.Failures, s.Lost = 0, 0
		s.RetryAt = e.At
	case ToolCallRequested:
		s = s.requested(e)
	case ToolStarted:
		s = s.change(e.Call, func(c *Call) {
			c.Status, c.Attempt, c.Owner, c.Deadline, c.Key = CallRunning, e.Attempt, e.Owner, e.Deadline, e.Key
		})
	case ToolCompleted:
		s = s.closed(e)
	case ToolOutcomeUnknown:
		s = s.change(e.Call, func(c *Call) {
			c.Status = CallUnknown
			if e.Repeat {
				c.Status = CallRequested
			}
		})
	case ApprovalRequired:
		s.Approvals = append(slices.Clip(s.Approvals), Approval{ApprovalRequired: e})
		s = s.change(e.Call, func(c *Call) { c.Approval = e.Approval })
	case ApprovalResolved:
		s = s.resolved(e)
	case RunCompleted:
		s = s.settle()
		s.Outcome, s.EndReason, s.Answer, s.Degraded = OutcomeCompleted, e.EndReason, e.Answer, e.Degraded
		s.EndedAt, s.Model = e.At, nil
	case RunFailed:
		s = s.settle().read()
		s.Outcome, s.EndReason, s.Answer = OutcomeFailed, e.EndReason, e.Text
		s.ErrorCode, s.Error, s.EndedAt = e.Code, e.Message, e.At
		s.Model = nil
	case RunStopped:
		s = s.settle().read()
		s.Outcome, s.EndReason, s.Answer, s.EndedAt = OutcomeStopped, EndUser, e.Shown.Kept(e.Text), e.At
		if e.Call > 0 && (!blank(e.Text) || !blank(e.Reasoning)) {
			s.Steps = append(s.Steps, Step{Thought: &Thought{Call: e.Call, Round: s.Round, Text: e.Text, Reasoning: e.Reasoning, Shown: e.Shown, At: e.At}})
		}
		s.Model = nil
	}
	return s
}

func (s State) announce(shown Shown) State {
	for _, p := range shown.Pending {
		s.announced = append(s.announced, p.ID)
	}
	return s
}

func (s State) reply(e Thought) State {
	s.memory = s.memory.replied(s.Model, e)
	s.Model = nil
	s = s.announce(e.Shown)
	s.Usage = s.Usage.Add(e.Usage)
	s.Failures, s.Lost = 0, 0
	s.RetryAt = e.At
	s.LastText = e.Text
	if blank(e.Text) {
		s.LastText = ""
	}
	s.Steps = append(s.Steps, Step{Thought: &e})
	return s
}

// settle moves the calls of the round that is over into the transcript. What
// comes after them (a nudge, the next model call, the end) causes it: while one
// reply's calls are being requested, all of them so far may be closed already.
func (s State) settle() State {
	if len(s.Open) == 0 {
		return s
	}
	s.loop = s.loop.add(s.Open)
	s.Steps = append(s.Steps, Step{Calls: s.Open})
	s.Open, s.consumed = nil, true
	return s
}

func (s State) requested(e ToolCallRequested) State {
	s.LastText = "" // repeated text is counted over rounds without calls only
	s.Open = append(slices.Clip(s.Open), Call{ToolCallRequested: e, Status: CallRequested})
	return s
}

// change replaces one open call.
func (s State) change(id string, f func(*Call)) State {
	i := slices.IndexFunc(s.Open, func(c Call) bool { return c.Call == id })
	if i < 0 {
		return s
	}
	s.Open = slices.Clone(s.Open)
	f(&s.Open[i])
	return s
}

func (s State) closed(e ToolCompleted) State {
	if e.Late {
		s.late = append(s.late, e.Call)
		return s
	}
	s = s.change(e.Call, func(c *Call) { c.Status, c.Result, c.Approval = CallClosed, &e, "" })
	if e.Reason == "" {
		s.results++
	}
	return s
}

func (s State) resolved(e ApprovalResolved) State {
	s.Approvals = slices.Clone(s.Approvals)
	for i := range s.Approvals {
		if s.Approvals[i].Approval == e.Approval {
			s.Approvals[i].Outcome = e.Outcome
		}
	}
	return s.change(e.Call, func(c *Call) {
		if c.Approval == e.Approval {
			c.Approval = ""
		}
		if e.Outcome != Approved || c.Status == CallClosed {
			return
		}
		c.Cleared, c.Status = true, CallRequested
		if len(e.Args) > 0 {
			c.Args, c.Digest = e.Args, e.Digest
		}
	})
}
