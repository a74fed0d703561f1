// Package event is the port to the event log: envelopes, streams, positions,
// the Store interface that every log implements, and Log, which turns stored
// bytes into typed events and back. It imports the standard library only.
// Start reading at Store, then Log.
package event

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits of what a store accepts. A request beyond them is refused before
// anything is written.
const (
	MaxPayload = 8 << 20 // bytes in one event's Data; larger content belongs in the blob store
	MaxBatch   = 1000    // events in one Append
	MaxIDLen   = 200     // bytes in a tenant, category or stream id
)

var (
	// ErrConflict says that the stream is not at the expected version: somebody
	// else was faster. Load again and decide again. Every store answers a lost
	// race with it, never with a driver's error.
	ErrConflict = errors.New("the stream has moved on")
	// ErrInvalid says that the request itself can never succeed (no tenant, no
	// id, too many events, a payload that is too large or no JSON).
	ErrInvalid = errors.New("invalid event")
	// ErrUnknownType says that an event was written by a build that knows a type
	// this one does not.
	ErrUnknownType = errors.New("unknown event type")
	// ErrNewerSchema says that an event was written with a newer schema than this
	// build can read.
	ErrNewerSchema = errors.New("event schema is newer than this build")
	// ErrCorrupt says that stored bytes are not what was written.
	ErrCorrupt = errors.New("the record is damaged")
	// ErrUnavailable says that the store cannot take or give events now (disk
	// full, file locked, server away). Nothing was written; the request may be
	// repeated with the same event ids.
	ErrUnavailable = errors.New("the event store is unavailable")
)

// Stream names one ordered sequence of events. The tenant is part of the
// identity: the same category and id under another tenant is another stream,
// so that guessing ids never crosses tenants.
type Stream struct {
	Tenant   string
	Category string // singular noun, for example "run" or "session"
	ID       string
}

func (s Stream) String() string { return s.Tenant + "/" + s.Category + "/" + s.ID }

// Transient tells whether the stream holds text deltas instead of facts. A
// store may make such appends durable against the death of the process only
// (not of the machine), never relays or projects them, and may Trim them.
func (s Stream) Transient() bool { return s.Category == CategoryDelta }

// CategoryDelta is the category of transient streams.
const CategoryDelta = "delta"

// Validate refuses a stream with an empty or over-long part, or one with a
// slash or control character in tenant or category.
func (s Stream) Validate() error {
	for _, p := range []struct{ name, v string }{{"tenant", s.Tenant}, {"category", s.Category}, {"id", s.ID}} {
		if p.v == "" {
			return fmt.Errorf("%w: stream without %s", ErrInvalid, p.name)
		}
		if len(p.v) > MaxIDLen {
			return fmt.Errorf("%w: stream %s is longer than %d bytes", ErrInvalid, p.name, MaxIDLen)
		}
		if strings.ContainsFunc(p.v, func(r rune) bool { return r < ' ' || r == 0x7f }) || (p.name != "id" && strings.Contains(p.v, "/")) {
			return fmt.Errorf("%w: stream %s has a forbidden character", ErrInvalid, p.name)
		}
	}
	return nil
}

// Position is a place in the whole log: an opaque string minted by the store.
// Positions of one store compare as strings in log order. "" is before the
// first event. Nobody parses it.
type Position string

// Expect is what a writer believes about a stream: that it does not exist, or
// that it is exactly at a version. There is no "any".
type Expect struct{ version int64 }

// NoStream expects that nothing was ever appended to the stream.
func NoStream() Expect { return Expect{} }

// Exactly expects version v, v >= 1. Exactly(0) is NoStream.
func Exactly(v int64) Expect { return Expect{v} }

// Version is the version that is expected, 0 for NoStream.
func (e Expect) Version() int64 { return e.version }

// Metadata says where an event comes from. Empty fields are not stored.
type Metadata struct {
	Correlation string `json:"correlation,omitempty"` // the session
	Causation   string `json:"causation,omitempty"`   // the event id that led here
	Command     string `json:"command,omitempty"`     // name of the command
	Actor       string `json:"actor,omitempty"`       // who asked: a principal, or the process
	Trace       string `json:"trace,omitempty"`       // W3C trace id, or the request id
}

// New is an event on its way into a store. ID is unique over the log; the same
// ids appended again to the same stream give the first answer. Data is JSON,
// at most MaxPayload bytes; the store keeps its bytes as they are.
type New struct {
	ID     string
	Type   string
	Schema int
	Time   time.Time
	Meta   Metadata
	Data   []byte
}

