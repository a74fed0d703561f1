package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"refold/domain/event"
	"refold/domain/run"
	"refold/infra/memory"
)

// failing fails reads of the store while it is told to.
type failing struct {
	event.Store
	err error
}

func (f *failing) Read(ctx context.Context, s event.Stream, after int64, limit int) ([]event.Raw, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.Read(ctx, s, after, limit)
}

// TestSharedFeed: readers who ask at different times, one who is so far behind
// that the store is read again, one for whom a read fails, and one who comes late
// get the same frames, byte for byte, each once.
func TestSharedFeed(t *testing.T) {
	ctx := t.Context()
	store := &failing{Store: memory.New()}
	a := newStory(t, store)
	tell := func(stream event.Stream, after int64) {
		t.Helper()
		raws, err := store.Store.Read(ctx, stream, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range raws {
			a.Tail.deliver(raw)
		}
	}
	told := int64(0)
	tail := func() { // what the follower of the log hands on
		t.Helper()
		tell(event.Stream{Tenant: DefaultTenant, Category: run.Category, ID: "r"}, told)
		told = a.facts
	}
	type someone struct {
		*feedReader
		got  []string
		over bool
		more <-chan struct{}
	}
	join := func() *someone {
		r, leave := a.watch(DefaultTenant, "r")
		t.Cleanup(leave)
		return &someone{feedReader: r}
	}
	read := func(s *someone) error {
		t.Helper()
		part, err := s.next(ctx)
		s.got, s.over, s.more = append(s.got, framesOf(part)...), part.over, part.more
		return err
	}

	a.begin()
	eager, lazy, unlucky := join(), join(), join()
	if err := errors.Join(read(eager), read(lazy), read(unlucky)); err != nil || len(lazy.got) != 1 {
		t.Fatal(err, lazy.got)
	}
	select {
	case <-lazy.more:
		t.Fatal("something is said to be new")
	default:
	}
	a.call()
	tail()
	long := strings.Repeat("word ", 20_000)
	for i := range 40 { // 4 MB of frames
		a.say(long)
		tell(event.Stream{Tenant: DefaultTenant, Category: event.CategoryDelta, ID: run.DeltaID("r", 1)}, a.deltas-1)
		<-eager.more
		if i == 20 {
			eager.shared.f.sub.mu.Lock() // an event is lost on the way: the store has it
			eager.shared.f.sub.queue, eager.shared.f.sub.fell = nil, true
			eager.shared.f.sub.mu.Unlock()
			store.err = errors.New("the store is away")
			if err := read(unlucky); err == nil {
				t.Fatal("no error")
			}
			store.err = nil
			if err := read(unlucky); err != nil {
				t.Fatal(err)
			}
		}
		if err := read(eager); err != nil {
			t.Fatal(err)
		}
	}
	late := join()
	if eager.shared.base == 0 || len(eager.shared.wire) > maxShared+2*len(long) {
		t.Errorf("%d frames went, %d bytes are kept", eager.shared.base, len(eager.shared.wire))
	}
	if err := errors.Join(read(late), read(lazy)); err != nil || late.over {
		t.Fatal(err)
	}
	a.end()
	tail()
	everybody := []*someone{eager, lazy, unlucky, late, join()}
	for i, s := range everybody {
		if s.more != nil {
			<-s.more
		}
		if err := read(s); err != nil || !s.over || !slices.Equal(s.got, everybody[0].got) {
			t.Errorf("reader %d: %v, over %t, %d frames; the first has %d", i, err, s.over, len(s.got), len(everybody[0].got))
		}
	}
	if n := len(everybody[0].got); n < 42 {
		t.Errorf("%d frames", n)
	}
}
