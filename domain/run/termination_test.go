package run_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"refold/domain/run"
	"refold/tests/scenario"
)

const (
	filtered  = "The provider's content filter withheld the answer. Please rephrase the question."
	noAnswer  = "The model returned no answer, also after being asked again. Please rephrase the question or try another model."
	maxRounds = "The limit of rounds was reached before an answer was complete, and no summary could be made. What was found is in the steps above; ask again with a narrower question."
	stuckText = "The agent kept repeating the same steps and was ended. What was found is in the steps above; please rephrase the question."
	markup    = `<tool_call>{"name":"now","arguments":{}}</tool_call>`
)

func TestA1_NaturalStopInFull(t *testing.T) {
	start := started()
	claim := run.ModelCallStarted{Call: 1, Round: 0, Attempt: 1, Purpose: run.PurposeRound, Owner: me, Deadline: at(130), At: at(1)}
	usage := run.Usage{Prompt: 10, Completion: 2, Total: 12}
	shown := run.Shown{Cuts: "a5"}
	scenario.Given(t).
		When(run.Start{RunStarted: start}).Then(start).
		Due(moment(1), run.CallModel{Round: 0, Attempt: 1, Purpose: run.PurposeRound}).
		When(run.ClaimModel{Moment: moment(1), Round: 0, Attempt: 1, Purpose: run.PurposeRound, Deadline: at(130)}).Then(claim).
		Due(moment(2)).
		When(run.RecordReply{Call: 1, Text: "Five.", Finish: "stop", Model: "m-1", Usage: usage, Shown: shown, RequestDigest: "sha256:x", Duration: 1500e6, Now: at(3)}).
		Then(
			run.Thought{Call: 1, Round: 0, Purpose: run.PurposeRound, Text: "Five.", Finish: "stop", Model: "m-1", Usage: usage, Shown: shown,
				RequestDigest: "sha256:x", DurationMS: 1500, At: at(3)},
			run.RunCompleted{Answer: "Five.", Call: 1, EndReason: run.EndNatural, Usage: usage, Rounds: 1, DurationMS: 3000, At: at(3)}).
		Due(moment(4))
}

func TestTermination_TextReplies(t *testing.T) {
	for _, c := range []struct{ name, text, finish, outcome, reason, answer string }{
		{"natural stop", "Five.", "stop", "completed", run.EndNatural, "Five."},
		{"end_turn", "Five.", "end_turn", "completed", run.EndNatural, "Five."},
		{"stop_sequence, untidy", "Five.", " Stop_Sequence\n", "completed", run.EndNatural, "Five."},
		{"no finish reason", "Five.", "", "completed", run.EndNatural, "Five."},
		{"A5 filter with text", "Fi", "content_filter", "completed", run.EndContentFilter, "Fi"},
		{"A5 filter without text", " \n", "content_filter", "completed", run.EndContentFilter, filtered},
		{"A7 length with text", "Five and", "length", "completed", run.EndLength, "Five and"},
		{"text is not trimmed", " Five.\n", "stop", "completed", run.EndNatural, " Five.\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin(t).says(c.text, c.finish).ended(c.outcome, c.reason, c.answer).Kinds("Thought", "RunCompleted")
		})
	}
}

func TestA3_BlankBlankText(t *testing.T) {
	p := begin(t)
	for range 2 {
		p.says(" \n", "stop").Kinds("Thought", "Nudged")
	}
	p.says("Five.", "stop").ended("completed", run.EndNatural, "Five.")
	if s := p.State(); s.Round != 0 || s.ModelCalls != 3 {
		t.Fatalf("round %d after %d model calls; a nudge consumes no round", s.Round, s.ModelCalls)
	}
}

func TestA4_ThreeBlanks(t *testing.T) {
	p := begin(t).says("", "stop").says("", "stop").says("", "stop").ended("completed", run.EndEmpty, noAnswer)
	if e := scenario.Last[run.RunCompleted](p.RunCase); e.Call != 0 || e.Degraded {
		t.Fatalf("a fixed text is no model call's: %+v", e)
	}
}

func TestA7_LengthBlankIsNudged(t *testing.T) {
	begin(t).says("", "length").Kinds("Thought", "Nudged")
}

func TestNudges_AreCountedPerRun(t *testing.T) {
	begin(t).says("", "stop").calls(call("c1", "now")).ran("noon", "c1").says("", "stop").open().
		calls(call("c2", "now")).ran("one", "c2").says("", "stop").ended("completed", run.EndEmpty, noAnswer)
}

func TestNudges_SpeakTheLanguageOfTheRun(t *testing.T) {
	p := begin(t, func(e *run.RunStarted) { e.Language = "zh" }).says("", "stop")
	if n := scenario.Last[run.Nudged](p.RunCase); !strings.Contains(n.Text, "空") {
		t.Fatalf("nudge: %q", n.Text)
	}
}

func TestA6_StuckText(t *testing.T) {
	begin(t).says("Hm.", "weird").Kinds("Thought", "Nudged").says("Hm.", "weird").ended("completed", run.EndStuck, "Hm.")
}

