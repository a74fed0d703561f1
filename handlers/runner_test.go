package handlers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"refold/commands"
	"refold/domain/run"
	"refold/domain/tool"
	"refold/handlers"
	"refold/tests/scenario"
)

func answers(text string) script {
	return func(_ context.Context, _ int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		return say(emit, "", text)
	}
}

// inTurn answers with each reply once.
func inTurn(replies ...func(emit func(handlers.ModelDelta) error) (handlers.ModelReply, error)) script {
	return func(_ context.Context, n int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		return replies[n-1](emit)
	}
}

func reply(text string, calls ...handlers.ModelCall) func(func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	return func(emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		return say(emit, "", text, calls...)
	}
}

func TestMessageToAnswer(t *testing.T) {
	w := newWorld(t, func(_ context.Context, _ int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		return say(emit, "hm", "Noon.")
	})
	w.start("w1")
	id := w.post("What time is it?")
	s := w.over(id)
	scenario.Equal(t, "facts", []string{"RunStarted", "ModelCallStarted", "Thought", "RunCompleted"}, w.kinds(id))
	if s.Answer != "Noon." || s.EndReason != run.EndNatural || s.Usage.Total != 12 {
		t.Fatalf("%+v", s)
	}
	th := s.Steps[0].Thought
	if th.Reasoning != "hm" || th.Shown.Cuts != "t2 c0 a5" || !strings.HasPrefix(th.RequestDigest, "sha256:") || th.Model != "scripted-1" {
		t.Fatalf("%+v", th)
	}
	req := w.model.request(1)
	if req.Messages[0].Role != "system" || !strings.HasSuffix(req.Messages[1].Content, "\n\nWhat time is it?") || strings.Contains(s.Start.Query, "runtime_context") {
		t.Fatalf("%+v", req.Messages)
	}
}

func TestMessagePostedBeforeTheStart(t *testing.T) {
	w := newWorld(t, answers("Noon."))
	id := w.post("What time is it?")
	w.start("w1")
	w.over(id)
}

func TestToolRound(t *testing.T) {
	w := newWorld(t, inTurn(reply("Let me look.", call("", "now", `{ "zone" : "UTC" }`)), reply("Noon.")))
	w.tools.define("now", tool.ReadOnly, output("12:00"))
	w.start("w1")
	id := w.post("What time is it?")
	s := w.over(id)
	scenario.Equal(t, "facts", []string{"RunStarted", "ModelCallStarted", "Thought", "ToolCallRequested", "ToolStarted", "ToolCompleted",
		"ModelCallStarted", "Thought", "RunCompleted"}, w.kinds(id))
	// P14: the id that was made is the same everywhere.
	m := w.model.request(2).Messages
	if len(m) != 4 || m[2].Content != "Let me look." || m[2].Calls[0].ID == "" || m[3].CallID != m[2].Calls[0].ID || m[3].Content != "12:00" {
		t.Fatalf("%+v", m)
	}
	if ran := w.tools.ran[0]; ran.ID != m[3].CallID || ran.IdempotencyKey != id+"/"+ran.ID || string(ran.Arguments) != `{"zone":"UTC"}` || ran.Attempt != 1 {
		t.Fatalf("%+v", ran)
	}
	if s.Answer != "Noon." {
		t.Fatalf("%+v", s)
	}
	w.await("the clean-up", func() bool { return len(w.deltas(id, 1)) == 0 && len(w.deltas(id, 2)) == 0 })
}

func TestP38_OneParallelToolPanics(t *testing.T) {
	w := newWorld(t, inTurn(reply("", call("c1", "slow", "{}"), call("c2", "boom", "{}"), call("c3", "fast", "{}")), reply("Done.")))
	fast, boomed := make(chan struct{}), make(chan struct{})
	w.tools.define("boom", tool.ReadOnly, func(context.Context, tool.Call) handlers.ToolOutcome {
		defer close(boomed)
		panic("secret x")
	})
	w.tools.define("fast", tool.ReadOnly, func(context.Context, tool.Call) handlers.ToolOutcome {
		defer close(fast)
		return handlers.ToolOutcome{Success: true, Output: "fast"}
	})
	w.tools.define("slow", tool.ReadOnly, func(context.Context, tool.Call) handlers.ToolOutcome {
		<-fast
		<-boomed
		return handlers.ToolOutcome{Success: true, Output: "slow"}
	})
	p := w.start("w1")
	id := w.post("Go.")
	w.over(id)
	m := w.model.request(2).Messages
	if m[3].Content != "slow" || !strings.HasPrefix(m[4].Content, "Error: an internal error") || m[5].Content != "fast" {
		t.Fatalf("%+v", m[3:])
	}
	if log := p.log.String(); !strings.Contains(log, "secret x") || !strings.Contains(log, "goroutine") {
		t.Fatalf("the stack belongs into the log: %s", log)
	}
	for _, e := range w.facts(id) {
		if e, ok := e.(run.ToolCompleted); ok && strings.Contains(e.Output+e.Error, "secret") {
			t.Fatalf("%+v", e)
		}
	}
}

