package handlers_test

import (
	"context"
	"testing"
	"time"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tool"
	"refold/handlers"
	"refold/tests/scenario"
)

// shared makes a process one of several on the same log.
func shared(r *handlers.Runner) { r.Sole = false }

func TestEnd_HandsTheModelCallBack(t *testing.T) {
	w := newWorld(t, func(ctx context.Context, n int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if n > 1 {
			return say(emit, "", "Noon.")
		}
		if err := emit(handlers.ModelDelta{Content: "No"}); err != nil {
			return handlers.ModelReply{}, err
		}
		<-ctx.Done()
		return handlers.ModelReply{}, ctx.Err()
	})
	first := w.start("w1", shared)
	id := w.post("What?")
	w.await("a piece", func() bool { return len(w.deltas(id, 1)) == 1 })
	first.end()
	isEnd(t, first)
	if f := has[run.ModelCallFailed](w, id); f.Code != run.CodeLost || f.Text != "No" || !f.RetryAt.Equal(t0) {
		t.Fatalf("%+v", f)
	}
	// Nobody has to wait for the deadline of the claim.
	w.start("w2", shared)
	if s := w.over(id); s.Answer != "Noon." {
		t.Fatalf("%+v", s)
	}
}

func TestEnd_KeepsAReplyThatIsThere(t *testing.T) {
	var first *process
	ready := make(chan struct{})
	w := newWorld(t, func(ctx context.Context, _ int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		<-ready
		first.end()
		<-ctx.Done() // told to end; the reply is complete all the same
		return say(func(handlers.ModelDelta) error { return nil }, "", "")
	})
	first = w.start("w1", shared)
	close(ready)
	id := w.post("What?")
	isEnd(t, first)
	scenario.Equal(t, "facts", []string{"RunStarted", "ModelCallStarted", "Thought", "Nudged"}, w.kinds(id))
}

func TestEnd_HandsAReadingToolBack(t *testing.T) {
	begun := make(chan struct{}, 1)
	w := newWorld(t, inTurn(reply("", call("c1", "now", "{}")), reply("Noon.")))
	w.tools.define("now", tool.ReadOnly, blocked(begun))
	first := w.start("w1", shared)
	id := w.post("What?")
	<-begun
	first.end()
	isEnd(t, first)
	if u := has[run.ToolOutcomeUnknown](w, id); !u.Repeat {
		t.Fatalf("%+v", u)
	}
	w.tools.run["now"] = output("12:00")
	w.start("w2", shared)
	w.over(id)
	if w.tools.ran[1].Attempt != 2 {
		t.Fatalf("%+v", w.tools.ran)
	}
}

func TestEnd_AToolWithSideEffectsMayFinish(t *testing.T) {
	begun, finish := make(chan struct{}, 1), make(chan struct{})
	w := newWorld(t, inTurn(reply("", call("c1", "send", "{}")), reply("Sent.")))
	w.tools.define("send", tool.SideEffect, func(ctx context.Context, _ tool.Call) handlers.ToolOutcome {
		begun <- struct{}{}
		<-finish
		return handlers.ToolOutcome{Success: ctx.Err() == nil, Output: "sent"}
	})
	first := w.start("w1", shared)
	id := w.post("Send it.")
	<-begun
	first.end()
	close(finish)
	isEnd(t, first)
	if r := has[run.ToolCompleted](w, id); !r.Success {
		t.Fatalf("%+v", r)
	}
	w.start("w2", shared)
	w.over(id)
	if w.tools.runs("c1") != 1 {
		t.Fatal("twice")
	}
}

func TestEnd_AToolWithSideEffectsIsCutOffInTheEnd(t *testing.T) {
	begun := make(chan struct{}, 1)
	w := newWorld(t, inTurn(reply("", call("c1", "send", "{}"))))
	w.tools.define("send", tool.SideEffect, blocked(begun))
	first := w.start("w1", shared, func(r *handlers.Runner) { r.Drain = 3 * time.Second })
	id := w.post("Send it.")
	<-begun
	first.end()
	w.clock.await(t, 3*time.Second)
	w.clock.advance(3 * time.Second)
	isEnd(t, first)
	scenario.Equal(t, "facts", []string{"RunStarted", "ModelCallStarted", "Thought", "ToolCallRequested", "ToolStarted", "ToolOutcomeUnknown", "ApprovalRequired"}, w.kinds(id))
}

func TestP53_ApprovalAfterARestart(t *testing.T) {
	w := newWorld(t, inTurn(reply("", call("c1", "pay", "{}")), reply("Paid.")))
	w.tools.define("pay", tool.SideEffect, output("paid"))
	w.tools.defs[0].Approval = true
	first := w.start("w1")
	id := w.post("Pay.")
	a := has[run.ApprovalRequired](w, id)
	w.clock.await(t, run.DefaultApprovalTimeout) // parked: data, no goroutine
	if first.Active() != 0 || first.Parked() != 1 {
		t.Fatalf("%d active, %d parked", first.Active(), first.Parked())
	}
	first.end()
	isEnd(t, first)
	w.start("w2")
	w.clock.await(t, run.DefaultApprovalTimeout) // parked again
	if _, err := w.ResolveApproval(t.Context(), w.caller(), commands.Decision{Run: id, Approval: a.Approval, Approve: true}); err != nil {
		t.Fatal(err)
	}
	if s := w.over(id); s.Answer != "Paid." || w.tools.runs("c1") != 1 {
		t.Fatalf("%+v", s)
	}
	if _, err := w.ResolveApproval(t.Context(), w.caller(), commands.Decision{Run: id, Approval: a.Approval, Approve: true}); err == nil {
		t.Fatal("resolved twice")
	}
}

