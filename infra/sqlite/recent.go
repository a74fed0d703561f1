package sqlite

import (
	"bytes"
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
	mu      sync.RWMutex
	from    int64
	events  []recentEvent
	bytes   int
	streams map[event.Stream]span // of what is held, without gaps
}

// span is the first and the last version of a stream that is held.
type span struct{ first, last int64 }

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
	if r.streams == nil {
		r.streams = map[event.Stream]span{}
	}
	for _, e := range events {
		r.bytes += len(e.Data)
		held, ok := r.streams[e.Stream]
		if !ok {
			held.first = e.Version
		}
		held.last = e.Version
		r.streams[e.Stream] = held
	}
	drop := 0
	for len(r.events)-drop > maxRecentEvents || r.bytes > maxRecentBytes && drop < len(r.events) {
		e := r.events[drop]
		r.bytes -= len(e.Data)
		r.from = e.at
		if held := r.streams[e.Stream]; held.last == e.Version {
			delete(r.streams, e.Stream)
		} else if held.first == e.Version {
			r.streams[e.Stream] = span{e.Version + 1, held.last}
		}
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
	for s := range gone {
		delete(r.streams, s)
	}
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

// read is Store.Read from memory; false if not all of it is held.
func (r *recent) read(stream event.Stream, after int64, limit int) (out []event.Raw, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	held, ok := r.streams[stream]
	if !ok || after+1 < held.first {
		return nil, false
	}
	n := int(held.last - after)
	if n <= 0 {
		return nil, true
	}
	out = make([]event.Raw, min(n, limit))
	for i := len(r.events) - 1; i >= 0 && n > 0; i-- {
		if e := &r.events[i]; e.Stream == stream {
			if n--; n < len(out) {
				out[n] = e.Raw
				out[n].Data = bytes.Clone(e.Data)
			}
		}
	}
	return out, n == 0
}

// remember notes what a job has appended in the open transaction.
func (w *writer) remember(j *appendJob, version, start int64) {
	size := 0
	for i := range j.rows {
		size += len(j.rows[i].Data)
	}
	own := make([]byte, 0, size) // callers may write into theirs
	for i := range j.rows {
		e := recentEvent{start + int64(i) + 1, event.Raw{New: j.rows[i].New, Stream: j.stream, Version: version + int64(i) + 1}}
		e.Position = sqlstore.Position(e.at)
		if from := len(own); e.Data != nil {
			own = append(own, e.Data...)
			e.Data = own[from:len(own):len(own)]
		}
		if !e.Time.IsZero() {
			e.Time = time.Unix(0, j.rows[i].time).UTC() // as it is read back
		}
		w.fresh = append(w.fresh, e)
	}
}
