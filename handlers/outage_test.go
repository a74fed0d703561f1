package handlers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tool"
	"refold/handlers"
	"refold/tests/scenario"
)

// flaky is a store that refuses some appends; nothing of them is written.
type flaky struct {
	event.Store
	mu      sync.Mutex
	refuses func(event.Stream, []event.New) bool
	refused chan struct{} // one for each
}

func (f *flaky) Append(ctx context.Context, s event.Stream, e event.Expect, events ...event.New) (event.Appended, error) {
	f.mu.Lock()
	no := f.refuses(s, events)
	f.mu.Unlock()
	if no {
		select {
		case f.refused <- struct{}{}:
		default:
		}
		return event.Appended{}, fmt.Errorf("%w: the disk is full", event.ErrUnavailable)
	}
	return f.Store.Append(ctx, s, e, events...)
}

// flaky starts a process whose store refuses appends.
func (w *world) flaky(self string, refuses func(event.Stream, []event.New) bool) (*process, *flaky) {
	f := &flaky{Store: w.store, refuses: refuses, refused: make(chan struct{}, 100)}
	return w.start(self, func(r *handlers.Runner) {
		c := *r.Commands
		c.Runs.Store, c.Deltas.Store, c.Sessions.Store = f, f, f
		r.Store, r.Commands = f, &c
	}), f
}

func TestOutage_AResultIsNotLost(t *testing.T) {
	w := newWorld(t, inTurn(reply("", call("c1", "send", "{}")), reply("Sent.")))
	w.tools.define("send", tool.SideEffect, output("sent"))
	left := 2
	w.flaky("w1", func(_ event.Stream, events []event.New) bool {
		if events[0].Type != "ToolCompleted" || left == 0 {
			return false
		}
		left--
		return true
	})
	id := w.post("Send it.")
	w.clock.await(t, 100*time.Millisecond)
	w.clock.advance(100 * time.Millisecond)
	w.clock.await(t, 300*time.Millisecond)
	w.clock.advance(200 * time.Millisecond)
	if s := w.over(id); s.Answer != "Sent." || w.tools.runs("c1") != 1 {
		t.Fatalf("ran %d times: %+v", w.tools.runs("c1"), s)
	}
	scenario.Equal(t, "facts", []string{"RunStarted", "ModelCallStarted", "Thought", "ToolCallRequested", "ToolStarted", "ToolCompleted",
		"ModelCallStarted", "Thought", "RunCompleted"}, w.kinds(id))
}

func TestOutage_WithoutDeltasTheTextComesWithTheFact(t *testing.T) {
	w := newWorld(t, func(_ context.Context, _ int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		return say(emit, "hm", "Noon.")
	})
	w.flaky("w1", func(s event.Stream, _ []event.New) bool { return s.Transient() })
	id := w.post("What?")
	if s := w.over(id); s.Answer != "Noon." || s.Steps[0].Thought.Reasoning != "hm" {
		t.Fatalf("%+v", s)
	}
}

func TestOutage_TheProcessCanEnd(t *testing.T) {
	w := newWorld(t, answers("Noon."))
	p, f := w.flaky("w1", func(s event.Stream, _ []event.New) bool { return s.Category == run.Category })
	id := w.post("What?")
	<-f.refused
	p.end() // no time passes
	isEnd(t, p)
	if len(w.facts(id)) != 0 {
		t.Fatal("something was written")
	}
	w.start("w2")
	w.over(id)
}

