package run

import "fmt"

// decideFailure says what follows a failed attempt: another one after a pause,
// a synthesis from what is known, or the end.
func decideFailure(s State, c RecordFailure) []Event {
	if s.Over() || s.Model == nil || s.Model.Call != c.Call {
		return nil
	}
	f := ModelCallFailed{Call: c.Call, Round: s.Model.Round, Attempt: s.Model.Attempt, Purpose: s.Model.Purpose,
		Code: c.Code, Status: c.Status, Message: c.Message, Text: c.Text, Reasoning: c.Reasoning, Shown: c.Shown, At: c.Now}
	if f.Purpose == PurposeMemory {
		return s.memoryFailed(f, c.Now, c.Transient, c.RetryAfter, c.Archive)
	}
	late := !s.Start.Deadline.IsZero() && !c.Now.Before(s.Start.Deadline)
	if c.Transient && s.Failures < MaxRetries && !late {
		f.RetryAt = c.Now.Add(retryWait(s.Failures+1, c.RetryAfter))
		if d := s.Start.Deadline; !d.IsZero() && f.RetryAt.After(d) {
			f.RetryAt = d
		}
		return []Event{f}
	}
	if f.Code == CodeOverflow && !late && (s.overflows == 0 || f.Purpose != PurposeSynthesis) {
		return decideOverflow(s, f, c)
	}
	return append([]Event{f}, afterFailure(s, f, late)...)
}

// afterFailure ends the attempts at a model call: the next fallback model is
// asked, or it is over for good.
func afterFailure(s State, f ModelCallFailed, late bool) []Event {
	end := EndModelFailed
	if f.Code == "incomplete" {
		end = EndIncomplete
	}
	if late {
		end = EndDeadline
	}
	if next := s.Switches; !late && next < len(s.Start.Agent.Fallbacks) {
		return []Event{ModelSwitched{From: s.ModelName(), To: s.Start.Agent.Fallbacks[next], Reason: f.Message, At: f.At}}
	}
	cause := fmt.Sprintf("LLM call failed: %s", f.Message)
	if f.Purpose == PurposeSynthesis {
		switch s.Synthesis {
		case EndMaxRounds:
			return []Event{s.completed(s.text(TextMaxRounds), 0, EndMaxRounds, true, f.At)}
		case EndStuck:
			return []Event{s.completed(s.text(TextStuck), 0, EndStuck, true, f.At)}
		}
		first := s.Note
		if first == "" {
			first = "the run's deadline passed"
		}
		return []Event{s.failed(f.Code, fmt.Sprintf("%s (synthesis also failed: %s)", first, f.Message), s.Synthesis, f)}
	}
	if s.hasResults() {
		return []Event{SynthesisRequested{Reason: end, Note: cause, At: f.At}}
	}
	return []Event{s.failed(f.Code, cause, end, f)}
}

func (s State) failed(code, message, end string, f ModelCallFailed) RunFailed {
	e := RunFailed{Code: code, Message: message, EndReason: end, Usage: s.Usage, Rounds: s.rounds(),
		DurationMS: s.elapsed(f.At), At: f.At}
	if kept := f.Shown.Kept(f.Text); !blank(kept) && (end == EndIncomplete || end == EndDeadline) {
		e.Text, e.Call = kept, f.Call
	}
	return e
}

// hasResults tells whether there is anything that a synthesis could use.
func (s State) hasResults() bool { return s.results > 0 }

// decideSynthesis ends the run with the reply to a synthesis.
func decideSynthesis(s State, th Thought) []Event {
	s = Evolve(s, th)
	f := ModelCallFailed{Call: th.Call, Purpose: PurposeSynthesis, Code: "empty", Message: "the model returned no text", At: th.At}
	switch {
	case s.markup(th.Text):
		f.Code, f.Message = "markup", "the model wrote a tool call instead of an answer"
	case !blank(th.Text):
		return []Event{th, s.completed(th.Text, th.Call, s.Synthesis, true, th.At)}
	}
	return append([]Event{th}, afterFailure(s, f, false)...)
}

// decideExpire ends the rounds of a run whose own deadline has passed.
func decideExpire(s State, c Expire) []Event {
	d := s.Start.Deadline
	if s.Over() || d.IsZero() || c.Now.Before(d) || s.Synthesis != "" || s.Model != nil {
		return nil
	}
	out := s.closeOpen(ReasonDeadline, "", c.Now)
	if s.hasResults() {
		return append(out, SynthesisRequested{Reason: EndDeadline, At: c.Now})
	}
	return append(out, RunFailed{Code: "deadline", Message: "the run's deadline passed before there was an answer", EndReason: EndDeadline,
		Usage: s.Usage, Rounds: s.rounds(), DurationMS: s.elapsed(c.Now), At: c.Now})
}
