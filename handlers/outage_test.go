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
