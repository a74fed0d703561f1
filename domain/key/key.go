// Package key is the aggregate of a tenant's API keys: what each may do, until
// when, and how a token is recognised without being stored. It imports the
// standard library, domain and domain/event. Start reading at Decide.
package key

import (
	"fmt"
	"slices"
	"time"

	"refold/domain"
)

// Limits of keys.
const (
	MaxName = 128  // runes
	MaxLive = 1000 // keys of a tenant that are not revoked
	MaxBase = 1000 // knowledge bases that a key names
)

// Category is the category of key streams; they belong to domain.SystemTenant,
// and the id is the tenant whose keys they are.
const Category = "key"

// Event is a fact about a tenant's keys.
type Event interface{ event() }

// Grant is what a key may do. FullAccess is everything that a key may do at
// all; Capabilities and KnowledgeBases are empty then.
type Grant struct {
	Name           string    `json:"name"`
	FullAccess     bool      `json:"full_access"`
	Capabilities   []string  `json:"capabilities,omitempty"`
	KnowledgeBases []string  `json:"knowledge_bases,omitempty"`
	Expires        time.Time `json:"expires,omitzero"` // zero = never
}

// KeyCreated adds a key. The token is not on the record: Lookup is its public
// part, Hash proves the whole. Key counts from 1 in its tenant.
type KeyCreated struct {
	Key    int64     `json:"key"`
	Tenant string    `json:"tenant"`
	Lookup string    `json:"lookup"`
	Salt   string    `json:"salt"`
	Hash   string    `json:"hash"`
	Grant  Grant     `json:"grant"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// KeyUpdated replaces what a key may do.
type KeyUpdated struct {
	Key    int64     `json:"key"`
	Lookup string    `json:"lookup"`
	Grant  Grant     `json:"grant"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// KeyRevoked ends a key for good.
type KeyRevoked struct {
	Key    int64     `json:"key"`
	Lookup string    `json:"lookup"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// KeyUsed says that a key was used in an hour: one event, however often. It has
// a stream of its own, see UseID.
type KeyUsed struct {
	Key    int64     `json:"key"`
	Lookup string    `json:"lookup"`
	At     time.Time `json:"at"` // of the first use in that hour that was noticed
}

func (KeyCreated) event() {}
func (KeyUpdated) event() {}
func (KeyRevoked) event() {}
func (KeyUsed) event()    {}

// Key is a key that is not revoked.
type Key struct {
	Number int64
	Lookup string
	Grant  Grant
}

// State is the fold of a tenant's keys.
type State struct {
	Last int64 // number of the newest key that there ever was
	Keys []Key // those not revoked, oldest first
}

// Key finds a key by its number.
func (s State) Key(number int64) (Key, bool) {
	i := slices.IndexFunc(s.Keys, func(k Key) bool { return k.Number == number })
	if i < 0 {
		return Key{}, false
	}
	return s.Keys[i], true
}

// Command is a request to a tenant's keys.
type Command interface{ command() }

// Create adds a key; its number is given by the state.
type Create struct{ KeyCreated }

// Update replaces what a key may do.
type Update struct{ KeyUpdated }

// Revoke ends a key.
type Revoke struct{ KeyRevoked }

func (Create) command() {}
func (Update) command() {}
func (Revoke) command() {}

// Refusals.
var (
	ErrNotFound = domain.Reject(domain.Missing, "key_not_found", "there is no such API key; see GET /api/v1/tenants/:id/api-keys")
	ErrTooMany  = domain.Reject(domain.Conflict, "too_many_keys", fmt.Sprintf("this tenant has %d API keys, and more are not taken; revoke some", MaxLive))
)

// Decide says which events follow from a command; it may refuse.
func Decide(s State, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Create:
		if err := c.Grant.check(c.At); err != nil {
			return nil, err
		}
		if len(s.Keys) >= MaxLive {
			return nil, ErrTooMany
		}
		e := c.KeyCreated
		e.Key, e.Grant = s.Last+1, e.Grant.plain()
		return []Event{e}, nil
	case Update:
		k, ok := s.Key(c.Key)
		if !ok {
			return nil, ErrNotFound
		}
		if err := c.Grant.check(c.At); err != nil {
			return nil, err
		}
		e := c.KeyUpdated
		e.Lookup, e.Grant = k.Lookup, e.Grant.plain()
		return []Event{e}, nil
	case Revoke:
		k, ok := s.Key(c.Key)
		if !ok {
			return nil, ErrNotFound
		}
		e := c.KeyRevoked
		e.Lookup = k.Lookup
		return []Event{e}, nil
	}
	return nil, fmt.Errorf("key: unknown command %T", c)
}

// Evolve folds one event. It never fails.
func Evolve(s State, e Event) State {
	switch e := e.(type) {
	case KeyCreated:
		s.Last = max(s.Last, e.Key)
		s.Keys = append(s.Keys, Key{e.Key, e.Lookup, e.Grant})
	case KeyUpdated:
		s.Keys = slices.Clone(s.Keys)
		for i := range s.Keys {
			if s.Keys[i].Number == e.Key {
				s.Keys[i].Grant = e.Grant
			}
		}
	case KeyRevoked:
		s.Keys = slices.DeleteFunc(slices.Clone(s.Keys), func(k Key) bool { return k.Number == e.Key })
	}
	return s
}
