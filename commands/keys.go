package commands

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/key"
)

// CreatedKey answers CreateKey. Token is there once; it is "" if an idempotent
// request had made the key before, for nobody knows it any more.
type CreatedKey struct {
	Number   int64
	Lookup   string
	Token    string
	Position event.Position
}

// CreateKey makes an API key of the caller's tenant.
func (c *Commands) CreateKey(ctx context.Context, by Caller, grant key.Grant) (CreatedKey, error) {
	var random [key.Random]byte
	var salt [16]byte
	_, _ = rand.Read(random[:]) // never fails (documented)
	_, _ = rand.Read(salt[:])
	token := key.Token(random)
	lookup, _ := key.LookupOf(token) // a token that was just made
	e := key.KeyCreated{Tenant: by.Tenant, Lookup: lookup, Salt: hex.EncodeToString(salt[:]), Grant: grant, By: by.Principal, At: c.Now().UTC()}
	e.Hash = key.Hash(e.Salt, token)
	rec, err := c.onKeys(ctx, by, "CreateKey", key.Create{KeyCreated: e})
	if err != nil {
		return CreatedKey{}, err
	}
	made := rec.Event.(key.KeyCreated) // what CreateKey appends
	out := CreatedKey{Number: made.Key, Lookup: made.Lookup, Position: rec.Position}
	if made.Lookup == lookup {
		out.Token = token
	}
	return out, nil
}

// UpdateKey replaces what a key may do.
func (c *Commands) UpdateKey(ctx context.Context, by Caller, number int64, grant key.Grant) (lookup string, pos event.Position, err error) {
	rec, err := c.onKeys(ctx, by, "UpdateKey", key.Update{KeyUpdated: key.KeyUpdated{Key: number, Grant: grant, By: by.Principal, At: c.Now().UTC()}})
	if err != nil {
		return "", "", err
	}
	return rec.Event.(key.KeyUpdated).Lookup, rec.Position, nil
}

// RevokeKey ends a key for good. Who is in the middle of a stream with it keeps
// that stream; its next request is refused.
func (c *Commands) RevokeKey(ctx context.Context, by Caller, number int64) (event.Position, error) {
	rec, err := c.onKeys(ctx, by, "RevokeKey", key.Revoke{KeyRevoked: key.KeyRevoked{Key: number, By: by.Principal, At: c.Now().UTC()}})
	return rec.Position, err
}

// UseKey records that a key was used, once an hour whoever notices it.
func (c *Commands) UseKey(ctx context.Context, number int64, lookup string) error {
	at := c.Now().UTC()
	by := Caller{Tenant: domain.SystemTenant, Principal: "process:keys"}
	_, err := c.Keys.Append(ctx, domain.SystemTenant, key.UseID(lookup, at), event.NoStream(), c.envelope(by, "", "UseKey"),
		event.Fact[key.Event]{ID: c.NewID(), Event: key.KeyUsed{Key: number, Lookup: lookup, At: at}})
	if errors.Is(err, event.ErrConflict) {
		return nil
	}
	return err
}

// onKeys decides on the keys of the caller's tenant and gives the fact that
// followed, now or when the same request was first made.
func (c *Commands) onKeys(ctx context.Context, by Caller, command string, cmd key.Command) (event.Recorded[key.Event], error) {
	for try := 1; ; try++ {
		recs, err := c.Keys.Load(ctx, domain.SystemTenant, by.Tenant, 0)
		if err != nil {
			return event.Recorded[key.Event]{}, err
		}
		var s key.State
		for _, rec := range recs {
			if by.Reservation != "" && rec.Meta.Causation == by.Reservation && rec.Meta.Command == command {
				return rec, nil
			}
			s = key.Evolve(s, rec.Event)
		}
		events, err := key.Decide(s, cmd)
		if err != nil {
			return event.Recorded[key.Event]{}, err
		}
		recs, err = c.Keys.Append(ctx, domain.SystemTenant, by.Tenant, event.Exactly(int64(len(recs))), c.envelope(by, "", command), facts(c.NewID, events)...)
		if errors.Is(err, event.ErrConflict) && try < maxTries {
			continue
		}
		if err != nil {
			return event.Recorded[key.Event]{}, err
		}
		return recs[len(recs)-1], nil
	}
}
