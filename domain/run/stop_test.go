package run_test

import (
	"testing"

	"refold/domain/run"
	"refold/domain/tool"
	"refold/tests/scenario"
)

func TestA14_StopInEveryState(t *testing.T) {
	for name, c := range map[string]struct {
		from  func(*testing.T) *play
		kinds []string
	}{
		"before the model":  {func(t *testing.T) *play { return begin(t) }, []string{"RunStopped"}},
		"model call open":   {func(t *testing.T) *play { return begin(t).model() }, []string{"RunStopped"}},
		"waits for a retry": {func(t *testing.T) *play { return begin(t).fails("overloaded", true) }, []string{"RunStopped"}},
		"after a nudge":     {func(t *testing.T) *play { return begin(t).says("", "stop") }, []string{"RunStopped"}},
		"calls not started": {func(t *testing.T) *play { return begin(t).calls(call("c1", "now"), call("c2", "send")) }, []string{"ToolCompleted", "ToolCompleted", "RunStopped"}},
		"a tool runs": {func(t *testing.T) *play {
			return begin(t).calls(call("c1", "now"), call("c2", "send")).ran("x", "c1").claimTool("c2")
		}, []string{"ToolCompleted", "RunStopped"}},
		"approval pending": {func(t *testing.T) *play { return begin(t).calls(call("c1", "pay")) }, []string{"ApprovalResolved", "ToolCompleted", "RunStopped"}},
		"recovery pending": {func(t *testing.T) *play {
			return begin(t).calls(call("c1", "send")).claimTool("c1").do(run.RecordLostTool{Moment: moment(1), Call: "c1", Attempt: 1})
		}, []string{"ApprovalResolved", "ToolCompleted", "RunStopped"}},
		"round finished":       {func(t *testing.T) *play { return begin(t).calls(call("c1", "now")).ran("x", "c1") }, []string{"RunStopped"}},
		"synthesis due":        {func(t *testing.T) *play { return begin(t, rounds(1)).calls(call("c1", "now")).ran("x", "c1") }, []string{"RunStopped"}},
		"synthesis in writing": {func(t *testing.T) *play { return begin(t, rounds(1)).calls(call("c1", "now")).ran("x", "c1").model() }, []string{"RunStopped"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.from(t)
			p.do(run.Stop{By: "u", Now: at(5)}).Kinds(c.kinds...).ended("stopped", run.EndUser, "")
			p.refused(run.Stop{By: "u", Now: at(6)}, run.ErrOver)
			// The fence: nothing is granted or moved any more.
			p.refused(run.ClaimModel{Moment: moment(6), Attempt: 1, Purpose: run.PurposeRound, Deadline: at(99)}, run.ErrNotDue)
			p.do(p.reply("late", "stop"), p.failure("x", true), run.Expire{Now: at(9e6)},
				run.RecordLostModel{Moment: moment(9e6), Call: p.State().ModelCalls}).Then()
			paired(t, p.State().Transcript())
			paired(t, p.State().Turn())
		})
	}
}

func TestA14_StopKeepsWhatWasShown(t *testing.T) {
	p := begin(t).model()
	stop := run.Stop{By: "u", Reason: "enough", Call: 1, Text: "The ans", Reasoning: "hm", Shown: run.Shown{Cuts: "t2 c7 a7"}, Now: at(5)}
	p.do(stop).Then(run.RunStopped{By: "u", Reason: "enough", Call: 1, Text: "The ans", Reasoning: "hm", Shown: stop.Shown, Rounds: 1, DurationMS: 5000, At: at(5)})
	p.ended("stopped", run.EndUser, "The ans")
	scenario.Equal(t, "turn", []run.Message{{Role: "user", Content: "What time is it?"}, {Role: "assistant", Content: "The ans"}}, p.State().Turn())
}

func TestStop_APreambleIsNoAnswer(t *testing.T) {
	p := begin(t).model().do(run.Stop{Call: 1, Text: "Let me look. And", Shown: run.Shown{Cuts: "a12 p a4", Pending: []run.PendingCall{{ID: "c1", Name: "now"}}}, Now: at(5)})
	p.ended("stopped", run.EndUser, " And")
}

func TestStop_TextOfAnotherCallIsNotTaken(t *testing.T) {
	p := begin(t).fails("overloaded", true).later(1).model().do(run.Stop{Call: 1, Text: "of the first attempt", Now: at(5)})
	p.ended("stopped", run.EndUser, "")
	if e := scenario.Last[run.RunStopped](p.RunCase); e.Call != 2 || e.Text != "" {
		t.Fatalf("%+v", e)
	}
}

func TestP33_EveryCallGetsItsResult(t *testing.T) {
	p := begin(t, sequential).calls(call("c1", "now"), call("c2", "send"), call("c3", "send")).ran("noon", "c1").claimTool("c2").
		do(run.Stop{By: "u", Now: at(5)})
	for id, want := range map[string]string{"c1": "", "c2": run.ReasonInterrupted, "c3": run.ReasonNotStarted} {
		if got := p.closed(id).Reason; got != want {
			t.Fatalf("%s: %q, want %q", id, got, want)
		}
	}
	want := []run.Message{
		{Role: "user", Content: "What time is it?"},
		{Role: "assistant", Calls: []run.ProposedCall{call("c1", "now"), call("c2", "send"), call("c3", "send")}},
		{Role: "tool", CallID: "c1", Name: "now", Content: "noon"},
		{Role: "tool", CallID: "c2", Name: "send", Content: "Error: interrupted while it ran; its outcome is unknown\n" + tool.ErrorHint},
		{Role: "tool", CallID: "c3", Name: "send", Content: "Error: the run was stopped before this call was started; it did not run\n" + tool.ErrorHint},
	}
	scenario.Equal(t, "turn", want, p.State().Turn())
}

func TestLateOutcome(t *testing.T) {
	p := begin(t).calls(call("c1", "send"), call("c2", "send")).claimTool("c1").do(run.Stop{Now: at(5)})
	late := run.RecordTool{Call: "c1", Attempt: 1, Success: true, Output: "sent", Duration: 7e9, Now: at(7)}
	p.do(late).Then(run.ToolCompleted{Call: "c1", Attempt: 1, Success: true, Output: "sent", DurationMS: 7000, Late: true, At: at(7)})
	p.do(late).Then()                                                              // once
	p.do(run.RecordTool{Call: "c2", Attempt: 1, Success: true, Now: at(7)}).Then() // it never ran
	p.ended("stopped", run.EndUser, "")
	if p.closed("c1").Success {
		t.Fatal("the result that the model was given has changed")
	}
}

func TestEnd_OutcomesAreLateOnlyIfUnknown(t *testing.T) {
	p := begin(t).calls(call("c1", "pay"), call("c2", "now")).ran("noon", "c2")
	p.do(run.ResolveApproval{Approval: p.pending().Approval, Now: at(1)}).says("No.", "stop")
	p.do(run.RecordTool{Call: "c1", Attempt: 1, Success: true, Now: at(7)}, run.RecordTool{Call: "c2", Attempt: 1, Output: "?", Now: at(7)}).Then()
}
