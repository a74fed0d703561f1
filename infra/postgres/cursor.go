package postgres

import (
	"refold/infra/sqlstore"
	"refold/projections"
)

// place is a position in an ordered list: after this document.
type place struct {
	values [][]byte // index entries, one for each order
	id     []byte
}

func mintCursor(q projections.Query, p place) string {
	return sqlstore.MintCursor(q, p.values, p.id)
}

// locate reads a query's cursor; nil if it has none.
func locate(q projections.Query) (*place, error) {
	values, id, found, err := sqlstore.ReadCursor[[]byte](q)
	if err != nil || !found {
		return nil, err
	}
	for i, v := range values {
		if v == nil {
			values[i] = []byte{}
		}
	}
	return &place{values: values, id: id}, nil
}
