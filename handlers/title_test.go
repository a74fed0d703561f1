package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"refold/domain/session"
	"refold/handlers"
)

// naming answers questions with "Answer.", and requests for titles as told.
func naming(title script) script {
	return func(ctx context.Context, n int, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if strings.HasPrefix(req.Messages[0].Content, "You name conversations") {
			return title(ctx, n, req, emit)
		}
		return say(emit, "", "Answer.")
	}
}

// titler runs a titler named self; it ends with the test.
func (w *world) titler(self string, sole bool, resume ...handlers.Untitled) {
	w.t.Helper()
	tl := &handlers.Titler{Commands: w.Commands, Store: w.store, Models: w.model, Clock: w.clock, Log: slog.New(slog.DiscardHandler), Self: self, Sole: sole}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tl.Run(ctx, "", resume)
	}()
	w.t.Cleanup(func() {
		cancel()
		w.pump(done)
	})
}

// untitled takes the session's title away and has a run completed.
func (w *world) untitled() string {
	w.t.Helper()
	if _, err := w.UpdateSession(w.t.Context(), w.caller(), w.session, "", ""); err != nil {
		w.t.Fatal(err)
	}
	id := w.post("What is the time?")
	p := w.start("runner")
	w.over(id)
	p.end()
	isEnd(w.t, p)
	return id
}

// sessionFacts lists the facts about titles, in words.
func (w *world) titleFacts() (out []string) {
	w.t.Helper()
	recs, err := w.Sessions.Load(context.Background(), tenant, w.session, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range recs {
		switch e := r.Event.(type) {
		case session.TitleClaimed:
			out = append(out, "claimed by "+e.Owner)
		case session.SessionTitled:
			out = append(out, fmt.Sprintf("%q by %s", e.Title, e.Source))
		}
	}
	return out
}

func (w *world) awaitTitle(want ...string) {
	w.t.Helper()
	w.await("the title", func() bool {
		facts := w.titleFacts()
		return len(facts) > 0 && strings.Contains(facts[len(facts)-1], " by ") && strings.HasPrefix(facts[len(facts)-1], `"`)
	})
	if got, want := strings.Join(w.titleFacts(), "; "), strings.Join(want, "; "); got != want {
		w.t.Errorf("%s, not %s", got, want)
	}
}

// TestTitle_OneProcess: of many processes that see the end of a run, one asks the
// model.
func TestTitle_OneProcess(t *testing.T) {
	w := newWorld(t, naming(func(_ context.Context, _ int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		return say(emit, "", "Title: “The time”\nand more")
	}))
	w.untitled()
	for i := range 5 {
		w.titler(fmt.Sprint("p", i), false)
	}
	w.await("the title", func() bool { return len(w.titleFacts()) >= 2 })
	facts := w.titleFacts()
	if len(facts) != 2 || facts[1] != `"The time" by model` {
		t.Error(facts)
	}
	if n := w.model.count(); n != 2 {
		t.Errorf("%d model calls", n)
	}
}

// TestTitle_LapsedClaim: the title that a dead process has claimed is made when
// its claim lapses, or at once if it is known to be dead.
func TestTitle_LapsedClaim(t *testing.T) {
	for _, sole := range []bool{false, true} {
		w := newWorld(t, naming(func(_ context.Context, _ int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
			return say(emit, "", "T")
		}))
		id := w.untitled()
		if _, err := w.ClaimTitle(t.Context(), tenant, w.session, id, "dead", false, t0.Add(7*time.Second)); err != nil {
			t.Fatal(err)
		}
		w.titler("heir", sole, handlers.Untitled{Tenant: tenant, Session: w.session})
		if !sole {
			w.clock.await(t, 7*time.Second+time.Millisecond)
			w.clock.advance(8 * time.Second)
		}
		w.awaitTitle("claimed by dead", "claimed by heir", `"T" by model`)
	}
}

// TestTitle_ModelFails: the question is the title; so it is when the model has
// killed two processes.
func TestTitle_ModelFails(t *testing.T) {
	w := newWorld(t, naming(func(context.Context, int, handlers.ModelRequest, func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		return handlers.ModelReply{}, &handlers.ModelError{Code: "overloaded", Transient: true}
	}))
	w.untitled()
	w.titler("p", true)
	w.awaitTitle("claimed by p", `"What is the time?" by question`)

	w = newWorld(t, naming(func(context.Context, int, handlers.ModelRequest, func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		panic("asked a third time")
	}))
	id := w.untitled()
	for _, self := range []string{"a", "b"} {
		if _, err := w.ClaimTitle(t.Context(), tenant, w.session, id, self, true, t0.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	w.titler("c", true, handlers.Untitled{Tenant: tenant, Session: w.session})
	w.awaitTitle("claimed by a", "claimed by b", "claimed by c", `"What is the time?" by question`)
}

// TestTitle_Hangs: a model that does not answer is left after its time; what a
// person types meanwhile stays.
func TestTitle_Hangs(t *testing.T) {
	hung := func(ctx context.Context, _ int, _ handlers.ModelRequest, _ func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		<-ctx.Done()
		return handlers.ModelReply{}, context.Cause(ctx)
	}
	w := newWorld(t, naming(hung))
	w.untitled()
	w.titler("p", true)
	w.clock.await(t, 15*time.Second)
	w.clock.advance(15 * time.Second)
	w.awaitTitle("claimed by p", `"What is the time?" by question`)

	release := make(chan struct{})
	w = newWorld(t, naming(func(_ context.Context, _ int, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		<-release
		return say(emit, "", "Too late")
	}))
	id := w.untitled()
	w.titler("p", true)
	w.await("the claim", func() bool { return len(w.titleFacts()) == 1 })
	if _, err := w.UpdateSession(t.Context(), w.caller(), w.session, "Typed", ""); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := w.RecordTitle(t.Context(), tenant, w.session, "p", session.SessionTitled{Run: id, Title: "x"}); err != nil {
		t.Fatal(err)
	}
	if s, err := w.Session(t.Context(), tenant, w.session); err != nil || s.Title != "Typed" {
		t.Errorf("%q, %v", s.Title, err)
	}
	if _, err := w.ClaimTitle(t.Context(), tenant, w.session, id, "q", true, t0.Add(time.Hour)); !errors.Is(err, session.ErrTitleNotDue) {
		t.Errorf("claimed again: %v", err)
	}
}
