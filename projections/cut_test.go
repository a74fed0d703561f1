package projections_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"refold/domain/event"
	"refold/domain/session"
	"refold/infra/memory"
	"refold/projections"
)

// cuttable is a store whose connection can be cut: every scan and wait fails
// until it is mended.
type cuttable struct {
	event.Store
	cut   atomic.Bool
	drops atomic.Int64
}

var errCut = fmt.Errorf("%w: cut", event.ErrUnavailable)

func (c *cuttable) Scan(ctx context.Context, after event.Position, f event.Filter, limit int) ([]event.Raw, event.Position, error) {
	if c.cut.Load() {
		c.drops.Add(1)
		return nil, after, errCut
	}
	return c.Store.Scan(ctx, after, f, limit)
}

func (c *cuttable) Wait(ctx context.Context, after event.Position) error {
	if err := c.Store.Wait(ctx, after); err != nil {
		return err
	}
	if c.cut.Load() {
		c.drops.Add(1)
		return errCut
	}
	return nil
}

func TestP86_TheSubscriptionSurvivesEveryCut(t *testing.T) {
	b := newBook(t)
	s := &cuttable{Store: b.store}
	var folded atomic.Int64
	p := counting(&folded)
	e := &projections.Engine{Store: s, Documents: &memory.Documents{}, Log: quiet, List: []projections.Projection{p}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go e.Run(ctx)
	b.session("s1", created)
	if err := e.Await(ctx, p, b.head()); err != nil {
		t.Fatal(err)
	}
	up := session.SessionUpdated{Title: "T", At: t0}
	for cut := range 3 {
		s.cut.Store(true)
		before := s.drops.Load()
		for range 100 {
			b.session("s1", up)
		}
		for s.drops.Load() == before { // the cut is noticed while events are there
			if err := ctx.Err(); err != nil {
				t.Fatalf("cut %d was not noticed: %v", cut+1, err)
			}
			if err := s.Store.Wait(ctx, ""); err != nil {
				t.Fatal(err)
			}
		}
		s.cut.Store(false)
		if err := e.Await(ctx, p, b.head()); err != nil {
			t.Fatalf("after cut %d: %v", cut+1, err)
		}
	}
	if folded.Load() != 301 {
		t.Fatalf("%d events folded, want each of 301 once", folded.Load())
	}
}
