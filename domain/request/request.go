// Package request is the aggregate of an idempotent request: one stream for
// each key that a principal sends, in the tenant of the principal. The first
// request reserves the key; what it is answered with is recorded, and given
// again to every repetition. It imports the standard library, domain and
// domain/event. Start reading at Decide.
package request

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"refold/domain"
)

// Category is the category of request streams; StreamID gives the id.
const Category = "request"

// Retention is how long a key stands for its request. After it the key can be
// used for another one. The facts stay on the record, as all facts do.
const Retention = 24 * time.Hour

// Limits of requests.
const (
	MaxKey    = 255     // bytes of a key, all printable
	MaxAnswer = 1 << 20 // bytes of an answer's body that are kept
)

// Event is a fact about a request.
type Event interface{ event() }

// RequestReserved says that a request with this fingerprint is being worked on.
// Reservation is the seed of every id that the request mints, and the causation
// of every fact that follows from it, so that doing it again after a crash finds
// what was done.
type RequestReserved struct {
	Reservation string    `json:"reservation"`
	Fingerprint string    `json:"fingerprint"` // of method, path and body
	Owner       string    `json:"owner"`       // process that works on it
	At          time.Time `json:"at"`
}

// RequestAnswered is the answer that counts from now on. A request that opened
// the stream of a run names the run instead of a body.
type RequestAnswered struct {
	Reservation string            `json:"reservation"`
	Status      int               `json:"status"` // of HTTP
	Head        map[string]string `json:"head,omitempty"`
	Body        string            `json:"body,omitempty"`
	Run         string            `json:"run,omitempty"`
	At          time.Time         `json:"at"`
}

// RequestReleased says that the request was refused and had no effect: the key
// is free again.
type RequestReleased struct {
	Reservation string    `json:"reservation"`
	Status      int       `json:"status"`
	At          time.Time `json:"at"`
}

func (RequestReserved) event() {}
func (RequestAnswered) event() {}
func (RequestReleased) event() {}

// State is the fold of a key's stream. The zero value is a key that is free.
type State struct {
	Reserved *RequestReserved
	Answer   *RequestAnswered
}

// Free tells whether the key can be reserved.
func (s State) Free(now time.Time) bool {
	return s.Reserved == nil || !now.Before(s.Reserved.At.Add(Retention))
}

// Command is a request to the aggregate.
type Command interface{ command() }

// Reserve asks for the key. It gives no event if the very request has it.
type Reserve struct{ RequestReserved }

// Answer reports what the request was answered with. It gives no event if the
// reservation has an answer, or is over: the first answer counts.
type Answer struct{ RequestAnswered }

// Release reports that the request was refused.
type Release struct{ RequestReleased }

func (Reserve) command() {}
func (Answer) command()  {}
func (Release) command() {}

// Refusals.
var (
	ErrOther  = domain.Reject(domain.Conflict, "idempotency_key_reused", "this Idempotency-Key was sent with another request; use a new key for a new request")
	ErrBadKey = domain.Reject(domain.Invalid, "bad_idempotency_key", fmt.Sprintf("Idempotency-Key must be 1 to %d printable ASCII characters", MaxKey))
	ErrBusy   = domain.Reject(domain.Conflict, "request_in_flight", "the first request with this Idempotency-Key is still being worked on; ask again")
)

// Decide says which events follow from a command; it may refuse.
func Decide(s State, c Command) ([]Event, error) {
	current := func(reservation string) bool {
		return s.Reserved != nil && s.Reserved.Reservation == reservation && s.Answer == nil
	}
	switch c := c.(type) {
	case Reserve:
		switch {
		case s.Free(c.At):
			return []Event{c.RequestReserved}, nil
		case s.Reserved.Fingerprint != c.Fingerprint:
			return nil, ErrOther
		}
		return nil, nil
	case Answer:
		if current(c.Reservation) {
			return []Event{c.RequestAnswered}, nil
		}
		return nil, nil
	case Release:
		if current(c.Reservation) {
			return []Event{c.RequestReleased}, nil
		}
		return nil, nil
	}
	return nil, fmt.Errorf("request: unknown command %T", c)
}

// Evolve folds one event. It never fails.
func Evolve(s State, e Event) State {
	switch e := e.(type) {
	case RequestReserved:
		return State{Reserved: &e}
	case RequestAnswered:
		if s.Reserved != nil && s.Reserved.Reservation == e.Reservation && s.Answer == nil {
			s.Answer = &e
		}
	case RequestReleased:
		if s.Reserved != nil && s.Reserved.Reservation == e.Reservation {
			return State{}
		}
	}
	return s
}

// CheckKey refuses what is no key.
func CheckKey(key string) error {
	if key == "" || len(key) > MaxKey {
		return ErrBadKey
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return ErrBadKey
		}
	}
	return nil
}

// StreamID is the stream of a principal's key. Keys can be secret, so the record
// does not hold them.
func StreamID(principal, key string) string { return digest("stream", principal, key) }

// DerivedID is an id that a request mints: the same for the same reservation and
// purpose, in the form of a UUID, and unlike every other.
func DerivedID(reservation, purpose string) string {
	b := []byte(digest("id", reservation, purpose)[:32])
	b[12], b[16] = '8', "89ab"[b[16]&3] // version 8: made by the application
	return fmt.Sprintf("%s-%s-%s-%s-%s", b[:8], b[8:12], b[12:16], b[16:20], b[20:])
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
