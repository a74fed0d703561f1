package projections_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"refold/domain/event"
	"refold/domain/session"
	"refold/infra/memory"
	"refold/projections"
)

// holed is a log with an event that can't be read.
type holed struct {
	event.Store
	damaged atomic.Bool
}

func (h *holed) Scan(ctx context.Context, after event.Position, f event.Filter, limit int) ([]event.Raw, event.Position, error) {
	if h.damaged.Load() {
		return nil, after, event.Damaged(event.Raw{New: event.New{Type: "ToolCompleted"}, Position: "0000000000000007"}, fmt.Errorf("%w: no metadata", event.ErrCorrupt))
	}
	return h.Store.Scan(ctx, after, f, limit)
}

// Damage of the log ends a view, with its place, and is not waited out: before
// the view has caught up, and after.
func TestDamagedLog_EndsTheViews(t *testing.T) {
	for _, later := range []bool{false, true} {
		b := newBook(t)
		b.session("s1", created)
		log := &holed{Store: b.store}
		log.damaged.Store(!later)
		var n atomic.Int64
		view := counting(&n)
		e := &projections.Engine{Store: log, Documents: &memory.Documents{}, Log: quiet, List: []projections.Projection{view}}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		go e.Run(ctx)
		if later {
			if err := e.Await(ctx, view, b.head()); err != nil {
				t.Fatal(err)
			}
			log.damaged.Store(true)
			b.session("s1", session.SessionUpdated{Title: "T", At: t0})
		}
		err := e.Await(ctx, view, b.head())
		var damaged *event.DamagedError
		if !errors.As(err, &damaged) || damaged.Position != "0000000000000007" || errors.Is(err, projections.ErrBehind) {
			t.Errorf("later %v: %v", later, err)
		}
		if broken := e.Broken(); len(broken) != 1 {
			t.Errorf("later %v: broken are %v", later, broken)
		}
	}
}