// Raw is a stored event as a store gives it back. Version counts from 1 in its
// stream without holes. The store sets Stream, Version and Position.
type Raw struct {
	New
	Stream   Stream
	Version  int64
	Position Position
}

// Appended answers an append: the stream's version and the log position of the
// last event written.
type Appended struct {
	Version  int64
	Position Position
}

// Filter narrows a Scan. The zero value is every fact (no transient events) of
// every tenant, which only in-process followers may use.
type Filter struct {
	Tenant     string   // "" = all
	Categories []string // nil = all but CategoryDelta; name CategoryDelta to get deltas
}

// Match tells whether the filter lets an event of the stream through.
func (f Filter) Match(s Stream) bool {
	if f.Tenant != "" && f.Tenant != s.Tenant {
		return false
	}
	if f.Categories == nil {
		return !s.Transient()
	}
	for _, c := range f.Categories {
		if c == s.Category {
			return true
		}
	}
	return false
}

// Store is the event log. It is safe for concurrent use. Errors are ErrConflict,
// ErrInvalid, ErrUnavailable, ErrCorrupt or the context's; all of them wrapped.
//
// Delivery promise: whoever scans from "" onwards, each time from the position
// of the last event received (or the position that Scan returned), sees every
// event of the filter once, in an order that keeps each stream's order, also
// events that commit late.
type Store interface {
	// Append writes all events or none. A lost race is ErrConflict. If all event
	// ids are already in the stream, in this order, the first answer is given
	// again whatever is expected now. No events is ErrInvalid.
	Append(ctx context.Context, stream Stream, expect Expect, events ...New) (Appended, error)
	// Read gives at most limit events of one stream with version > after, in
	// order; an unknown stream is empty. limit <= 0 is 1000, larger than 1000
	// is cut. Fewer than limit means the end.
	Read(ctx context.Context, stream Stream, after int64, limit int) ([]Raw, error)
	// Scan gives at most limit events of the log after a position that match the
	// filter, in order, and the position up to which it looked (also when nothing
	// matched). It never waits. limit as in Read.
	Scan(ctx context.Context, after Position, f Filter, limit int) ([]Raw, Position, error)
	// Wait returns nil as soon as the log's head is after the position, or the
	// context's error. It may return early; callers loop.
	Wait(ctx context.Context, after Position) error
	// Head is the position of the last event that Scan would give; "" when empty.
	Head(ctx context.Context) (Position, error)
	// Trim deletes transient streams for good; positions are never used again. If
	// one of them is not transient it is ErrInvalid, and nothing is deleted.
	Trim(ctx context.Context, streams ...Stream) error
	// Close releases the store; later calls are ErrUnavailable.
	Close() error
}

// Follow scans from after and then waits for more, calling fn with each batch,
// until fn fails or the context ends. fn gets the position up to which the log
// was read, also when the batch is empty.
func Follow(ctx context.Context, s Store, after Position, f Filter, fn func([]Raw, Position) error) error {
	for {
		batch, upTo, err := s.Scan(ctx, after, f, 0)
		if err != nil {
			return err
		}
		if len(batch) > 0 || upTo != after {
			if err := fn(batch, upTo); err != nil {
				return err
			}
			after = upTo
			continue
		}
		if err := s.Wait(ctx, after); err != nil {
			return err
		}
	}
}

// Check validates an append before a store looks at it. Every store calls it.
func Check(stream Stream, expect Expect, events []New) error {
	if err := stream.Validate(); err != nil {
		return err
	}
	if len(events) == 0 {
		return fmt.Errorf("%w: append without events", ErrInvalid)
	}
	if len(events) > MaxBatch {
		return fmt.Errorf("%w: %d events in one append, at most %d", ErrInvalid, len(events), MaxBatch)
	}
	if expect.version < 0 {
		return fmt.Errorf("%w: negative expected version", ErrInvalid)
	}
	seen := make(map[string]struct{}, len(events))
	for _, e := range events {
		if e.ID == "" || len(e.ID) > MaxIDLen {
			return fmt.Errorf("%w: event id must have 1 to %d bytes", ErrInvalid, MaxIDLen)
		}
		if _, dup := seen[e.ID]; dup {
			return fmt.Errorf("%w: event id %q twice in one append", ErrInvalid, e.ID)
		}
		seen[e.ID] = struct{}{}
		if e.Type == "" || e.Schema < 1 {
			return fmt.Errorf("%w: event without type or schema number", ErrInvalid)
		}
		if len(e.Data) > MaxPayload {
			return fmt.Errorf("%w: payload of %s has %d bytes, at most %d", ErrInvalid, e.Type, len(e.Data), MaxPayload)
		}
	}
	return nil
}
