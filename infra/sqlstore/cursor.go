package sqlstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"refold/projections"
)

// cursor is the sort key of the last document of a page, with the mark of the
// query that it belongs to. Strings are bytes, as JSON would mend broken UTF-8.
type cursor[V any] struct {
	Query  []byte `json:"q"`
	Values []V    `json:"v,omitempty"`
	ID     []byte `json:"i"`
}

// mark tells one list from another; limit and offset do not matter to it.
func mark(q projections.Query) []byte {
	b, _ := json.Marshal([]any{q.Collection, q.Tenant, q.Where, q.OrderBy}) // strings, integers and booleans always encode
	sum := sha256.Sum256(b)
	return sum[:9]
}

// MintCursor makes the cursor of a place in a list: after the document with these
// index entries, one for each order, and this id. V is how the store writes an
// entry.
func MintCursor[V any](q projections.Query, values []V, id []byte) string {
	b, _ := json.Marshal(cursor[V]{Query: mark(q), Values: values, ID: id})
	return base64.RawURLEncoding.EncodeToString(b)
}

// ReadCursor is the inverse of MintCursor; found is false if the query has none.
func ReadCursor[V any](q projections.Query) (values []V, id []byte, found bool, err error) {
	if q.Cursor == "" {
		return nil, nil, false, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return nil, nil, false, fmt.Errorf("%w: %w", projections.ErrBadCursor, err)
	}
	var c cursor[V]
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return nil, nil, false, fmt.Errorf("%w: %w", projections.ErrBadCursor, err)
	}
	if dec.More() || !bytes.Equal(c.Query, mark(q)) || len(c.Values) != len(q.OrderBy) || c.ID == nil {
		return nil, nil, false, projections.ErrBadCursor
	}
	return c.Values, c.ID, true, nil
}
