package memory

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"refold/domain/event"
	"refold/projections"
)

// normal gives an index value as it is kept: nil, int64 or string.
func normal(v any) (any, error) {
	switch v := v.(type) {
	case string, int64:
		return v, nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	}
	return nil, fmt.Errorf("%w: an index value is a string, int64 or bool, not %T", event.ErrInvalid, v)
}

// order compares two kept values: missing, then numbers, then strings.
func order(a, b any) int {
	rank := func(v any) int {
		switch v.(type) {
		case int64:
			return 1
		case string:
			return 2
		}
		return 0
	}
	if r := cmp.Compare(rank(a), rank(b)); r != 0 {
		return r
	}
	switch a := a.(type) {
	case int64:
		return cmp.Compare(a, b.(int64))
	case string:
		return cmp.Compare(a, b.(string))
	}
	return 0
}

func compare(by []projections.Order, a, b projections.Document) int {
	for _, o := range by {
		c := order(a.Index[o.Field], b.Index[o.Field])
		if o.Desc {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(a.ID, b.ID)
}

func match(doc projections.Document, where []projections.Where) bool {
	for _, w := range where {
		v, ok := doc.Index[w.Field]
		if !ok || !holds(v, w.Op, w.Value) {
			return false
		}
	}
	return true
}

// holds compares values of one type; values of two types never match.
func holds(v any, op string, want any) bool {
	_, text := v.(string)
	if _, wantText := want.(string); text != wantText {
		return false
	}
	switch c := order(v, want); op {
	case "=":
		return c == 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	}
	return text && strings.Contains(strings.ToLower(v.(string)), strings.ToLower(want.(string)))
}

// cursor is the sort key of the last document of a page, and the query that it
// belongs to.
type cursor struct {
	Query  string
	Values []any // nil, int64 or string
	ID     string
}

// shape names a query, so that a cursor cannot wander into another list.
func shape(q projections.Query) string {
	b, _ := json.Marshal([]any{q.Collection, q.Tenant, q.Where, q.OrderBy})
	return string(b)
}

func mint(q projections.Query, last projections.Document) string {
	c := cursor{Query: shape(q), ID: last.ID}
	for _, o := range q.OrderBy {
		c.Values = append(c.Values, last.Index[o.Field])
	}
	b, _ := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(b)
}

// place gives a document with the cursor's sort key; nil without a cursor.
func place(q projections.Query) (*projections.Document, error) {
	if q.Cursor == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", projections.ErrBadCursor, err)
	}
	var c cursor
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&c); err != nil {
		return nil, fmt.Errorf("%w: %w", projections.ErrBadCursor, err)
	}
	if dec.More() || c.Query != shape(q) || len(c.Values) != len(q.OrderBy) {
		return nil, projections.ErrBadCursor
	}
	doc := &projections.Document{Key: projections.Key{ID: c.ID}, Index: map[string]any{}}
	for i, v := range c.Values {
		switch v := v.(type) {
		case nil:
		case string:
			doc.Index[q.OrderBy[i].Field] = v
		case json.Number:
			n, err := v.Int64()
			if err != nil {
				return nil, fmt.Errorf("%w: %w", projections.ErrBadCursor, err)
			}
			doc.Index[q.OrderBy[i].Field] = n
		default:
			return nil, projections.ErrBadCursor
		}
	}
	return doc, nil
}

func copied(doc projections.Document) projections.Document {
	doc.Body, doc.Index = bytes.Clone(doc.Body), maps.Clone(doc.Index)
	return doc
}
