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

// TestStoredAtTheEnd: a run ends, and its deltas are deleted, between the two
// reads of a reader who comes back. All frames are there all the same.
func TestStoredAtTheEnd(t *testing.T) {
	ctx := t.Context()
	store := &hooked{Store: memory.New()}
	now := time.Unix(1_800_000_000, 0).UTC()
	c := commands.New(store, nil, func() time.Time { return now }, uuid.NewString)
	a := &API{Commands: c, Store: store, Tail: &Tail{Store: store, Log: slog.New(slog.DiscardHandler)}}
	version := int64(0)
	fact := func(e run.Event) {
		t.Helper()
		if _, err := c.Runs.Append(ctx, DefaultTenant, "r", event.Exactly(version), event.Envelope{Time: now},
			event.Fact[run.Event]{ID: uuid.NewString(), Event: e}); err != nil {
			t.Fatal(err)
		}
		version++
	}
	fact(run.RunStarted{Run: "r", Session: "s", Request: "q", At: now})
	fact(run.ModelCallStarted{Call: 1, Attempt: 1, Purpose: run.PurposeRound, At: now})
	segments := []run.Segment{{Kind: run.SegAnswer, Text: "One "}, {Kind: run.SegAnswer, Text: "two."}}
	for i, s := range segments {
		if _, err := c.Deltas.Append(ctx, DefaultTenant, run.DeltaID("r", 1), event.Exactly(int64(i)), event.Envelope{Time: now},
			event.Fact[run.Delta]{ID: uuid.NewString(), Event: run.Delta{Segments: []run.Segment{s}}}); err != nil {
			t.Fatal(err)
		}
	}
	ids := func() []string {
		t.Helper()
		feed, leave := a.watch(DefaultTenant, "r")
		defer leave()
		part, err := feed.next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return framesOf(part)
	}
	during := ids()
	store.hook = func() {
		text, reasoning, shown := run.Compact(segments)
		fact(run.Thought{Call: 1, Text: text, Reasoning: reasoning, Shown: shown, Purpose: run.PurposeRound, Finish: "stop", At: now})
		fact(run.RunCompleted{Answer: text, Call: 1, EndReason: run.EndNatural, Rounds: 1, At: now})
		if err := store.Trim(ctx, event.Stream{Tenant: DefaultTenant, Category: event.CategoryDelta, ID: run.DeltaID("r", 1)}); err != nil {
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
