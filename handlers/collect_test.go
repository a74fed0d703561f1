package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"refold/handlers"
	"refold/infra/memory"
)

// shelves are a blob store with the references that its users have recorded.
type shelves struct {
	memory.Blobs
	mu   sync.Mutex
	refs map[[2]string]bool
	fail error
}

func (l *shelves) refer(tenant, digest string, on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refs == nil {
		l.refs = map[[2]string]bool{}
	}
	l.refs[[2]string{tenant, digest}] = on
}

func (l *shelves) inUse(_ context.Context, contents []handlers.Content) ([]bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]bool, len(contents))
	for i, c := range contents {
		out[i] = l.refs[[2]string{c.Tenant, c.Digest}]
	}
	return out, l.fail
}

func (l *shelves) put(t *testing.T, tenant, content string) string {
	digest, err := l.Put(context.Background(), tenant, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func (l *shelves) has(tenant, digest string) bool {
	_, _, err := l.Open(context.Background(), tenant, digest)
	return err == nil
}

func (l *shelves) collector(c *clock) *handlers.Collector {
	return &handlers.Collector{Contents: l, InUse: l.inUse, Clock: c, Log: slog.New(slog.DiscardHandler), Grace: 1, Every: time.Hour}
}

func pass(t *testing.T, c *handlers.Collector, checked, unused, removed int) {
	t.Helper()
	got, err := c.Pass(t.Context())
	if err != nil || got.Checked != checked || got.Unused != unused || got.Removed != removed {
		t.Fatalf("%+v, %v; want %d checked, %d unused, %d removed", got, err, checked, unused, removed)
	}
}

func TestCollector(t *testing.T) {
	l := &shelves{}
	c := l.collector(newClock())
	used, loose, other := l.put(t, "acme", "used"), l.put(t, "acme", "loose"), l.put(t, "other", "used")
	l.refer("acme", used, true)
	pass(t, c, 3, 2, 0) // found once only
	if n, err := l.Keep(t.Context(), "acme", loose); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	pass(t, c, 3, 2, 1) // the other tenant's; the loose one was seen meanwhile
	if l.has("other", other) || !l.has("acme", used) || !l.has("acme", loose) {
		t.Fatal("removed the wrong one")
	}
	l.fail = errors.New("the view is behind")
	if got, err := c.Pass(t.Context()); err == nil || got.Removed != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	l.fail = nil
	l.refer("acme", loose, true) // recorded after all
	pass(t, c, 2, 0, 0)
	l.refer("acme", used, false)
	pass(t, c, 2, 1, 0)
	pass(t, c, 2, 1, 1)
	pass(t, c, 1, 0, 0)
	c.Grace = time.Hour
	pass(t, c, 0, 0, 0)
}

func TestCollector_Once(t *testing.T) {
	l := &shelves{}
	c := l.collector(newClock())
	for i := range 1234 { // more than a page
		d := l.put(t, "acme", fmt.Sprint(i))
		l.refer("acme", d, i%2 == 0)
	}
	if got, err := c.Once(t.Context(), true); err != nil || got.Checked != 1234 || got.Unused != 617 || got.Removed != 0 || got.Bytes < 617 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := c.Once(t.Context(), false); err != nil || got.Removed != 617 || got.Bytes < 617 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := c.Once(t.Context(), false); err != nil || got.Checked != 617 || got.Removed != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// Run works now and then, also after a fault, and ends with its context.
func TestCollector_Run(t *testing.T) {
	l, k := &shelves{fail: errors.New("away")}, newClock()
	c := l.collector(k)
	d := l.put(t, "acme", "loose")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	for h := 1; h <= 3; h++ {
		k.await(t, time.Duration(h)*time.Hour)
		if h == 2 { // the first pass has failed
			l.mu.Lock()
			l.fail = nil
			l.mu.Unlock()
		}
		if !l.has("acme", d) {
			t.Fatalf("gone before pass %d", h)
		}
		k.advance(time.Hour)
	}
	k.await(t, 4*time.Hour)
	if l.has("acme", d) {
		t.Fatal("still there")
	}
	cancel()
	<-done
}

// Whoever stores the same content while a pass looks at it keeps it, whenever the
// fact that names it is recorded.
func TestCollector_StoredAgainMeanwhile(t *testing.T) {
	for name, recorded := range map[string]bool{"recorded at once": true, "recorded later": false} {
		t.Run(name, func(t *testing.T) {
			l := &shelves{}
			c := l.collector(newClock())
			d := l.put(t, "acme", "again")
			pass(t, c, 1, 1, 0)
			inUse := c.InUse
			c.InUse = func(ctx context.Context, contents []handlers.Content) ([]bool, error) {
				out, err := inUse(ctx, contents)
				l.put(t, "acme", "again") // after the view was asked
				l.refer("acme", d, recorded)
				return out, err
			}
			pass(t, c, 1, 1, 0)
			if !l.has("acme", d) {
				t.Fatal("gone")
			}
		})
	}
}
