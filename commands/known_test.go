package commands_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/session"
	"refold/infra/memory"
)

// counting counts the session events that are read.
type counting struct {
	event.Store
	read atomic.Int64
}

func (c *counting) Read(ctx context.Context, s event.Stream, after int64, limit int) ([]event.Raw, error) {
	raws, err := c.Store.Read(ctx, s, after, limit)
	if s.Category == session.Category {
		c.read.Add(int64(len(raws)))
	}
	return raws, err
}

func (o *office) renamed(id, title string) {
	o.t.Helper()
	if _, err := o.UpdateSession(o.t.Context(), ada, id, title, ""); err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) title(id string) string {
	o.t.Helper()
	s, err := o.Session(o.t.Context(), "acme", id)
	if err != nil {
		o.t.Fatal(err)
	}
	return s.Title
}

func TestKnown_ReadsWhatCameSince(t *testing.T) {
	store := &counting{Store: memory.New()}
	o := newOffice(t, store)
	id := o.opened()
	for i := range 100 {
		o.renamed(id, fmt.Sprint(i))
	}
	store.read.Store(0)
	for i := range 100 {
		o.renamed(id, fmt.Sprint("again ", i))
		if want := fmt.Sprint("again ", i); o.title(id) != want {
			t.Fatal(o.title(id), want)
		}
	}
	if n := store.read.Load(); n != 101 { // each once, and the last one from before
		t.Fatalf("%d events read", n)
	}
}

// What another process has appended is seen by the next request.
func TestKnown_TwoProcesses(t *testing.T) {
	store := memory.New()
	a, b := newOffice(t, store), newOffice(t, store)
	b.n = 5000
	id := a.opened()
	for i := range 20 {
		one, two := a, b
		if i%2 == 0 {
			one, two = b, a
		}
		one.renamed(id, fmt.Sprint(i))
		if got := two.title(id); got != fmt.Sprint(i) {
			t.Fatalf("%q after %d", got, i)
		}
	}
}

// Many requests that go on from one known state leave it whole.
func TestKnown_AtTheSameTime(t *testing.T) {
	store := memory.New()
	a, b := newOffice(t, store), newOffice(t, store)
	b.n = 5000
	id := a.opened()
	var wait sync.WaitGroup
	for w := range 4 {
		o := []*office{a, b}[w%2]
		wait.Go(func() {
			for range 25 {
				p := commands.PostMessage{Session: id, Query: "?", Agent: "a"}
				if _, err := o.Send(t.Context(), ada, p, commands.BusyEnqueue); err != nil && code(err) != "queue_full" {
					t.Error(err)
				}
				if _, err := o.Session(t.Context(), "acme", id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	fresh := newOffice(t, store)
	want, _, err := fresh.SessionRecord(t.Context(), "acme", id)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []*office{a, b} {
		got, _, err := o.SessionRecord(t.Context(), "acme", id)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%d facts, want %d; %v", len(got), len(want), err)
		}
		for i := range got {
			if got[i].ID != want[i].ID || got[i].Version != int64(i+1) {
				t.Fatalf("fact %d is %s at %d", i, got[i].ID, got[i].Version)
			}
		}
	}
}

// A tenant is never shown what is known of another's session of the same id.
func TestKnown_ATenantsOwn(t *testing.T) {
	o := newOffice(t, memory.New())
	id := o.opened()
	if recs, _, err := o.SessionRecord(t.Context(), "umbrella", id); err != nil || len(recs) > 0 {
		t.Fatalf("%d facts, %v", len(recs), err)
	}
}

// More sessions than are kept, and one whose texts are too long to be kept, are
// read anew and right.
func TestKnown_Bounded(t *testing.T) {
	store := &counting{Store: memory.New()}
	o := newOffice(t, store)
	var ids []string
	for i := range 300 {
		ids = append(ids, o.opened())
		o.renamed(ids[i], fmt.Sprint(i))
		o.title(ids[i])
	}
	store.read.Store(0)
	for i, id := range ids {
		if got := o.title(id); got != fmt.Sprint(i) {
			t.Fatalf("%q for %d", got, i)
		}
	}
	if n := store.read.Load(); n != 600 { // those used last push out the others
		t.Fatalf("%d events read", n)
	}
	long := o.opened()
	query := strings.Repeat("长", session.MaxQuery)
	if _, err := o.Send(t.Context(), ada, commands.PostMessage{Session: long, Query: query, Agent: "a"}, commands.BusyEnqueue); err != nil {
		t.Fatal(err)
	}
	p, err := o.Send(t.Context(), ada, commands.PostMessage{Session: long, Query: "?", Agent: "a"}, commands.BusyEnqueue)
	if err != nil || !p.Queued {
		t.Fatal(err)
	}
	for range 113 { // 300 kB each
		if _, err := o.EditQueued(t.Context(), ada, long, p.Message, query); err != nil {
			t.Fatal(err)
		}
	}
	store.read.Store(0)
	s, err := o.Session(t.Context(), "acme", long)
	if err != nil || len(s.Queue) != 1 || s.Queue[0].Query != query {
		t.Fatal(len(s.Queue), err)
	}
	if n := store.read.Load(); n < 113 {
		t.Fatalf("%d events read: all of them are kept", n)
	}
}
