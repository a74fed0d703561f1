package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/key"
	"refold/projections"
)

// keyJSON is an API key on the wire. APIKey is the part that can be shown.
type keyJSON struct {
	ID           int64      `json:"id"`
	Scope        string     `json:"scope_type"`
	Name         string     `json:"name"`
	APIKey       string     `json:"api_key"`
	FullAccess   bool       `json:"full_access"`
	Bases        []string   `json:"knowledge_base_ids"`
	Capabilities []string   `json:"capabilities"`
	LastUsedAt   *time.Time `json:"last_used_at,omitempty"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"`
	CreatedAt    time.Time  `json:"created_at"`
	Token        string     `json:"token,omitempty"` // in the answer that made it only
}

func (a *API) wireKey(k projections.KeyEntry) keyJSON {
	out := keyJSON{ID: k.Number, Scope: "tenant", Name: k.Grant.Name, APIKey: key.Shown(k.Lookup), FullAccess: k.Grant.FullAccess,
		Bases: append([]string{}, k.Grant.KnowledgeBases...), Capabilities: append([]string{}, k.Grant.Capabilities...), CreatedAt: k.CreatedAt}
	if at := a.lastUse(k); !at.IsZero() {
		out.LastUsedAt = &at
	}
	if at := k.Grant.Expires; !at.IsZero() {
		out.ExpiresAt = &at
	}
	return out
}

// keyBody is what a key may do, as requests say it.
type keyBody struct {
	Name         string   `json:"name"`
	FullAccess   bool     `json:"full_access"`
	Bases        []string `json:"knowledge_base_ids"`
	Capabilities []string `json:"capabilities"`
	ExpiresAt    *float64 `json:"expires_at_unix"` // seconds; absent or null = never
}

func (b keyBody) grant() (key.Grant, error) {
	g := key.Grant{Name: b.Name, FullAccess: b.FullAccess, Capabilities: b.Capabilities, KnowledgeBases: b.Bases}
	if b.ExpiresAt != nil {
		// Later than the year 9999 no time can be written.
		if *b.ExpiresAt <= 0 || *b.ExpiresAt > 253_402_300_799 || !isWhole(*b.ExpiresAt) {
			return g, invalid("expires_at_unix must be seconds since 1970, in the future")
		}
		g.Expires = time.Unix(int64(*b.ExpiresAt), 0).UTC()
	}
	return g, nil
}

func (a *API) listKeys(w http.ResponseWriter, r *http.Request) {
	err := inPath(r)
	if err == nil {
		err = a.fresh(r, projections.Keys)
	}
	var found projections.Page
	if err == nil {
		found, err = a.Documents.Find(r.Context(), projections.Query{Collection: projections.Keys.ID(), Tenant: domain.SystemTenant, Limit: key.MaxLive,
			Where: []projections.Where{{Field: "tenant", Op: "=", Value: tenant(r)}}, OrderBy: []projections.Order{{Field: "number"}}})
	}
	var rows []projections.KeyEntry
	if err == nil {
		rows, err = documents[projections.KeyEntry](found.Documents)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := make([]keyJSON, len(rows))
	for i, k := range rows {
		out[i] = a.wireKey(k)
	}
	respond(w, http.StatusOK, ok(out))
}

func (a *API) createKey(w http.ResponseWriter, r *http.Request) {
	var b keyBody
	err := inPath(r)
	if err == nil {
		err = decode(w, r, maxBody, &b)
	}
	var grant key.Grant
	if err == nil {
		grant, err = b.grant()
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	made, err := a.Commands.CreateKey(r.Context(), caller(r), grant)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, made.Position)
	k, err := a.loadKey(r, made.Lookup)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := a.wireKey(k)
	keepInstead(r, ok(out)) // the token is in no record
	out.Token = made.Token
	respond(w, http.StatusCreated, ok(out))
}

func (a *API) loadKey(r *http.Request, lookup string) (projections.KeyEntry, error) {
	if err := a.fresh(r, projections.Keys); err != nil {
		return projections.KeyEntry{}, err
	}
	k, err := one[projections.KeyEntry](r.Context(), a, projections.Keys, domain.SystemTenant, lookup)
	if err != nil || k == nil {
		return projections.KeyEntry{}, orElse(err, key.ErrNotFound)
	}
	return *k, nil
}

// keyNumber reads the number of a key from the path.
func keyNumber(r *http.Request) (int64, error) {
	n, err := strconv.ParseInt(chi.URLParam(r, "key"), 10, 64)
	if errors.Is(err, strconv.ErrSyntax) || err == nil && n < 1 {
		return 0, invalid("the id of an API key is a number")
	}
	return n, nil // one that is too large is none that exists
}

func (a *API) updateKey(w http.ResponseWriter, r *http.Request) {
	var b keyBody
	err := inPath(r)
	var number int64
	if err == nil {
		number, err = keyNumber(r)
	}
	if err == nil {
		err = decode(w, r, maxBody, &b)
	}
	var grant key.Grant
	if err == nil {
		grant, err = b.grant()
	}
	var k projections.KeyEntry
	if err == nil {
		var lookup string
		var pos event.Position
		if lookup, pos, err = a.Commands.UpdateKey(r.Context(), caller(r), number, grant); err == nil {
			positionHeader(w, pos)
			k, err = a.loadKey(r, lookup)
		}
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	respond(w, http.StatusOK, ok(a.wireKey(k)))
}

// revokeKey ends a key: when the answer is there, the key opens nothing any
// more, on any process whose read models have caught up with its position.
func (a *API) revokeKey(w http.ResponseWriter, r *http.Request) {
	err := inPath(r)
	var number int64
	if err == nil {
		number, err = keyNumber(r)
	}
	if err == nil {
		var pos event.Position
		pos, err = a.Commands.RevokeKey(r.Context(), caller(r), number)
		positionHeader(w, pos)
	}
	if err == nil {
		err = a.fresh(r, projections.Keys)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	respond(w, http.StatusOK, body{"success": true, "message": "API key revoked"})
}
