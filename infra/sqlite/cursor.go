package sqlite

import (
	"refold/infra/sqlstore"
	"refold/projections"
)

// cursorValue is an index entry in a cursor; both nil for a missing one.
type cursorValue struct {
	Number *int64  `json:"n,omitempty"`
	Text   *[]byte `json:"t,omitempty"`
}

// place is a position in an ordered list: after this document.
type place struct {
	values []any // index entries, one for each order
	id     string
}

func mint(q projections.Query, p place) string {
	var values []cursorValue
	for _, v := range p.values {
		var out cursorValue
		switch v := v.(type) {
		case int64:
			out.Number = &v
		case string:
			b := []byte(v)
			out.Text = &b
		}
		values = append(values, out)
	}
	return sqlstore.MintCursor(q, values, []byte(p.id))
}

// locate reads a query's cursor; nil if it has none.
func locate(q projections.Query) (*place, error) {
	values, id, found, err := sqlstore.ReadCursor[cursorValue](q)
	if err != nil || !found {
		return nil, err
	}
	p := &place{id: string(id)}
	for _, v := range values {
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
