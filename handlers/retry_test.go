package handlers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/handlers"
	"refold/projections"
)

// frames are what a reader who comes later is shown.
func (w *world) frames(id string) []projections.Frame {
	recs, err := w.Runs.Load(context.Background(), tenant, id, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	raw, _, err := w.store.Scan(context.Background(), "", event.Filter{Categories: []string{run.Category}}, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	at := map[string]event.Position{}
	for _, r := range raw {
		at[r.ID] = r.Position
	}
	var feed projections.RunFeed
	var out []projections.Frame
	for _, r := range recs {
		r.Position = at[r.ID]
		out = append(out, feed.Fact(r)...)
	}
	return out
}

func TestP36_RetryAfterStreamedText(t *testing.T) {
	w := newWorld(t, func(_ context.Context, n int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if n == 1 {
			if err := emit(handlers.ModelDelta{Content: "The answer is"}); err != nil {
				return handlers.ModelReply{}, err
			}
			return handlers.ModelReply{}, &handlers.ModelError{Code: "connection", Message: "reset", Transient: true}
		}
		return say(emit, "", "The answer is 42.")
	})
	w.start("w1")
	id := w.post("What?")
	w.clock.await(t, time.Second)
	w.clock.advance(time.Second)
	if s := w.over(id); s.Answer != "The answer is 42." {
		t.Fatalf("%+v", s)
	}
	failed := has[run.ModelCallFailed](w, id)
	if failed.Text != "The answer is" || failed.Shown.Cuts != "a13" || !failed.RetryAt.Equal(t0.Add(time.Second)) {
		t.Fatalf("%+v", failed)
	}
	superseded, shown := 0, ""
	for _, f := range w.frames(id) {
		if text := string(f.Data); strings.Contains(text, `"superseded":true`) {
			superseded++
			shown = ""
		} else if strings.Contains(text, `"response_type":"answer"`) {
			_, rest, _ := strings.Cut(text, `"content":"`)
			content, _, _ := strings.Cut(rest, `"`)
			shown += content
		}
	}
	if superseded != 1 || shown != "The answer is 42." {
		t.Fatalf("%d superseded, then %q", superseded, shown)
	}
}

func TestP37_WaitsAsLongAsAsked(t *testing.T) {
	overloaded := func(_ context.Context, n int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if n == 1 {
			return handlers.ModelReply{}, &handlers.ModelError{Code: "rate_limited", Status: 429, Message: "slow down", Transient: true, RetryAfter: 7 * time.Second}
		}
		return say(emit, "", "Noon.")
	}
	t.Run("waits", func(t *testing.T) {
		w := newWorld(t, overloaded)
		p := w.start("w1")
		id := w.post("What?")
		w.clock.await(t, 7*time.Second)
		if p.Active() != 0 || p.Parked() != 1 {
			t.Fatalf("%d active, %d parked: a waiting run is data", p.Active(), p.Parked())
		}
		if why, when := p.WaitsFor(tenant, id), t0.Add(7*time.Second).Local().Format(time.TimeOnly); why != "slow down; asked again at "+when {
			t.Fatalf("waits for %q", why)
		}
		w.clock.advance(6999 * time.Millisecond)
		if w.model.count() != 1 {
			t.Fatal("too early")
		}
		w.clock.advance(time.Millisecond)
		w.over(id)
		for _, e := range w.facts(id) {
			if e, ok := e.(run.ModelCallStarted); ok && e.Attempt == 2 && !e.At.Equal(t0.Add(7*time.Second)) {
				t.Fatalf("%+v", e)
			}
		}
	})
	t.Run("a stop ends the wait", func(t *testing.T) {
		w := newWorld(t, overloaded)
		w.start("w1")
		id := w.post("What?")
		w.clock.await(t, 7*time.Second)
		if _, err := w.StopRun(t.Context(), w.caller(), w.session, id, ""); err != nil {
			t.Fatal(err)
		}
		if s := w.over(id); s.Outcome != run.OutcomeStopped || w.model.count() != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestA11_ModelTimeout(t *testing.T) {
	w := newWorld(t, func(ctx context.Context, n int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if n > 1 {
			return say(emit, "", "Noon.")
		}
		<-ctx.Done()
		return handlers.ModelReply{}, ctx.Err()
	})
	w.start("w1")
	id := w.post("What?")
	w.clock.await(t, 120*time.Second)
	w.clock.advance(120 * time.Second)
	if f := has[run.ModelCallFailed](w, id); f.Code != "timeout" || !f.RetryAt.Equal(t0.Add(121*time.Second)) || !strings.Contains(f.Message, "--model-timeout") {
		t.Fatalf("%+v", f)
	}
	w.clock.await(t, 121*time.Second)
	w.clock.advance(time.Second)
	w.over(id)
}