func TestRunDeadline(t *testing.T) {
	blocks := func(ctx context.Context, _ int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if err := emit(handlers.ModelDelta{Content: "So far"}); err != nil {
			return handlers.ModelReply{}, err
		}
		<-ctx.Done()
		return handlers.ModelReply{}, ctx.Err()
	}
	t.Run("in a model call", func(t *testing.T) {
		w := newWorld(t, blocks)
		w.agent.RunTimeout = time.Minute
		w.start("w1")
		id := w.post("What?")
		w.clock.await(t, time.Minute) // not the two minutes of a model call
		w.await("a piece", func() bool { return len(w.deltas(id, 1)) == 1 })
		w.clock.advance(time.Minute)
		if s := w.over(id); s.EndReason != run.EndDeadline || s.Answer != "So far" {
			t.Fatalf("%+v", s)
		}
	})
	t.Run("while a person is asked", func(t *testing.T) {
		w := newWorld(t, inTurn(reply("", call("c1", "pay", "{}"), call("c2", "now", "{}")), reply("Noon.")))
		w.agent.RunTimeout = time.Minute
		w.tools.define("now", tool.ReadOnly, output("12:00"))
		w.tools.define("pay", tool.SideEffect, output("paid"))
		w.tools.defs[1].Approval = true
		w.start("w1")
		id := w.post("Pay.")
		has[run.ToolCompleted](w, id)
		w.clock.await(t, time.Minute)
		w.clock.advance(time.Minute)
		if s := w.over(id); s.EndReason != run.EndDeadline || s.Answer != "Noon." || !s.Degraded || w.tools.runs("c1") != 0 {
			t.Fatalf("%+v", s)
		}
		if req := w.model.request(2); len(req.Tools) != 0 {
			t.Fatal("a synthesis offers no tools")
		}
	})
}

// fragile is a toolbox that breaks down once, in the actor itself.
type fragile struct {
	*toolbox
	once sync.Once
}

func (f *fragile) Hash(name string) string {
	f.once.Do(func() { panic("a bug") })
	return f.toolbox.Hash(name)
}

func TestPanicInTheRunner_TheRunIsLookedAtAgain(t *testing.T) {
	w := newWorld(t, inTurn(reply("", call("c1", "now", "{}")), reply("", call("c1", "now", "{}")), reply("Noon.")))
	w.tools.define("now", tool.ReadOnly, output("12:00"))
	w.start("w1", func(r *handlers.Runner) { r.Tools = &fragile{toolbox: w.tools} })
	id := w.post("What?")
	// The reply was not recorded, and nobody works on the claim any more.
	w.clock.await(t, time.Minute)
	w.clock.advance(time.Minute)
	if s := w.over(id); s.Outcome != run.OutcomeCompleted || s.ModelCalls != 3 || len(w.tools.ran) != 1 {
		t.Fatalf("%+v", s)
	}
}

// deaf is a store that writes one claim and fails to say so.
type deaf struct {
	event.Store
	kind string
	once sync.Once
}

func (d *deaf) Append(ctx context.Context, s event.Stream, e event.Expect, events ...event.New) (event.Appended, error) {
	a, err := d.Store.Append(ctx, s, e, events...)
	if err == nil && events[len(events)-1].Type == d.kind {
		d.once.Do(func() { err = fmt.Errorf("%w: the answer got lost", event.ErrUnavailable) })
	}
	return a, err
}

func TestAClaimThatWasWrittenUnheard(t *testing.T) {
	for kind, want := range map[string]int{"ModelCallStarted": 3, "ToolStarted": 2} {
		w := newWorld(t, func(_ context.Context, _ int, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
			if len(req.Messages) == 2 {
				return say(emit, "", "", call("c1", "now", "{}"))
			}
			return say(emit, "", "Noon.")
		})
		w.tools.define("now", tool.ReadOnly, output("12:00"))
		d := &deaf{Store: w.store, kind: kind}
		w.start("w1", func(r *handlers.Runner) {
			c := *r.Commands
			c.Runs.Store = d
			r.Store, r.Commands = d, &c
		})
		id := w.post("What?")
		w.clock.await(t, 100*time.Millisecond)
		w.clock.advance(100 * time.Millisecond)
		if s := w.over(id); s.Answer != "Noon." || s.ModelCalls != want || w.tools.runs("c1") != 1 {
			t.Fatalf("%s: %d model calls, %+v", kind, s.ModelCalls, s)
		}
	}
}
