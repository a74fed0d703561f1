// Package memory keeps the event log, read models, blobs and the index in this process:
// the fake that passes the same suites as the real stores, for tests and for
// trying things out. Nothing survives the process. It imports the domain and
// the packages whose ports it implements, nothing outside. Start reading at
// Store.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"refold/domain/event"
)

// Store is an event.Store in memory. The zero value is not usable; call New.
type Store struct {
	mu      sync.Mutex
	log     []event.Raw // in log order; trimmed events are removed
	streams map[event.Stream][]event.Raw
	ids     map[string]event.Raw
	head    int64
	changed chan struct{} // closed and replaced with every append
	closed  bool
}

// New makes an empty store.
func New() *Store {
	return &Store{streams: map[event.Stream][]event.Raw{}, ids: map[string]event.Raw{}, changed: make(chan struct{})}
}

var _ event.Store = (*Store)(nil)

// Append implements event.Store.
func (s *Store) Append(ctx context.Context, stream event.Stream, expect event.Expect, events ...event.New) (event.Appended, error) {
	if err := event.Check(stream, expect, events); err != nil {
		return event.Appended{}, err
	}
	if err := ctx.Err(); err != nil {
		return event.Appended{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return event.Appended{}, errClosed
	}
	if again, known, err := s.again(stream, events); err != nil || known {
		return again, err
	}
	if v := int64(len(s.streams[stream])); v != expect.Version() {
		return event.Appended{}, fmt.Errorf("%w: %s is at version %d, expected %d", event.ErrConflict, stream, v, expect.Version())
	}
	for _, e := range events {
		s.head++
		e.Time = e.Time.UTC().Round(0)
		e.Data = bytes.Clone(e.Data)
		r := event.Raw{New: e, Stream: stream, Version: int64(len(s.streams[stream]) + 1), Position: position(s.head)}
		s.log = append(s.log, r)
		s.streams[stream] = append(s.streams[stream], r)
		s.ids[e.ID] = r
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return event.Appended{Version: int64(len(s.streams[stream])), Position: position(s.head)}, nil
}

// again finds the first answer to an append whose ids are all known.
func (s *Store) again(stream event.Stream, events []event.New) (event.Appended, bool, error) {
	found, last := 0, event.Raw{}
	for _, e := range events {
		r, ok := s.ids[e.ID]
		if !ok {
			continue
		}
		if r.Stream != stream || r.Version <= last.Version {
			return event.Appended{}, false, fmt.Errorf("%w: event id %q is already used elsewhere in the log", event.ErrInvalid, e.ID)
		}
		found, last = found+1, r
	}
	switch found {
	case 0:
		return event.Appended{}, false, nil
	case len(events):
		return event.Appended{Version: last.Version, Position: last.Position}, true, nil
	}
	return event.Appended{}, false, fmt.Errorf("%w: only some of the event ids are already in %s", event.ErrInvalid, stream)
}

// Read implements event.Store.
func (s *Store) Read(ctx context.Context, stream event.Stream, after int64, limit int) ([]event.Raw, error) {
	if err := stream.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	all := s.streams[stream]
	from := min(max(after, 0), int64(len(all)))
	return clone(all[from:min(from+int64(cut(limit)), int64(len(all)))]), nil
}

// Scan implements event.Store.
func (s *Store) Scan(ctx context.Context, after event.Position, f event.Filter, limit int) ([]event.Raw, event.Position, error) {
	if err := check(after); err != nil {
		return nil, after, err
	}
	if err := ctx.Err(); err != nil {
		return nil, after, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, after, errClosed
	}
	var out []event.Raw
	for i := s.firstAfter(after); i < len(s.log); i++ {
		if !f.Match(s.log[i].Stream) {
			continue
		}
		out = append(out, s.log[i])
		if len(out) == cut(limit) {
			return clone(out), out[len(out)-1].Position, nil
		}
	}
	return clone(out), max(after, position(s.head)), nil
}

// firstAfter finds the place in s.log after a position by bisection.
func (s *Store) firstAfter(after event.Position) int {
	lo, hi := 0, len(s.log)
	for lo < hi {
		mid := (lo + hi) / 2
		if s.log[mid].Position > after {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// Wait implements event.Store.
func (s *Store) Wait(ctx context.Context, after event.Position) error {
	if err := check(after); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		head, changed, closed := position(s.head), s.changed, s.closed
		s.mu.Unlock()
		if closed {
			return errClosed
		}
		if head > after {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Head implements event.Store.
func (s *Store) Head(ctx context.Context) (event.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "", errClosed
	}
	return position(s.head), ctx.Err()
}

// Trim implements event.Store.
func (s *Store) Trim(ctx context.Context, streams ...event.Stream) error {
	gone := make(map[event.Stream]bool, len(streams))
	for _, stream := range streams {
		if err := stream.Validate(); err != nil {
			return err
		}
		if !stream.Transient() {
			return fmt.Errorf("%w: %s holds facts and cannot be trimmed", event.ErrInvalid, stream)
		}
		gone[stream] = true
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	for stream := range gone {
		for _, r := range s.streams[stream] {
			delete(s.ids, r.ID)
		}
		delete(s.streams, stream)
	}
	kept := s.log[:0:0]
	for _, r := range s.log {
		if !gone[r.Stream] {
			kept = append(kept, r)
		}
	}
	s.log = kept
	return nil
}

// Close implements event.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.changed)
	}
	return nil
}

var errClosed = fmt.Errorf("%w: the in-memory store is closed", event.ErrUnavailable)

// position is fixed-width so that strings compare like the numbers.
func position(n int64) event.Position {
	if n == 0 {
		return ""
	}
	return event.Position(fmt.Sprintf("%016x", n))
}

func check(p event.Position) error {
	if p != "" && len(p) != 16 {
		return fmt.Errorf("%w: position %.40q is not of this store", event.ErrInvalid, string(p))
	}
	return nil
}

func cut(limit int) int {
	if limit <= 0 || limit > 1000 {
		return 1000
	}
	return limit
}

// clone keeps callers from changing what is stored.
func clone(in []event.Raw) []event.Raw {
	out := make([]event.Raw, len(in))
	for i, r := range in {
		r.Data = bytes.Clone(r.Data)
		out[i] = r
	}
	return out
}