func TestUnknownFinish_NeverSpins(t *testing.T) {
	p := begin(t)
	for n := 0; !p.State().Over(); n++ {
		if n > run.MaxNudges {
			t.Fatal("still asking")
		}
		p.says(strings.Repeat("x", n+1), "weird")
	}
	p.ended("completed", run.EndStuck, "xxx")
}

func TestStuckText_OnlyRoundsWithoutCalls(t *testing.T) {
	begin(t).says("Hm.", "weird").says("Hm.", "tool_calls", call("c1", "now")).ran("noon", "c1").says("Hm.", "stop").
		ended("completed", run.EndNatural, "Hm.")
}

func TestP31_MarkupIsNeverTheAnswer(t *testing.T) {
	for name, text := range map[string]string{
		"tool_call":   markup,
		"dsml":        `<｜DSML｜tool_calls><｜DSML｜invoke name="now"></｜DSML｜invoke></｜DSML｜tool_calls>`,
		"cut":         `<tool_call>{"name":"now","argu`,
		"after words": "Let me see.\n" + markup,
	} {
		t.Run(name, func(t *testing.T) {
			begin(t).says(text, "stop").Kinds("Thought", "Nudged").says(text, "stop").says(text, "stop").
				ended("completed", run.EndEmpty, noAnswer)
		})
	}
	prose := "Qwen writes <tool_call> around JSON."
	begin(t).says(prose, "stop").ended("completed", run.EndNatural, prose)
	other := `<tool_call>{"name":"nobody","arguments":{}}</tool_call>`
	begin(t).says(other, "stop").ended("completed", run.EndNatural, other)
}

func TestP31_MarkupInASynthesisIsNoAnswer(t *testing.T) {
	begin(t, rounds(1)).calls(call("c1", "now")).ran("noon", "c1").says(markup, "stop").
		ended("completed", run.EndMaxRounds, maxRounds)
}

func TestA12_MaxRounds(t *testing.T) {
	p := begin(t, rounds(2)).calls(call("c1", "now")).ran("noon", "c1").calls(call("c2", "now")).ran("one", "c2")
	p.Kinds("ToolCompleted", "SynthesisRequested").
		Due(moment(0), run.CallModel{Round: 1, Attempt: 1, Purpose: run.PurposeSynthesis})
	p.says("About noon.", "stop").ended("completed", run.EndMaxRounds, "About noon.")
	if e := scenario.Last[run.RunCompleted](p.RunCase); !e.Degraded || e.Call != 3 || e.Rounds != 2 {
		t.Fatalf("a synthesis is degraded: %+v", e)
	}
}

func TestMaxRounds_SynthesisFails(t *testing.T) {
	synthesis := func() *play { return begin(t, rounds(1)).calls(call("c1", "now")).ran("noon", "c1") }
	synthesis().fails("bad_request", false).ended("completed", run.EndMaxRounds, maxRounds)
	synthesis().says("  ", "stop").ended("completed", run.EndMaxRounds, maxRounds)
	p := synthesis()
	for i := range 3 {
		p.later(float64(i)).fails("overloaded", true)
	}
	p.ended("completed", run.EndMaxRounds, maxRounds)
}

func TestMaxRounds_LastRoundOfCallsThatCannotRun(t *testing.T) {
	begin(t, rounds(1)).calls(call("c1", "nobody")).Kinds("Thought", "ToolCallRequested", "ToolCompleted", "SynthesisRequested")
}

func TestA9_ModelFailedForGood(t *testing.T) {
	p := begin(t)
	for i := range 3 {
		p.later(float64(i)).fails("rate_limited", true)
	}
	p.ended("failed", run.EndModelFailed, "").Kinds("ModelCallFailed", "RunFailed")
	if e := scenario.Last[run.RunFailed](p.RunCase); e.Message != "LLM call failed: broken: rate_limited" || e.Code != "rate_limited" {
		t.Fatalf("%+v", e)
	}

	withResult := func() *play { return begin(t).calls(call("c1", "now")).ran("noon", "c1").fails("bad_request", false) }
	p = withResult()
	p.Kinds("ModelCallFailed", "SynthesisRequested")
	p.says("Noon.", "stop").ended("completed", run.EndModelFailed, "Noon.")

	p = withResult().fails("unauthorized", false).ended("failed", run.EndModelFailed, "")
	if e := scenario.Last[run.RunFailed](p.RunCase); e.Message != "LLM call failed: broken: bad_request (synthesis also failed: broken: unauthorized)" {
		t.Fatalf("A13: %q", e.Message)
	}
}

func TestModelFailed_RefusedCallsAreNoResults(t *testing.T) {
	begin(t).calls(call("c1", "nobody")).fails("bad_request", false).ended("failed", run.EndModelFailed, "")
}

