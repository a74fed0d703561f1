package projections_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"refold/domain/session"
	"refold/infra/memory"
	"refold/projections"
)

// TestRenew: a view is rebuilt while it is read and written; readers switch to a
// copy that is equal, in this process, in another one, and after a restart.
func TestRenew(t *testing.T) {
	b := newBook(t)
	b.session("s1", created)
	up := session.SessionUpdated{Title: "T", At: t0}
	for range 50 {
		b.session("s1", up)
	}
	d := &memory.Documents{}
	var folded atomic.Int64
	p := counting(&folded)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	engines := []*projections.Engine{}
	for range 2 { // two processes on the same documents
		e := &projections.Engine{Store: b.store, Documents: d, Log: quiet, List: []projections.Projection{p}}
		go e.Run(ctx)
		if err := e.Await(ctx, p, b.head()); err != nil {
			t.Fatal(err)
		}
		engines = append(engines, e)
	}
	count := func(e *projections.Engine) int {
		t.Helper()
		if err := e.Await(ctx, p, b.head()); err != nil {
			t.Fatal(err)
		}
		docs, err := e.Reading().Get(ctx, projections.Key{Collection: p.ID(), Tenant: "acme", ID: "n"})
		if err != nil || len(docs) != 1 {
			t.Fatalf("%d documents, %v", len(docs), err)
		}
		var n int
		if err := json.Unmarshal(docs[0].Body, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	want := 51
	for round := 1; round <= 3; round++ {
		wait, err := engines[0].Renew(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			b.session("s1", up)
			want++
		}
		if err := wait(ctx); err != nil {
			t.Fatal(err)
		}
		read, err := engines[0].Resolve(ctx, p)
		if err != nil || read.ID() != fmt.Sprintf("count@1#%d", round) {
			t.Fatalf("readers read %s, %v", read.ID(), err)
		}
		b.session("s1", up)
		want++
		for i, e := range engines {
			if got := count(e); got != want {
				t.Fatalf("round %d, process %d counts %d events, want %d", round, i, got, want)
			}
		}
		if at, err := d.Checkpoint(ctx, fmt.Sprintf("count@1#%d", round-1)); err != nil || round > 1 && at != "" {
			t.Fatalf("the old copy is still there at %q, %v", at, err)
		}
		if n := len(engines[0].Building()); n != 0 {
			t.Fatalf("%d views are said to be in the making", n)
		}
	}
	again := &projections.Engine{Store: b.store, Documents: d, Log: quiet, List: []projections.Projection{p}}
	go again.Run(ctx)
	before := folded.Load()
	if got := count(again); got != want || folded.Load() != before {
		t.Fatalf("after a restart: %d events, %d folded anew", got, folded.Load()-before)
	}
}

func TestRenew_OneAtATime(t *testing.T) {
	b := newBook(t)
	b.session("s1", created)
	var folded atomic.Int64
	p := counting(&folded)
	e := &projections.Engine{Store: b.store, Documents: &memory.Documents{}, Log: quiet, List: []projections.Projection{p}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := e.Renew(ctx, p); err != nil { // nobody runs the engine: it can't end
		t.Fatal(err)
	}
	if _, err := e.Renew(ctx, p); err != projections.ErrRenewing {
		t.Fatalf("a second rebuild: %v", err)
	}
}
