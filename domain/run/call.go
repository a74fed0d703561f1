package run

import (
	"slices"
	"time"

	"refold/domain/tool"
)

// decideTool records what a tool answered. The first answer counts. The true
// outcome of a call that was closed without it is recorded as late and changes
// nothing else.
func decideTool(s State, c RecordTool) []Event {
	call, ok := s.FindCall(c.Call)
	if !ok || c.Attempt < 1 || c.Attempt > call.Attempt {
		return nil
	}
	done := ToolCompleted{Call: c.Call, Attempt: c.Attempt, Success: c.Success, Output: c.Output, Error: c.Error, Data: c.Data,
		Result: c.Result, Size: c.Size, DurationMS: c.Duration.Milliseconds(), At: c.Now}
	if call.Status == CallClosed {
		if r := call.Result; r == nil || slices.Contains(s.late, c.Call) || r.Reason != ReasonInterrupted && r.Reason != ReasonUnknown && r.Reason != ReasonDeadline && r.Reason != ReasonExpired {
			return nil
		}
		done.Late = true
		return []Event{done}
	}
	var out []Event
	if a, pending := s.FindApproval(call.Approval); pending && a.Outcome == "" {
		out = append(out, ApprovalResolved{Approval: a.Approval, Call: c.Call, Outcome: Canceled,
			Reason: "the outcome became known", At: c.Now})
	}
	out = append(out, done)
	return append(out, s.afterClosing(done, c.Now)...)
}

// decideRefuseCall closes a call that was not run and can't be. One that waits
// for a person is left to that person.
func decideRefuseCall(s State, c RefuseCall) []Event {
	call, ok := s.FindCall(c.Call)
	if s.Over() || !ok || call.Status != CallRequested || call.Approval != "" {
		return nil
	}
	req := call.ToolCallRequested
	req.Problem = c.Message
	done := notRun(req, c.Now)
	return append([]Event{done}, s.afterClosing(done, c.Now)...)
}

// afterClosing says what follows when a call is closed: nothing, unless it was
// the last of its round.
func (s State) afterClosing(done ToolCompleted, at time.Time) []Event {
	if s.Over() {
		return nil
	}
	calls := make([]Call, len(s.Open))
	copy(calls, s.Open)
	for i := range calls {
		if calls[i].Call == done.Call {
			calls[i].Status, calls[i].Result = CallClosed, &done
		}
		if calls[i].Status != CallClosed {
			return nil
		}
	}
	return s.afterRound(calls, at)
}

// afterRound looks at a finished round: repeated rounds are told to the model
// once and then ended; the last allowed round is followed by a synthesis.
func (s State) afterRound(calls []Call, at time.Time) []Event {
	if s.preparing() {
		return s.afterStage(calls, at)
	}
	verdict := s.loop.add(calls).verdict()
	switch {
	case verdict == loopStuck:
		return []Event{SynthesisRequested{Reason: EndStuck, At: at}}
	case s.Round+1 >= s.Start.Limits.maxRounds():
		return []Event{SynthesisRequested{Reason: EndMaxRounds, At: at}}
	case verdict == loopTell:
		return []Event{Nudged{Reason: "loop", Text: s.text(NudgeLoop), At: at}}
	}
	return nil
}

// closeOpen closes every open call without a result of its own, and cancels the
// approvals that wait. reason "" takes the one that is true of each call:
// interrupted if it ran, not started if it did not.
func (s State) closeOpen(reason, by string, at time.Time) []Event {
	var out []Event
	for _, c := range s.Open {
		if c.Status == CallClosed {
			continue
		}
		if a, ok := s.FindApproval(c.Approval); ok && a.Outcome == "" {
			out = append(out, ApprovalResolved{Approval: a.Approval, Call: c.Call, Outcome: Canceled, Reason: "request canceled", By: by, At: at})
		}
		r, text := reason, "the run's deadline passed before this call was done"
		switch c.Status {
		case CallRequested:
			if r == "" {
				r, text = ReasonNotStarted, "the run was stopped before this call was started; it did not run"
			}
		case CallRunning:
			if r == "" {
				r = ReasonInterrupted
			}
			text = "interrupted while it ran; its outcome is unknown"
		case CallUnknown:
			if r == "" {
				r = ReasonUnknown
			}
			text = "an earlier attempt was lost; its outcome is unknown, and it was not run again"
		}
		out = append(out, ToolCompleted{Call: c.Call, Attempt: c.Attempt, Error: text, Output: "Error: " + text + "\n" + tool.ErrorHint, Reason: r, At: at})
	}
	return out
}