func TestP54_ApprovalExpires(t *testing.T) {
	w := newWorld(t, inTurn(reply("", call("c1", "pay", "{}")), reply("Not paid.")))
	w.tools.define("pay", tool.SideEffect, output("paid"))
	w.tools.defs[0].Approval = true
	w.start("w1")
	id := w.post("Pay.")
	w.clock.await(t, run.DefaultApprovalTimeout)
	w.clock.advance(run.DefaultApprovalTimeout)
	if s := w.over(id); s.Answer != "Not paid." || w.tools.runs("c1") != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestTwoProcesses_WorkOnce(t *testing.T) {
	w := newWorld(t, func(_ context.Context, _ int, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if n := len(req.Messages); n < 2+10*3 {
			return say(emit, "", "", call("", "send", "{}"), call("", "now", "{}"))
		}
		return say(emit, "", "Done.")
	})
	n := 0
	w.tools.define("now", tool.ReadOnly, func(context.Context, tool.Call) handlers.ToolOutcome {
		w.tools.mu.Lock()
		defer w.tools.mu.Unlock()
		n++ // another result each time, so that it is no loop
		return handlers.ToolOutcome{Success: true, Output: time.Duration(n).String()}
	})
	w.tools.define("send", tool.SideEffect, output("sent"))
	for _, self := range []string{"w1", "w2", "w3"} {
		w.start(self, shared)
	}
	var ids []string
	for range 4 {
		id := w.post("Go.")
		w.over(id)
		ids = append(ids, id)
	}
	for _, id := range ids {
		claims := map[string]int{}
		for _, e := range w.facts(id) {
			switch e := e.(type) {
			case run.ToolStarted:
				claims[e.Call]++
			case run.ModelCallFailed, run.ToolOutcomeUnknown, run.ApprovalRequired:
				t.Fatalf("%T: %+v", e, e)
			}
		}
		for call, n := range claims {
			if n != 1 {
				t.Fatalf("%s was claimed %d times", call, n)
			}
		}
	}
	if w.model.count() != w.state(ids[0]).ModelCalls+w.state(ids[1]).ModelCalls+w.state(ids[2]).ModelCalls+w.state(ids[3]).ModelCalls {
		t.Fatal("a model call was made that nobody had claimed")
	}
}

func TestP87_DeadOwner_ItsClaimIsVoidAtTheDeadline(t *testing.T) {
	w := newWorld(t, answers("Noon."))
	id := w.post("What?")
	r, err := w.StartRun(t.Context(), tenant, w.session, id)
	if err != nil {
		t.Fatal(err)
	}
	dead := run.Moment{Now: t0, Self: "dead"}
	if _, err := r.Do(t.Context(), w.caller(), "test", func(run.State) ([]run.Command, error) {
		return []run.Command{run.ClaimModel{Moment: dead, Attempt: 1, Purpose: run.PurposeRound, Deadline: t0.Add(50 * time.Second)}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	w.start("w1", shared)
	w.clock.await(t, 50*time.Second)
	w.clock.advance(50 * time.Second)
	if s := w.over(id); s.Answer != "Noon." || s.ModelCalls != 2 {
		t.Fatalf("%+v", s)
	}
}

func TestResume_WithoutReadingTheLogAgain(t *testing.T) {
	w := newWorld(t, answers("Noon."))
	id := w.post("What?")
	head, err := w.store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	p := w.runner("w2")
	go func() {
		defer close(done)
		_ = p.Run(ctx, head, []handlers.OpenRun{{Tenant: tenant, Session: w.session, Run: id}})
	}()
	w.over(id)
	cancel()
	w.pump(done)
}

func TestSweepDeltas(t *testing.T) {
	w := newWorld(t, answers("Noon."))
	p := w.start("w1")
	id := w.post("What?")
	w.over(id)
	p.end()
	isEnd(t, p)
	open := w.post("And now?")
	if _, err := w.StartRun(t.Context(), tenant, w.session, open); err != nil {
		t.Fatal(err)
	}
	left := func(runID string) event.Stream {
		s := event.Stream{Tenant: tenant, Category: event.CategoryDelta, ID: run.DeltaID(runID, 7)}
		if _, err := w.CloseDeltas(t.Context(), tenant, runID, 7); err != nil {
			t.Fatal(err)
		}
		return s
	}
	ended, going := left(id), left(open)
	if err := p.SweepDeltas(t.Context()); err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[event.Stream]int{ended: 0, going: 1} {
		if got, err := w.store.Read(t.Context(), stream, 0, 0); err != nil || len(got) != want {
			t.Fatalf("%s: %d left, %v", stream, len(got), err)
		}
	}
}
