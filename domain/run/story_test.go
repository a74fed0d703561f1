package run_test

import (
	"encoding/json"
	"testing"
	"time"

	"refold/domain/run"
	"refold/domain/tool"
	"refold/tests/scenario"
)

// The world of these tests: worker w1 works, seconds are counted from t0.
var t0 = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const me = "w1"

func at(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }

func moment(seconds float64) run.Moment { return run.Moment{Now: at(seconds), Self: me} }

func definition(name string, effect tool.Effect) tool.Definition {
	return tool.Definition{Name: name, Description: "Does " + name + ".", Schema: json.RawMessage(`{"type":"object"}`), Effect: effect}
}

// now reads, save honours the idempotency key, send changes the world, pay also
// asks a person first.
func tools() []tool.Definition {
	pay := definition("pay", tool.SideEffect)
	pay.Approval = true
	return []tool.Definition{definition("now", tool.ReadOnly), pay, definition("save", tool.Idempotent), definition("send", tool.SideEffect)}
}

func started(change ...func(*run.RunStarted)) run.RunStarted {
	e := run.RunStarted{Run: "r1", Session: "s1", UserMessage: "m1", Request: "q1", Query: "What time is it?", Language: "en",
		Agent: run.Agent{ID: "a", Name: "A", Model: "m", ParallelTools: true}, Tools: tools(), At: t0}
	for _, f := range change {
		f(&e)
	}
	return e
}

func sequential(e *run.RunStarted) { e.Agent.ParallelTools = false }

func rounds(n int) func(*run.RunStarted) { return func(e *run.RunStarted) { e.Limits.MaxRounds = n } }

func deadline(seconds float64) func(*run.RunStarted) {
	return func(e *run.RunStarted) { e.Deadline = at(seconds) }
}

// play goes on with a story, one command after the other, and stops the test if
// one is refused.
type play struct {
	*scenario.RunCase
	t   *testing.T
	now float64
}

func begin(t *testing.T, change ...func(*run.RunStarted)) *play {
	t.Helper()
	return &play{scenario.Given(t, started(change...)), t, 0}
}

func (p *play) do(c ...run.Command) *play {
	p.t.Helper()
	if err := p.When(c...).Err(); err != nil {
		p.t.Fatalf("%T refused: %v", c[len(c)-1], err)
	}
	return p
}

// later moves the clock.
func (p *play) later(seconds float64) *play {
	p.now += seconds
	return p
}

func (p *play) moment() run.Moment { return moment(p.now) }

// model claims the model call that is due.
func (p *play) model() *play {
	p.t.Helper()
	for _, e := range run.Due(p.State(), p.moment()) {
		if e, ok := e.(run.CallModel); ok {
			return p.do(run.ClaimModel{Moment: p.moment(), Round: e.Round, Attempt: e.Attempt, Purpose: e.Purpose, Deadline: at(p.now + 130)})
		}
	}
	p.t.Fatalf("no model call is due at %gs: %v", p.now, run.Due(p.State(), p.moment()))
	return p
}

// claim is the command that claims a call's next attempt.
func (p *play) claim(call string) run.ClaimTool {
	c, _ := p.State().FindCall(call)
	def, _ := p.State().Tool(c.Name)
	return run.ClaimTool{Moment: p.moment(), Call: call, Attempt: c.Attempt + 1, ToolHash: def.Hash(), Key: "r1/" + call, Deadline: at(p.now + 70)}
}

func (p *play) claimTool(calls ...string) *play {
	p.t.Helper()
	for _, c := range calls {
		p.do(p.claim(c))
	}
	return p
}

// answered reports that the running attempt of a call has succeeded.
func (p *play) answered(call, output string) *play {
	p.t.Helper()
	return p.do(p.result(call, output))
}

func (p *play) result(call, output string) run.RecordTool {
	c, _ := p.State().FindCall(call)
	return run.RecordTool{Call: call, Attempt: c.Attempt, Success: true, Output: output, Now: at(p.now)}
}