func TestIncomplete_KeepsTheText(t *testing.T) {
	p := begin(t)
	for i := range 3 {
		f := p.later(float64(i)).model().failure("incomplete", true)
		f.Text, f.Shown = "The answer is", run.Shown{Cuts: "a13"}
		p.do(f)
	}
	p.ended("failed", run.EndIncomplete, "The answer is")
	if e := scenario.Last[run.RunFailed](p.RunCase); e.Text != "The answer is" || e.Call != 3 {
		t.Fatalf("%+v", e)
	}
}

func TestIncomplete_PreambleIsNotKept(t *testing.T) {
	p := begin(t)
	f := p.model().failure("incomplete", false)
	f.Text, f.Shown = "Let me look.", run.Shown{Cuts: "a12 p", Pending: []run.PendingCall{{ID: "c1", Name: "now"}}}
	p.do(f).ended("failed", run.EndIncomplete, "")
}

func TestDeadline(t *testing.T) {
	t.Run("without results", func(t *testing.T) {
		p := begin(t, deadline(60)).calls(call("c1", "send"), call("c2", "now")).claimTool("c1").later(60)
		p.Due(p.moment(), run.LapseRun{})
		p.do(run.Expire{Now: at(60)}).ended("failed", run.EndDeadline, "").Kinds("ToolCompleted", "ToolCompleted", "RunFailed")
	})
	t.Run("with results, synthesis on a fresh time", func(t *testing.T) {
		p := begin(t, deadline(60)).calls(call("c1", "now"), call("c2", "pay")).ran("noon", "c1").later(60)
		p.do(run.Expire{Now: at(60)}).Kinds("ApprovalResolved", "ToolCompleted", "SynthesisRequested")
		if r := p.closed("c2"); r.Reason != run.ReasonDeadline {
			t.Fatalf("%+v", r)
		}
		p.says("Noon.", "stop").ended("completed", run.EndDeadline, "Noon.")
	})
	t.Run("too early, or twice", func(t *testing.T) {
		p := begin(t, deadline(60)).calls(call("c1", "now")).ran("noon", "c1")
		p.do(run.Expire{Now: at(59)}).Then()
		p.do(run.Expire{Now: at(60)}).Kinds("SynthesisRequested")
		p.do(run.Expire{Now: at(61)}).Then()
	})
	t.Run("a failed attempt after it is not repeated", func(t *testing.T) {
		p := begin(t, deadline(60)).model()
		f := p.later(61).failure("timeout", true)
		f.Text, f.Shown = "So far", run.Shown{Cuts: "a6"}
		p.do(f).ended("failed", run.EndDeadline, "So far")
	})
	t.Run("synthesis fails too", func(t *testing.T) {
		p := begin(t, deadline(60)).calls(call("c1", "now")).ran("noon", "c1").later(60).do(run.Expire{Now: at(60)}).
			fails("bad_request", false).ended("failed", run.EndDeadline, "")
		if e := scenario.Last[run.RunFailed](p.RunCase); e.Message != "the run's deadline passed (synthesis also failed: broken: bad_request)" {
			t.Fatalf("%q", e.Message)
		}
	})
}

func TestStart_IsRefused(t *testing.T) {
	scenario.Given(t, started()).When(run.Start{RunStarted: started()}).Refused(run.ErrAlreadyStarted)
	scenario.Given(t).When(run.Stop{Now: t0}).Refused(run.ErrNotStarted)
	for _, change := range []func(*run.RunStarted){
		func(e *run.RunStarted) { e.Run = "" },
		func(e *run.RunStarted) { e.Query = " \n" },
		func(e *run.RunStarted) { e.Query = strings.Repeat("长", run.MaxQuery+1) },
		func(e *run.RunStarted) { e.Session = "" },
		func(e *run.RunStarted) { e.At = time.Time{} },
	} {
		if err := scenario.Given(t).When(run.Start{RunStarted: started(change)}).Err(); err == nil {
			t.Fatal("started")
		}
	}
}

func TestStart_SortsTools(t *testing.T) {
	p := scenario.Given(t).When(run.Start{RunStarted: started(func(e *run.RunStarted) {
		e.Tools[0], e.Tools[3] = e.Tools[3], e.Tools[0]
		e.Language = ""
		e.Query = "现在几点？"
	})})
	var names []string
	for _, d := range p.State().Start.Tools {
		names = append(names, d.Name)
	}
	scenario.Equal(t, "tools", []string{"now", "pay", "save", "send"}, names)
	if p.State().Start.Language != "zh" {
		t.Fatal("language")
	}
}

func TestMaxRounds_HasAHardLimit(t *testing.T) {
	p := begin(t, rounds(1000))
	for n := 0; p.State().Synthesis == ""; n++ {
		if n > run.HardMaxRounds {
			t.Fatal("no limit")
		}
		p.round(fmt.Sprintf(`{"n":%d}`, n), "x")
	}
	if p.State().Synthesis != run.EndMaxRounds || p.State().Round+1 != run.HardMaxRounds {
		t.Fatalf("%s after round %d", p.State().Synthesis, p.State().Round)
	}
}
