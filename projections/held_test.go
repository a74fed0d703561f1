package projections_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"refold/domain/event"
	"refold/domain/session"
	"refold/infra/memory"
	"refold/projections"
)

// What is folded and not stored when the process dies is folded again: each fact
// counts once in every view, also in one that nobody waited for.
func TestHeldChanges_AreFoldedAgainAfterACrash(t *testing.T) {
	b := newBook(t)
	b.session("s1", created)
	d := &memory.Documents{}
	var n, m atomic.Int64
	waited, other := counting(&n), counting(&m)
	other.Name = "other"
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for life := range 3 {
		living, die := context.WithCancel(ctx)
		e := &projections.Engine{Store: b.store, Documents: d, Log: quiet, List: []projections.Projection{waited, other}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.Run(living)
		}()
		for range 5 {
			b.session("s1", session.SessionUpdated{Title: "T", At: t0})
			if err := e.Await(ctx, waited, b.head()); err != nil {
				t.Fatal(err)
			}
		}
		if life == 2 {
			if err := e.Await(ctx, other, b.head()); err != nil {
				t.Fatal(err)
			}
		}
		die()
		<-done
	}
	for _, p := range []projections.Projection{waited, other} {
		if got := documents(t, d, p); !strings.Contains(got, "\n16\n") {
			t.Fatalf("%s: %s", p.Name, got)
		}
	}
}

// commits notes which views are stored.
type commits struct {
	projections.Documents
	of chan string
}

func (c *commits) Commit(ctx context.Context, b projections.Batch) error {
	err := c.Documents.Commit(ctx, b)
	if err == nil {
		c.of <- b.Projection
	}
	return err
}

// A change that nobody waits for is stored too.
func TestHeldChanges_AreStoredByThemselves(t *testing.T) {
	b := newBook(t)
	b.session("s1", created)
	c := &commits{&memory.Documents{}, make(chan string, 1000)}
	var n atomic.Int64
	p := counting(&n)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e := &projections.Engine{Store: b.store, Documents: c, Log: quiet, List: []projections.Projection{p}}
	go e.Run(ctx)
	if err := e.Await(ctx, p, b.head()); err != nil {
		t.Fatal(err)
	}
	<-c.of
	b.session("s1", session.SessionUpdated{Title: "T", At: t0})
	select {
	case <-c.of:
	case <-ctx.Done():
		t.Fatal("the change was never stored")
	}
	if got := documents(t, c, p); !strings.Contains(got, "\n2\n") {
		t.Fatal(got)
	}
}

// halfway is another process that has stored the first of two held facts, just
// before this one stores both.
type halfway struct {
	projections.Documents
	store event.Store
	once  sync.Once
	done  chan struct{}
}

func (h *halfway) Commit(ctx context.Context, b projections.Batch) (err error) {
	if len(b.Put) == 1 && string(b.Put[0].Body) == "3" {
		h.once.Do(func() {
			var raws []event.Raw
			if raws, err = h.store.Read(ctx, event.Stream{Tenant: "acme", Category: session.Category, ID: "s1"}, 1, 1); err == nil {
				theirs := b
				theirs.To, theirs.Put = raws[0].Position, slices.Clone(b.Put)
				theirs.Put[0].Body = []byte("2")
				err = h.Documents.Commit(ctx, theirs)
			}
			close(h.done)
		})
	}
	return errors.Join(err, h.Documents.Commit(ctx, b))
}

// Another process was faster, but has not come as far: this one folds the rest,
// also if nothing happens any more.
func TestHeldChanges_GoOnFromWhereAnotherIs(t *testing.T) {
	b := newBook(t)
	b.session("s1", created)
	h := &halfway{Documents: &memory.Documents{}, store: b.store, done: make(chan struct{})}
	var n atomic.Int64
	p := counting(&n)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e := &projections.Engine{Store: b.store, Documents: h, Log: quiet, List: []projections.Projection{p}}
	go e.Run(ctx)
	if err := e.Await(ctx, p, b.head()); err != nil {
		t.Fatal(err)
	}
	up := session.SessionUpdated{Title: "T", At: t0}
	b.session("s1", up, up)
	select {
	case <-h.done:
	case <-ctx.Done():
		t.Fatal("the change was never stored")
	}
	if err := e.Await(ctx, p, b.head()); err != nil {
		t.Fatal(err)
	}
	if got := documents(t, h, p); !strings.Contains(got, "\n3\n") {
		t.Fatal(got)
	}
}