// ran claims calls and reports their results.
func (p *play) ran(output string, calls ...string) *play {
	p.t.Helper()
	for _, c := range calls {
		p.claimTool(c).answered(c, output)
	}
	return p
}

// reply is what the open model call answers: text, finish reason, calls.
func (p *play) reply(text, finish string, calls ...run.ProposedCall) run.RecordReply {
	r := run.RecordReply{Call: p.State().ModelCalls, Text: text, Calls: calls, Finish: finish, Model: "m-1",
		Usage: run.Usage{Prompt: 10, Completion: 2, Total: 12}, Now: at(p.now)}
	var pieces []run.Segment
	if text != "" {
		pieces = append(pieces, run.Segment{Kind: run.SegAnswer, Text: text})
	}
	_, _, r.Shown = run.Compact(pieces)
	return r
}

func (p *play) says(text, finish string, calls ...run.ProposedCall) *play {
	p.t.Helper()
	return p.model().do(p.reply(text, finish, calls...))
}

func (p *play) calls(calls ...run.ProposedCall) *play {
	p.t.Helper()
	return p.says("", "tool_calls", calls...)
}

// failure is a failed attempt of the open model call.
func (p *play) failure(code string, transient bool) run.RecordFailure {
	return run.RecordFailure{Call: p.State().ModelCalls, Code: code, Message: "broken: " + code, Transient: transient, Now: at(p.now)}
}

func (p *play) fails(code string, transient bool) *play {
	p.t.Helper()
	return p.model().do(p.failure(code, transient))
}

func call(id, name string) run.ProposedCall {
	return run.ProposedCall{ID: id, Name: name, Arguments: "{}"}
}

func callWith(id, name, arguments string) run.ProposedCall {
	return run.ProposedCall{ID: id, Name: name, Arguments: arguments}
}

// ended checks how the run ended, and that it ended once.
func (p *play) ended(outcome, reason, answer string) *play {
	p.t.Helper()
	s := p.State()
	if s.Outcome != outcome || s.EndReason != reason || s.Answer != answer {
		p.t.Fatalf("ended as %q, %q with %q; want %q, %q with %q", s.Outcome, s.EndReason, s.Answer, outcome, reason, answer)
	}
	n := 0
	for _, e := range p.Facts() {
		switch e.(type) {
		case run.RunCompleted, run.RunFailed, run.RunStopped:
			n++
		}
	}
	if n != 1 {
		p.t.Fatalf("%d terminal facts", n)
	}
	p.Due(moment(1e6))
	for _, c := range s.Open {
		p.t.Fatalf("call %s is still open", c.Call)
	}
	return p
}

// open checks that the run goes on.
func (p *play) open() *play {
	p.t.Helper()
	if p.State().Over() {
		p.t.Fatalf("the run is over: %s", p.State().EndReason)
	}
	return p
}

func (p *play) pending() run.Approval {
	p.t.Helper()
	for _, a := range p.State().Approvals {
		if a.Outcome == "" {
			return a
		}
	}
	p.t.Fatal("no approval is pending")
	return run.Approval{}
}

// closed gives the result of a call, which must be there.
func (p *play) closed(call string) run.ToolCompleted {
	p.t.Helper()
	c, ok := p.State().FindCall(call)
	if !ok || c.Result == nil {
		p.t.Fatalf("call %s has no result", call)
	}
	return *c.Result
}

// The checks of a scenario, giving the play back.

func (p *play) Kinds(want ...string) *play {
	p.t.Helper()
	p.RunCase.Kinds(want...)
	return p
}

func (p *play) Then(want ...run.Event) *play {
	p.t.Helper()
	p.RunCase.Then(want...)
	return p
}

func (p *play) Due(m run.Moment, want ...run.Effect) *play {
	p.t.Helper()
	p.RunCase.Due(m, want...)
	return p
}

func (p *play) refused(c run.Command, want error) *play {
	p.t.Helper()
	p.When(c).Refused(want)
	return p
}
