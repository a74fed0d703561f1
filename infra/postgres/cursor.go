package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"refold/projections"
)

// cursor is the sort key of the last document of a page, with the mark of the
// query that it belongs to.
type cursor struct {
	Query  []byte   `json:"q"`
	Values [][]byte `json:"v,omitempty"`
	ID     []byte   `json:"i"`
}

// place is a position in an ordered list: after this document.
type place struct {
	values [][]byte // index entries, one for each order
	id     []byte
}

// mark tells one list from another; limit and offset do not matter to it.
func mark(q projections.Query) []byte {
	b, _ := json.Marshal([]any{q.Collection, q.Tenant, q.Where, q.OrderBy}) // strings, integers and booleans always encode
	sum := sha256.Sum256(b)
	return sum[:9]
}

func mintCursor(q projections.Query, p place) string {
	b, _ := json.Marshal(cursor{Query: mark(q), Values: p.values, ID: p.id})
	return base64.RawURLEncoding.EncodeToString(b)
}

// locate reads a query's cursor; nil if it has none.
func locate(q projections.Query) (*place, error) {
	if q.Cursor == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", projections.ErrBadCursor, err)
	}
	var c cursor
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("%w: %w", projections.ErrBadCursor, err)
	}
	if dec.More() || !bytes.Equal(c.Query, mark(q)) || len(c.Values) != len(q.OrderBy) {
		return nil, projections.ErrBadCursor
	}
	for i, v := range c.Values {
		if v == nil {
			c.Values[i] = []byte{}
		}
	}
	if c.ID == nil {
		return nil, projections.ErrBadCursor
	}
	return &place{values: c.Values, id: c.ID}, nil
}