func TestModelPanics(t *testing.T) {
	w := newWorld(t, func(context.Context, int, handlers.ModelRequest, func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		panic("secret")
	})
	w.start("w1")
	s := w.over(w.post("Go."))
	if s.Outcome != run.OutcomeFailed || s.ErrorCode != "internal" || strings.Contains(s.Error, "secret") {
		t.Fatalf("%+v", s)
	}
}

// anyName has a model under every name.
type anyName struct{ *model }

func (a anyName) Model(string) (handlers.Model, error) { return a.model, nil }

// A run whose model a process does not have is not ended by that: it waits, says
// why, and goes on with a process that has it.
func TestMissingModel_TheRunWaits(t *testing.T) {
	w := newWorld(t, answers("Noon."))
	w.agent.Model, w.agent.RunTimeout = "gone", 10_000*time.Hour
	p := w.start("w1")
	id := w.post("What time is it?")
	w.clock.await(t, w.agent.RunTimeout) // left, with its deadline as the next date
	if why := p.WaitsFor(tenant, id); !strings.Contains(why, "no model gone; the run waits") || p.Active() != 0 || p.Parked() != 1 {
		t.Fatalf("waits for %q; %d active, %d parked", why, p.Active(), p.Parked())
	}
	if log := p.log.String(); !strings.Contains(log, "a run waits for its model") || !strings.Contains(log, id) {
		t.Fatalf("the log: %s", log)
	}
	scenario.Equal(t, "facts", []string{"RunStarted"}, w.kinds(id))
	w.kill(p)
	w.start("w2", func(r *handlers.Runner) { r.Models = anyName{w.model} })
	if s := w.over(id); s.Answer != "Noon." || s.Failures != 0 {
		t.Fatalf("%+v", s)
	}
	// A stop ends the wait.
	w2 := newWorld(t, answers("Never."))
	w2.agent.Model = "gone"
	w2.start("w1")
	stopped := w2.post("Go.")
	has[run.RunStarted](w2, stopped)
	if _, err := w2.StopRun(t.Context(), w2.caller(), w2.session, stopped, ""); err != nil {
		t.Fatal(err)
	}
	if s := w2.over(stopped); s.Outcome != run.OutcomeStopped || w2.model.count() != 0 {
		t.Fatalf("%+v", s)
	}
}

// A run with a model to fall back on does not wait.
func TestMissingModel_TheFallbackIsAsked(t *testing.T) {
	w := newWorld(t, answers("Noon."))
	w.agent.Model, w.agent.Fallbacks = "gone", []string{""}
	w.start("w1")
	id := w.post("What time is it?")
	if s := w.over(id); s.Answer != "Noon." || s.Switches != 1 {
		t.Fatalf("%+v", s)
	}
}

func TestA14_StopInMidStream(t *testing.T) {
	w := newWorld(t, func(ctx context.Context, n int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if n > 1 {
			return say(emit, "", "Next.")
		}
		for _, text := range []string{"The ", "answer ", "is"} {
			if err := emit(handlers.ModelDelta{Content: text}); err != nil {
				return handlers.ModelReply{}, err
			}
		}
		<-ctx.Done()
		return handlers.ModelReply{}, ctx.Err()
	})
	w.start("w1")
	id := w.post("What?")
	w.await("three pieces", func() bool { return len(w.deltas(id, 1)) == 3 })
	if _, err := w.StopRun(t.Context(), w.caller(), w.session, id, ""); err != nil {
		t.Fatal(err)
	}
	s := w.over(id)
	if s.Outcome != run.OutcomeStopped || s.Answer != "The answer is" {
		t.Fatalf("%+v", s)
	}
	stop := has[run.RunStopped](w, id)
	if stop.Shown.Cuts != "a4 a7 a2" || stop.By != "u" {
		t.Fatalf("%+v", stop)
	}
	if _, err := w.StopRun(t.Context(), w.caller(), w.session, id, ""); err == nil {
		t.Fatal("stopped twice")
	}
	next := w.post("And now?")
	if s := w.over(next); s.Answer != "Next." {
		t.Fatalf("%+v", s)
	}
	m := w.model.request(2).Messages
	if len(m) != 4 || m[1].Content != "What?" || m[2].Content != "The answer is" {
		t.Fatalf("%+v", m)
	}
	scenario.Equal(t, "facts", []string{"RunStarted", "ModelCallStarted", "RunStopped"}, w.kinds(id))
}

