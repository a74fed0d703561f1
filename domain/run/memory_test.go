package run_test

import (
	"strings"
	"testing"
	"time"

	"refold/domain/run"
	"refold/tests/scenario"
)

func window(tokens int) func(*run.RunStarted) {
	return func(e *run.RunStarted) { e.Limits.ContextTokens = tokens }
}

var (
	from = run.Place{Run: "r0"}
	to   = run.Place{Run: "r1", Step: 2}
)

// measured reports the size of the next request.
func (p *play) measured(tokens int) *play {
	p.t.Helper()
	return p.do(run.MeasureContext{Moment: p.moment(), Tokens: tokens, From: from, To: to, Messages: 7})
}

// twoRounds is a run with something to sum up, its third round due.
func twoRounds(t *testing.T, change ...func(*run.RunStarted)) *play {
	t.Helper()
	return begin(t, append(change, window(1000))...).calls(call("c1", "now")).ran("noon", "c1").calls(call("c2", "save")).ran("ok", "c2")
}

func TestA27_AboveHalfOfTheWindowASummaryIsDue(t *testing.T) {
	p := twoRounds(t)
	p.measured(500).Then()
	p.measured(501).Then(run.MemoryRequested{Reason: run.MemorySize, Tokens: 501, Window: 1000, From: from, To: to, Messages: 7, At: at(0)})
	p.Due(p.moment(), run.CallModel{Round: 1, Attempt: 1, Purpose: run.PurposeMemory})
	p.measured(900).Then() // one is due already
	p.refused(run.ClaimModel{Moment: p.moment(), Round: 2, Attempt: 1, Purpose: run.PurposeRound, Deadline: at(10)}, run.ErrNotDue)
	p.says("They asked for the time; it was noon.", "stop").Then(run.MemoryConsolidated{Call: 3, Text: "They asked for the time; it was noon.", From: from, To: to,
		Messages: 7, Model: "m-1", Usage: run.Usage{Prompt: 10, Completion: 2, Total: 12}, At: at(0)})
	// It is no round: the third one follows, and what was said is not an answer.
	p.open().Due(p.moment(), run.CallModel{Round: 2, Attempt: 1, Purpose: run.PurposeRound})
	p.says("Noon.", "stop").ended(run.OutcomeCompleted, run.EndNatural, "Noon.")
	if s := p.State(); s.Usage.Total != 4*12 || len(s.Memories) != 1 {
		t.Fatalf("%+v", s.Usage)
	}
	if n := scenario.Last[run.RunCompleted](p.RunCase).Rounds; n != 3 {
		t.Fatalf("%d rounds", n)
	}
}

func TestMemory_IsNotDueWhileSomethingElseIs(t *testing.T) {
	p := begin(t, window(1000)).model().measured(900).Then()
	p.do(p.reply("", "tool_calls", call("c1", "now"))).measured(900).Then()
	p.claimTool("c1").measured(900).Then()
	p.answered("c1", "noon").do(run.MeasureContext{Moment: p.moment(), Tokens: 900, Messages: 1}).Then()
	p.measured(900).Kinds("MemoryRequested")
}

func TestA27_ThreeFailuresThenTheArchive(t *testing.T) {
	p := twoRounds(t).measured(800)
	for n := 1; n <= 2; n++ {
		p.Due(p.moment(), run.CallModel{Round: 1, Attempt: n, Purpose: run.PurposeMemory}).fails("summary_too_long", false).Kinds("ModelCallFailed")
	}
	f := p.model().failure("summary_too_long", false)
	f.Archive = "user: What time is it?"
	p.do(f).Kinds("ModelCallFailed", "MemoryConsolidated")
	m, _ := p.State().Memory()
	if !m.Archive || m.Text != f.Archive || m.To != to || m.Call != 5 {
		t.Fatalf("%+v", m)
	}
	// The attempts of the round are counted by themselves.
	p.Due(p.moment(), run.CallModel{Round: 2, Attempt: 1, Purpose: run.PurposeRound})
}

func TestMemory_WithoutAnArchiveItIsGivenUp(t *testing.T) {
	p := twoRounds(t).measured(800).says(" ", "stop").says("", "stop").says("", "stop").Kinds("ModelCallFailed")
	p.Due(p.moment(), run.CallModel{Round: 2, Attempt: 1, Purpose: run.PurposeRound})
	if _, ok := p.State().Memory(); ok {
		t.Fatal("a summary from nothing")
	}
}

func TestMemory_TransientFailuresWait(t *testing.T) {
	p := twoRounds(t).measured(800).fails("rate_limited", true)
	p.Due(moment(0.9)).Due(moment(1), run.CallModel{Round: 1, Attempt: 2, Purpose: run.PurposeMemory})
}

// P42: a summary that does not make requests smaller is not followed by another;
// one that does may be.
func TestP42_NoSecondSummaryUnlessTheSizeFell(t *testing.T) {
	grow := func(size, dropped int) *play {
		p := twoRounds(t).measured(800).says("Long, long.", "stop").measured(900).Then()
		p.do(run.ClaimModel{Moment: p.moment(), Round: 2, Attempt: 1, Purpose: run.PurposeRound, Size: size, Counted: size, Dropped: dropped, Deadline: at(130)})
		return p.do(p.reply("", "tool_calls", call("c3", "now"))).ran("noon", "c3").measured(900)
	}
	grow(850, 0).Then()
	grow(300, 12).Then() // it fitted only since something was left out
	grow(300, 0).Kinds("MemoryRequested")
}

