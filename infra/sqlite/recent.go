package sqlite

import (
	"slices"
	"sort"
	"sync"
	"time"

	"refold/domain/event"
	"refold/infra/sqlstore"
)

// What recent keeps at most.
const (
	maxRecentEvents = 4096
	maxRecentBytes  = 4 << 20
)

// recent keeps the newest committed events in memory, so that those who follow
// the log do not each read again what the same process has just written. It
// holds every event after position from that was not trimmed.
type recent struct {
	mu     sync.RWMutex
	from   int64
	events []recentEvent
	bytes  int
}

type recentEvent struct {
	at int64
	event.Raw
}

// add takes what a transaction has appended, after its commit and before its
// positions become visible.
func (r *recent) add(events []recentEvent) {
	if len(events) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
	for _, e := range events {
		r.bytes += len(e.Data)
	}
	drop := 0
	for len(r.events)-drop > maxRecentEvents || r.bytes > maxRecentBytes && drop < len(r.events) {
		r.bytes -= len(r.events[drop].Data)
		r.from = r.events[drop].at
		drop++
	}
	// Cut rarely: what is dropped stays reachable until then.
	r.events = r.events[drop:]
}

// start says that nothing before a position is kept.
func (r *recent) start(at int64) { r.from = at }

// trim forgets the events of streams that were trimmed. Scans copy what they
// give, so the list is changed in place.
func (r *recent) trim(streams []event.Stream) {
	gone := make(map[event.Stream]bool, len(streams))
	for _, s := range streams {
		gone[s] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = slices.DeleteFunc(r.events, func(e recentEvent) bool {
		if !e.Stream.Transient() || !gone[e.Stream] {
			return false
		}
		r.bytes -= len(e.Data)
		return true
	})
}

// scan is Store.Scan from memory, up to position head; false if from lies too
// far back.
func (r *recent) scan(from, head int64, f event.Filter, limit int) (out []event.Raw, upTo int64, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if from < r.from {
		return nil, 0, false
	}
	for _, e := range r.events[sort.Search(len(r.events), func(i int) bool { return r.events[i].at > from }):] {
		if e.at > head {
			break
		}
		if !f.Match(e.Stream) {
			continue
		}
		out = append(out, e.Raw)
		if len(out) == limit {
			return out, e.at, true
		}
	}
	return out, head, true
}

// remember notes what a job has appended in the open transaction.
func (w *writer) remember(j *appendJob, version, start int64) {
	for i := range j.rows {
		e := recentEvent{start + int64(i) + 1, event.Raw{New: j.rows[i].New, Stream: j.stream, Version: version + int64(i) + 1}}
		e.Position = sqlstore.Position(e.at)
		if !e.Time.IsZero() {
			e.Time = time.Unix(0, j.rows[i].time).UTC() // as it is read back
		}
		w.fresh = append(w.fresh, e)
	}
}
