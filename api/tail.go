package api

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
)

// maxQueued bounds what waits for one slow subscriber. One who has more coming
// falls off, and reads the store again from where it is.
const maxQueued = 4096

// Tail is the one follower of the log that serves every reader of a feed in the
// process: it hands each event, also the transient ones, to those who follow
// its stream. It never waits for them.
type Tail struct {
	Store event.Store
	Log   *slog.Logger

	mu   sync.Mutex
	subs map[topic]map[*subscription]struct{}
}

type topic struct{ tenant, category, id string }

// subscription is what one reader has not taken yet.
type subscription struct {
	mu    sync.Mutex
	queue []event.Raw
	fell  bool          // events were left out: read the store
	more  chan struct{} // closed when something has come; nil while nobody waits
}

// closed is a channel for those who need not wait.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Run follows the log from a position until ctx ends.
func (t *Tail) Run(ctx context.Context, from event.Position) {
	pause := 50 * time.Millisecond
	for ctx.Err() == nil {
		err := event.Follow(ctx, t.Store, from, event.Filter{Categories: []string{session.Category, run.Category, event.CategoryDelta}},
			func(batch []event.Raw, upTo event.Position) error {
				for _, raw := range batch {
					t.deliver(raw)
				}
				from, pause = upTo, 50*time.Millisecond
				return nil
			})
		if ctx.Err() != nil {
			return
		}
		t.Log.Error("the feed can't follow the log", "error", err, "again_in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, 5*time.Second)
	}
}

func topicOf(s event.Stream) topic {
	if s.Category == event.CategoryDelta {
		return topic{s.Tenant, run.Category, run.DeltaRun(s.ID)}
	}
	return topic{s.Tenant, s.Category, s.ID}
}

func (t *Tail) deliver(raw event.Raw) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.subs[topicOf(raw.Stream)] {
		s.put(raw)
	}
}

// subscribe begins to gather the events of a run (with its deltas) or session.
func (t *Tail) subscribe(tenant, category, id string) (*subscription, func()) {
	s := &subscription{}
	k := topic{tenant, category, id}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.subs == nil {
		t.subs = map[topic]map[*subscription]struct{}{}
	}
	if t.subs[k] == nil {
		t.subs[k] = map[*subscription]struct{}{}
	}
	t.subs[k][s] = struct{}{}
	return s, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.subs[k], s)
		if len(t.subs[k]) == 0 {
			delete(t.subs, k)
		}
	}
}

func (s *subscription) put(raw event.Raw) {
	s.mu.Lock()
	if len(s.queue) >= maxQueued {
		s.queue, s.fell = nil, true
	}
	if !s.fell {
		s.queue = append(s.queue, raw)
	}
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
	s.mu.Unlock()
}

// changed is closed when there is something to take. Any number can wait for it.
func (s *subscription) changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 || s.fell {
		return closed
	}
	return s.waiting()
}

func (s *subscription) waiting() <-chan struct{} {
	if s.more == nil {
		s.more = make(chan struct{})
	}
	return s.more
}

// take gives what has gathered; fell tells that something is missing. more is
// closed when there is something to take again.
func (s *subscription) take() (batch []event.Raw, fell bool, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch, fell = s.queue, s.fell
	s.queue, s.fell = nil, false
	return batch, fell, s.waiting()
}