func TestMemory_StopAndDeadlineEndIt(t *testing.T) {
	p := twoRounds(t).measured(800).model().do(run.Stop{By: "u", Now: at(0)}).ended(run.OutcomeStopped, run.EndUser, "")
	p.do(p.reply("Too late.", "stop")).Then()
	p = twoRounds(t, deadline(100)).measured(800).later(100).do(run.Expire{Now: at(100)}).Kinds("SynthesisRequested")
	p.Due(p.moment(), run.CallModel{Round: 1, Attempt: 1, Purpose: run.PurposeSynthesis})
}

func TestMemory_ALostAttemptIsMadeAgain(t *testing.T) {
	p := twoRounds(t).measured(800).model()
	gone := run.Moment{Now: at(1), Self: "w2", Gone: []string{me}}
	p.Due(gone, run.RecoverModel{Call: 3}).do(run.RecordLostModel{Moment: gone, Call: 3}).Kinds("ModelCallFailed")
	p.Due(gone, run.CallModel{Round: 1, Attempt: 2, Purpose: run.PurposeMemory})
	p.later(1)
	for range run.MaxLost - 1 { // not for ever
		p.model().do(run.RecordLostModel{Moment: gone, Call: p.State().ModelCalls})
	}
	p.Due(gone, run.CallModel{Round: 2, Attempt: 1, Purpose: run.PurposeRound})
}

func overflow(p *play, limit, requested int) run.RecordFailure {
	f := p.failure(run.CodeOverflow, false)
	f.Limit, f.Requested = limit, requested
	return f
}

func TestOverflow_OnceIsMadeGood(t *testing.T) {
	claim := func() *play {
		p := twoRounds(t)
		return p.do(run.ClaimModel{Moment: p.moment(), Round: 2, Attempt: 1, Purpose: run.PurposeRound, Size: 400, Counted: 300, Deadline: at(130)})
	}
	for name, c := range map[string]struct {
		limit, requested, window int
		sized                    run.Sizing
	}{
		"both named":        {800, 900, 800, run.Sizing{Counted: 300, Prompt: 900}},
		"the limit only":    {800, 0, 800, run.Sizing{Counted: 300, Prompt: 960}},
		"nothing":           {0, 0, 280, run.Sizing{Counted: 10, Prompt: 10}},
		"more than we have": {5000, 6000, 1000, run.Sizing{Counted: 300, Prompt: 6000}},
	} {
		t.Run(name, func(t *testing.T) {
			p := claim()
			p.do(overflow(p, c.limit, c.requested)).Kinds("ModelCallFailed", "ContextExceeded")
			s := p.State()
			if s.Window() != c.window || c.limit > 0 && s.Sized != c.sized {
				t.Fatalf("window %d, %+v", s.Window(), s.Sized)
			}
			p.Due(p.moment(), run.CallModel{Round: 2, Attempt: 2, Purpose: run.PurposeRound})
			p.measured(c.window/2 + 1).Kinds("MemoryRequested")
			if r := scenario.Last[run.MemoryRequested](p.RunCase); r.Reason != run.MemoryOverflow || r.Window != c.window {
				t.Fatalf("%+v", r)
			}
			p.says("A summary.", "stop").fails(run.CodeOverflow, false).Kinds("ModelCallFailed", "RunFailed")
			end := scenario.Last[run.RunFailed](p.RunCase)
			if end.Code != run.CodeOverflow || !strings.Contains(end.Message, "does not fit into the model's window") {
				t.Fatalf("%+v", end)
			}
			p.Due(moment(1e6))
		})
	}
}

func TestOverflow_CountsStartAgainWithTheNextReply(t *testing.T) {
	p := twoRounds(t).fails(run.CodeOverflow, false).calls(call("c3", "now")).ran("noon", "c3")
	p.fails(run.CodeOverflow, false).Kinds("ModelCallFailed", "ContextExceeded").open()
}

func TestMemory_TimeoutIsThatOfTheDesign(t *testing.T) {
	if run.MemoryTimeout != 60*time.Second || run.MaxMemoryTries != 3 || run.DefaultContextTokens != 200_000 {
		t.Fatal("constants")
	}
}

func TestMemory_AModelThatIsDownMakesNoArchive(t *testing.T) {
	p := twoRounds(t, fallbacks("big")).measured(800)
	for range 2 {
		p.fails("unauthorized", false)
	}
	f := p.model().failure("unauthorized", false)
	f.Archive = "user: What time is it?"
	p.do(f).Kinds("ModelCallFailed", "ModelSwitched").measured(800).Kinds("MemoryRequested")
	p.says("It was noon.", "stop").Kinds("MemoryConsolidated")
}

func TestOverflow_TwiceMovesOnToTheNextModel(t *testing.T) {
	p := twoRounds(t, fallbacks("big")).fails(run.CodeOverflow, false).fails(run.CodeOverflow, false).Kinds("ModelCallFailed", "ModelSwitched")
	if s := p.State(); s.Window() != 1000 || s.ModelName() != "big" {
		t.Fatalf("%d, %s", s.Window(), s.ModelName())
	}
	p.fails(run.CodeOverflow, false).fails(run.CodeOverflow, false).ended(run.OutcomeFailed, run.EndModelFailed, "")
}

func TestOverflow_OfASynthesisEndsAsItsOtherFailures(t *testing.T) {
	p := begin(t, window(1000), rounds(1)).calls(call("c1", "now")).ran("noon", "c1")
	p.fails(run.CodeOverflow, false).Kinds("ModelCallFailed", "ContextExceeded").fails(run.CodeOverflow, false).Kinds("ModelCallFailed", "RunCompleted")
	if p.State().EndReason != run.EndMaxRounds || !p.State().Degraded {
		t.Fatal(p.State().EndReason)
	}
}
