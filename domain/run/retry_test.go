package run_test

import (
	"testing"
	"time"

	"refold/domain/run"
	"refold/tests/scenario"
)

func TestA8_RetriesAfterOneAndTwoSeconds(t *testing.T) {
	p := begin(t).fails("rate_limited", true)
	p.Due(moment(0.9)).Due(moment(1), run.CallModel{Attempt: 2, Purpose: run.PurposeRound})
	if w := run.NextWake(p.State(), at(0)); !w.Equal(at(1)) {
		t.Fatalf("wakes at %v", w)
	}
	p.later(1).fails("rate_limited", true)
	p.Due(moment(2.9)).Due(moment(3), run.CallModel{Attempt: 3, Purpose: run.PurposeRound})
	p.later(2).says("Five.", "stop").ended("completed", run.EndNatural, "Five.")
}

func TestA10_PermanentFailuresAreNotRetried(t *testing.T) {
	begin(t).fails("bad_request", false).ended("failed", run.EndModelFailed, "")
}

func TestRetry_CountsStartAgainWithTheNextReply(t *testing.T) {
	p := begin(t).fails("overloaded", true).later(1).fails("overloaded", true).later(2).calls(call("c1", "now")).ran("noon", "c1")
	p.fails("overloaded", true).open().Due(moment(4), run.CallModel{Round: 1, Attempt: 2, Purpose: run.PurposeRound})
}

func TestP37_RetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		asked time.Duration
		limit func(*run.RunStarted)
		want  float64
	}{
		"asked for":                 {7 * time.Second, deadline(1000), 7},
		"capped":                    {time.Hour, deadline(1000), 60},
		"not past the run's end":    {30 * time.Second, deadline(20), 20},
		"none asked for":            {0, deadline(1000), 1},
		"negative is none":          {-time.Second, deadline(1000), 1},
		"less than the own pause":   {100 * time.Millisecond, deadline(1000), 0.1},
		"own pause, run ends first": {0, deadline(0.5), 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			p := begin(t, c.limit).model()
			f := p.failure("rate_limited", true)
			f.RetryAfter = c.asked
			p.do(f)
			if got := scenario.Last[run.ModelCallFailed](p.RunCase).RetryAt; !got.Equal(at(c.want)) {
				t.Fatalf("retry at %v, want %v", got.Sub(t0), c.want)
			}
		})
	}
}

func TestP37_StopEndsTheWaitAtOnce(t *testing.T) {
	p := begin(t).fails("rate_limited", true).do(run.Stop{By: "u", Now: at(0.1)}).ended("stopped", run.EndUser, "")
	if !run.NextWake(p.State(), at(0.1)).IsZero() {
		t.Fatal("wakes after the end")
	}
}

func TestP36_IdsOfAFailedAttemptAreNotUsedAgain(t *testing.T) {
	p := begin(t).model()
	first := p.State().CallID("", "now", 0, nil)
	f := p.failure("connection", true)
	f.Shown = run.Shown{Cuts: "p", Pending: []run.PendingCall{{ID: first, Name: "now"}}}
	p.do(f).later(1).model()
	second := p.State().CallID("", "now", 0, nil)
	if second == first {
		t.Fatalf("%s was closed for readers, and is announced again", first)
	}
	p.do(p.reply("", "tool_calls", run.ProposedCall{Name: "now"}))
	if got := scenario.Last[run.ToolCallRequested](p.RunCase).Call; got != second {
		t.Fatalf("requested as %s, announced as %s", got, second)
	}
}

func TestReports_Twice(t *testing.T) {
	p := begin(t).model()
	failure := p.failure("overloaded", true)
	p.do(failure).do(failure).Then()
	p.later(1).model()
	reply := p.reply("", "tool_calls", call("c1", "now"))
	p.do(failure).Then() // of an earlier call
	p.do(reply).do(reply).Then()
	p.claimTool("c1")
	result := p.result("c1", "noon")
	p.do(result).do(result).Then()
	result.Output = "another"
	p.do(result).Then()
	p.says("Noon.", "stop").do(reply, failure, result).Then()
	p.ended("completed", run.EndNatural, "Noon.")
}

// A clock that is set back does not hold a run up for longer than a pause can last.
func TestClockSetBack(t *testing.T) {
	next := run.CallModel{Round: 1, Attempt: 1, Purpose: run.PurposeRound}
	p := begin(t).calls(call("c1", "now")).ran("noon", "c1").open()
	p.Due(moment(0), next).Due(moment(-3600), next)
	p = begin(t).fails("rate_limited", true)
	p.Due(moment(-3600), run.CallModel{Attempt: 2, Purpose: run.PurposeRound}).Due(moment(-30))
}
