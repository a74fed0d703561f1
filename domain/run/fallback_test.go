package run_test

import (
	"testing"

	"refold/domain/run"
)

// fallbacks gives the run's agent models to move on to.
func fallbacks(names ...string) func(*run.RunStarted) {
	return func(s *run.RunStarted) { s.Agent.Model, s.Agent.Fallbacks = "fast", names }
}

// model names the model that the next call asks.
func asks(t *testing.T, p *play, want string) *play {
	t.Helper()
	if got := p.State().ModelName(); got != want {
		t.Fatalf("the next call asks %s, want %s", got, want)
	}
	return p
}

func TestFallback_ARefusalMovesOn(t *testing.T) {
	p := begin(t, fallbacks("deep", "slow")).fails("unauthorized", false).Kinds("ModelCallFailed", "ModelSwitched").open()
	asks(t, p, "deep").Due(moment(0), run.CallModel{Attempt: 1, Purpose: run.PurposeRound})
	p.says("Done.", "stop").ended("completed", run.EndNatural, "Done.")
}

func TestFallback_AfterTheRetries(t *testing.T) {
	p := begin(t, fallbacks("deep")).fails("overloaded", true).later(1).fails("overloaded", true).later(2)
	asks(t, p, "fast").fails("overloaded", true).Kinds("ModelCallFailed", "ModelSwitched")
	// The next one gets all its attempts.
	asks(t, p, "deep").fails("overloaded", true).Kinds("ModelCallFailed").later(1).says("Done.", "stop").
		ended("completed", run.EndNatural, "Done.")
}

func TestFallback_TheLastFailureEndsTheRun(t *testing.T) {
	begin(t, fallbacks("deep")).fails("unauthorized", false).fails("not_found", false).ended("failed", run.EndModelFailed, "")
}

func TestFallback_BeforeASynthesis(t *testing.T) {
	p := begin(t, fallbacks("deep")).calls(call("c1", "now")).ran("noon", "c1").fails("bad_request", false).Kinds("ModelCallFailed", "ModelSwitched")
	asks(t, p, "deep").fails("bad_request", false).Kinds("ModelCallFailed", "SynthesisRequested")
}

func TestFallback_NotPastTheDeadline(t *testing.T) {
	begin(t, fallbacks("deep"), deadline(10)).model().later(11).do(run.RecordFailure{Call: 1, Code: "timeout", Message: "m", Transient: true, Now: at(11)}).
		ended("failed", run.EndDeadline, "")
}
