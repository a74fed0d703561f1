package run

import (
	"time"

	"refold/domain/tool"
)

// decideLostModel ends a model call whose owner is gone. It is not a failed
// attempt of the model: the next one follows at once, but not for ever.
func decideLostModel(s State, c RecordLostModel) []Event {
	if s.Over() || s.Model == nil || s.Model.Call != c.Call || !c.givenUp(s.Model.Owner, s.Model.Deadline) {
		return nil
	}
	f := ModelCallFailed{Call: c.Call, Round: s.Model.Round, Attempt: s.Model.Attempt, Purpose: s.Model.Purpose, Code: CodeLost,
		Message: "the process that made the call is gone", Text: c.Text, Reasoning: c.Reasoning, Shown: c.Shown, At: c.Now}
	if f.Purpose == PurposeMemory {
		if s.memory.lost+1 < MaxLost && s.Wanted != nil {
			f.RetryAt = c.Now
		}
		return []Event{f}
	}
	if s.Lost+1 < MaxLost {
		f.RetryAt = c.Now
		return []Event{f}
	}
	return append([]Event{f}, afterFailure(s, f, false)...)
}

// decideLostTool records that a claimed attempt has no result. A tool that may
// run again does, a few times; of any other the outcome is UNKNOWN, and a
// person decides.
func decideLostTool(s State, c RecordLostTool) []Event {
	call, ok := s.FindCall(c.Call)
	if s.Over() || !ok || call.Status != CallRunning || call.Attempt != c.Attempt || !c.givenUp(call.Owner, call.Deadline) {
		return nil
	}
	def, _ := s.Tool(call.Name)
	lost := ToolOutcomeUnknown{Call: c.Call, Attempt: c.Attempt, Reason: c.Reason, Repeat: def.Effect.Repeatable(), At: c.Now}
	if lost.Reason == "" {
		lost.Reason = "the process that ran the call is gone"
	}
	if lost.Repeat && c.Attempt >= MaxAttempts {
		done := ToolCompleted{Call: c.Call, Attempt: c.Attempt, Reason: ReasonUnknown, At: c.Now,
			Error: "every attempt at this call was lost with its process"}
		done.Output = "Error: " + done.Error + "\n" + tool.ErrorHint
		lost.Repeat = false
		return append([]Event{lost, done}, s.afterClosing(done, c.Now)...)
	}
	if lost.Repeat {
		return []Event{lost}
	}
	return []Event{lost, s.ask(call.ToolCallRequested, def, TriggerRecovery, c.Attempt,
		"An attempt to run "+call.Name+" was lost: it may or may not have taken effect. Approve to run it again, reject to leave it.", c.Now)}
}

// givenUp tells whether a claim is void, or handed back by its own owner (which
// a process does when it is told to end).
func (m Moment) givenUp(owner string, deadline time.Time) bool {
	return owner == m.Self || m.void(owner, deadline)
}
