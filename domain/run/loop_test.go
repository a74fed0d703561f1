package run_test

import (
	"fmt"
	"testing"

	"refold/domain/run"
	"refold/tests/scenario"
)

// round makes one round of a call and its result, under a fresh provider id.
func (p *play) round(arguments, output string) *play {
	id := fmt.Sprintf("c%d", p.State().ModelCalls)
	return p.calls(callWith(id, "now", arguments)).ran(output, id)
}

func loops(p *play) (n int) {
	for _, e := range scenario.All[run.Nudged](p.Facts()) {
		if e.Reason == "loop" {
			n++
		}
	}
	return n
}

func TestP35_EqualRounds(t *testing.T) {
	p := begin(t)
	for n := 1; n <= 5; n++ {
		// Key order and white space do not make another call.
		arguments := []string{`{"table":"t","limit":20}`, `{ "limit":20, "table":"t"}`}[n%2]
		p.round(arguments, "[]")
		if want := map[bool]int{true: 1}[n >= 3]; loops(p) != want {
			t.Fatalf("told %d times after %d rounds, want %d", loops(p), n, want)
		}
	}
	p.Kinds("ToolCompleted", "SynthesisRequested")
	p.says("Nothing.", "stop").ended("completed", run.EndStuck, "Nothing.")
	if e := scenario.Last[run.RunCompleted](p.RunCase); !e.Degraded {
		t.Fatal("a synthesis is degraded")
	}
}

func TestP35_SynthesisFails(t *testing.T) {
	p := begin(t)
	for range 5 {
		p.round("{}", "[]")
	}
	p.fails("bad_request", false).ended("completed", run.EndStuck, stuckText)
}

func TestP35_NewResultsResetTheCount(t *testing.T) {
	p := begin(t)
	for n := range 15 {
		p.round("{}", fmt.Sprint(n/2))
	}
	if p.open(); loops(p) != 0 {
		t.Fatal("told")
	}
}

func TestP35_NewArgumentsResetTheCount(t *testing.T) {
	p := begin(t)
	for n := range 15 {
		p.round(fmt.Sprintf(`{"n":%d}`, n/2), "[]")
	}
	if p.open(); loops(p) != 0 {
		t.Fatal("told")
	}
}

func TestP35_TheModelIsToldOnce(t *testing.T) {
	p := begin(t)
	for _, n := range []int{1, 1, 1, 2, 2, 2, 2} {
		p.round(fmt.Sprintf(`{"n":%d}`, n), "[]")
	}
	if p.open(); loops(p) != 1 {
		t.Fatalf("told %d times", loops(p))
	}
}

func TestP35_Cycles(t *testing.T) {
	for size := 2; size <= 4; size++ {
		p := begin(t)
		for n := range 3 * size {
			if p.State().Synthesis != "" {
				t.Fatalf("cycle of %d ended after %d rounds", size, n)
			}
			p.round(fmt.Sprintf(`{"n":%d}`, n%size), "[]")
		}
		if p.State().Synthesis != run.EndStuck {
			t.Fatalf("cycle of %d was not seen", size)
		}
	}
	p := begin(t)
	for n := range 15 { // too long to be one
		p.round(fmt.Sprintf(`{"n":%d}`, n%5), "[]")
	}
	p.open()
}

func TestP35_CallsThatCannotRunCount(t *testing.T) {
	p := begin(t)
	for n := range 5 {
		p.calls(call(fmt.Sprint("c", n), "nobody"))
	}
	p.Kinds("Thought", "ToolCallRequested", "ToolCompleted", "SynthesisRequested")
}

func TestLoop_NudgeIsInTheTranscript(t *testing.T) {
	p := begin(t)
	for range 3 {
		p.round("{}", "[]")
	}
	m := p.State().Transcript()
	if len(m) != 7 || m[6].Role != "user" {
		t.Fatalf("%+v", m)
	}
}
