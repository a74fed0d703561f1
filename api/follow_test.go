package api

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/run"
	"refold/infra/memory"
)

// hooked runs a function before deltas are read.
type hooked struct {
	event.Store
	hook func()
}

func (h *hooked) Read(ctx context.Context, s event.Stream, after int64, limit int) ([]event.Raw, error) {
	if s.Category == event.CategoryDelta && h.hook != nil {
		hook := h.hook
		h.hook = nil
		hook()
	}
	return h.Store.Read(ctx, s, after, limit)
}

// story is a run that is written into a store by hand.
type story struct {
	*API
	t             *testing.T
	store         event.Store
	now           time.Time
	facts, deltas int64
	segments      []run.Segment
}

func newStory(t *testing.T, store event.Store) *story {
	now := time.Unix(1_800_000_000, 0).UTC()
	return &story{t: t, store: store, now: now, API: &API{Commands: commands.New(store, nil, func() time.Time { return now }, uuid.NewString), Store: store,
		Tail: &Tail{Store: store, Log: slog.New(slog.DiscardHandler)}}}
}

func (s *story) fact(e run.Event) {
	s.t.Helper()
	if _, err := s.Commands.Runs.Append(s.t.Context(), DefaultTenant, "r", event.Exactly(s.facts), event.Envelope{Time: s.now}, event.Fact[run.Event]{ID: uuid.NewString(), Event: e}); err != nil {
		s.t.Fatal(err)
	}
	s.facts++
}

// say appends a piece of the answer of the model call in progress, the first.
func (s *story) say(text string) {
	s.t.Helper()
	piece := run.Segment{Kind: run.SegAnswer, Text: text}
	s.segments = append(s.segments, piece)
	if _, err := s.Commands.Deltas.Append(s.t.Context(), DefaultTenant, run.DeltaID("r", 1), event.Exactly(s.deltas), event.Envelope{Time: s.now},
		event.Fact[run.Delta]{ID: uuid.NewString(), Event: run.Delta{Segments: []run.Segment{piece}}}); err != nil {
		s.t.Fatal(err)
	}
	s.deltas++
}

func (s *story) begin() {
	s.t.Helper()
	s.fact(run.RunStarted{Run: "r", Session: "s", Request: "q", At: s.now})
}

func (s *story) call() {
	s.t.Helper()
	s.fact(run.ModelCallStarted{Call: 1, Attempt: 1, Purpose: run.PurposeRound, At: s.now})
}

// end closes the call with what was said, and the run.
func (s *story) end() {
	s.t.Helper()
	text, reasoning, shown := run.Compact(s.segments)
	s.fact(run.Thought{Call: 1, Text: text, Reasoning: reasoning, Shown: shown, Purpose: run.PurposeRound, Finish: "stop", At: s.now})
	s.fact(run.RunCompleted{Answer: text, Call: 1, EndReason: run.EndNatural, Rounds: 1, At: s.now})
}

// TestStoredAtTheEnd: a run ends, and its deltas are deleted, between the two
// reads of a reader who comes back. All frames are there all the same.
func TestStoredAtTheEnd(t *testing.T) {
	store := &hooked{Store: memory.New()}
	s := newStory(t, store)
	s.begin()
	s.call()
	s.say("One ")
	s.say("two.")
	ids := func() []string {
		t.Helper()
		feed, leave := s.watch(DefaultTenant, "r")
		defer leave()
		part, err := feed.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return framesOf(part)
	}
	during := ids()
	store.hook = func() {
		s.end()
		if err := store.Trim(t.Context(), event.Stream{Tenant: DefaultTenant, Category: event.CategoryDelta, ID: run.DeltaID("r", 1)}); err != nil {
			t.Error(err)
		}
	}
	between := ids()
	after := ids()
	if len(during) != 3 || len(between) < len(during) || !slices.Equal(between[:len(during)], during) || !slices.Equal(between, after) {
		t.Errorf("during  %v\nbetween %v\nafter   %v", during, between, after)
	}
}

// framesOf are the frames of a part as they are written.
func framesOf(p feedPart) (out []string) {
	from := p.origin
	for _, end := range p.ends {
		out = append(out, string(p.wire[from-p.origin:end-p.origin]))
		from = end
	}
	return out
}
