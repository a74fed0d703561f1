package projections

import (
	"time"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/key"
)

// KeyEntry is an API key that is not revoked, as requests are checked against.
// Its document's id is the public part of the token, so that checking a request
// is the reading of one document.
type KeyEntry struct {
	Number    int64     `json:"number"`
	Tenant    string    `json:"tenant"`
	Lookup    string    `json:"lookup"`
	Salt      string    `json:"salt"`
	Hash      string    `json:"hash"`
	Grant     key.Grant `json:"grant"`
	CreatedAt time.Time `json:"created_at"`
	UsedAt    time.Time `json:"used_at,omitzero"` // to the hour
}

// Keys are the API keys of all tenants; the documents belong to
// domain.SystemTenant. Index: tenant, number.
var Keys = Projection{Name: "keys", Version: 1, Filter: event.Filter{Categories: []string{key.Category}}, Fold: foldKey}

func foldKey(v *View, f Fact) {
	var k *KeyEntry
	switch e := f.Event.(type) {
	case key.KeyCreated:
		k = &KeyEntry{Number: e.Key, Tenant: e.Tenant, Lookup: e.Lookup, Salt: e.Salt, Hash: e.Hash, Grant: e.Grant, CreatedAt: e.At}
	case key.KeyUpdated:
		if k = Get[KeyEntry](v, "", domain.SystemTenant, e.Lookup); k != nil {
			k.Grant = e.Grant
		}
	case key.KeyUsed:
		if k = Get[KeyEntry](v, "", domain.SystemTenant, e.Lookup); k != nil && e.At.After(k.UsedAt) {
			k.UsedAt = e.At
		}
	case key.KeyRevoked:
		Remove(v, "", domain.SystemTenant, e.Lookup)
	}
	if k != nil {
		Put(v, "", domain.SystemTenant, k.Lookup, k, map[string]any{"tenant": k.Tenant, "number": k.Number})
	}
}
