package sqlite

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
type cursor struct {
	Query  []byte        `json:"q"`
	Values []cursorValue `json:"v,omitempty"`
	ID     []byte        `json:"i"`
}

// cursorValue is an index entry; both nil for a missing one.
type cursorValue struct {
	Number *int64  `json:"n,omitempty"`
	Text   *[]byte `json:"t,omitempty"`
}

// place is a position in an ordered list: after this document.
type place struct {
	values []any // index entries, one for each order
	id     string
}

// mark tells one list from another; limit and offset do not matter to it.
func mark(q projections.Query) []byte {
	b, _ := json.Marshal([]any{q.Collection, q.Tenant, q.Where, q.OrderBy}) // strings, integers and booleans always encode
	sum := sha256.Sum256(b)
	return sum[:9]
}

func mint(q projections.Query, p place) string {
	c := cursor{Query: mark(q), ID: []byte(p.id)}
	for _, v := range p.values {
		var out cursorValue
		switch v := v.(type) {
		case int64:
			out.Number = &v
		case string:
			b := []byte(v)
			out.Text = &b
		}
		c.Values = append(c.Values, out)
	}
	b, _ := json.Marshal(c)
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
	p := &place{id: string(c.ID)}
	for _, v := range c.Values {
		switch {
		case v.Number != nil:
			p.values = append(p.values, *v.Number)
		case v.Text != nil:
			p.values = append(p.values, string(*v.Text))
		default:
			p.values = append(p.values, nil)
		}
	}
	return p, nil
}