func TestA14_StopWhileAToolRuns(t *testing.T) {
	begun := make(chan struct{}, 1)
	w := newWorld(t, inTurn(reply("", call("c1", "send", "{}")), reply("Next.")))
	w.tools.define("send", tool.SideEffect, blocked(begun))
	w.start("w1")
	id := w.post("Send it.")
	<-begun
	if _, err := w.StopRun(t.Context(), w.caller(), w.session, id, ""); err != nil {
		t.Fatal(err)
	}
	w.over(id)
	if r := has[run.ToolCompleted](w, id); r.Reason != run.ReasonInterrupted {
		t.Fatalf("%+v", r)
	}
	w.over(w.post("And now?")) // P33: the next request is well formed
	m := w.model.request(2).Messages
	if len(m) != 5 || m[2].Calls[0].ID != "c1" || m[3].CallID != "c1" {
		t.Fatalf("%+v", m)
	}
}

func TestToolTimeout_WithSideEffectsIsUnknown(t *testing.T) {
	begun := make(chan struct{}, 1)
	w := newWorld(t, inTurn(reply("", call("c1", "send", "{}")), reply("No idea.")))
	w.tools.define("send", tool.SideEffect, blocked(begun))
	w.start("w1")
	id := w.post("Send it.")
	<-begun
	w.clock.await(t, tool.DefaultTimeout)
	w.clock.advance(tool.DefaultTimeout)
	a := has[run.ApprovalRequired](w, id)
	if a.Trigger != run.TriggerRecovery {
		t.Fatalf("%+v", a)
	}
	if _, err := w.ResolveApproval(t.Context(), w.caller(), commands.Decision{Run: id, Approval: a.Approval}); err != nil {
		t.Fatal(err)
	}
	w.over(id)
	if w.tools.runs("c1") != 1 {
		t.Fatal("repeated without a person")
	}
}

func TestToolGone(t *testing.T) {
	w := newWorld(t, inTurn(reply("", call("c1", "send", "{}"), call("c2", "now", "{}")), reply("Done.")))
	w.tools.define("send", tool.SideEffect, output("sent"))
	w.tools.define("now", tool.ReadOnly, output("noon"))
	id := w.post("Go.")
	if _, err := w.StartRun(t.Context(), tenant, w.session, id); err != nil {
		t.Fatal(err)
	}
	w.tools.defs[0].Description = "Does something else."
	w.start("w1")
	w.over(id)
	if m := w.model.request(2).Messages; !strings.Contains(m[3].Content, "changed") || m[4].Content != "noon" || w.tools.runs("c1") != 0 {
		t.Fatalf("%+v", m)
	}
}

func TestLongResultsAreKeptWhole(t *testing.T) {
	w := newWorld(t, inTurn(reply("", call("c1", "read", "{}")), reply("Done.")))
	w.tools.define("read", tool.ReadOnly, func(context.Context, tool.Call) handlers.ToolOutcome {
		return handlers.ToolOutcome{Success: true, Output: "长…", Full: "长长长", Truncated: true}
	})
	p := w.start("w1")
	id := w.post("Go.")
	w.over(id)
	if r := has[run.ToolCompleted](w, id); r.Size != 3 || !strings.HasPrefix(r.Result, "sha256:") || r.Output != "长…" {
		t.Fatalf("%+v", r)
	}
	if got, err := p.ReadResult(t.Context(), tenant, id, "c1"); err != nil || got != "长长长" {
		t.Fatalf("%q %v", got, err)
	}
	if _, err := p.ReadResult(t.Context(), tenant, id, "c9"); err == nil {
		t.Fatal("read nothing")
	}
	if _, err := p.ReadResult(t.Context(), "other", id, "c1"); err == nil {
		t.Fatal("read another tenant's")
	}
}
