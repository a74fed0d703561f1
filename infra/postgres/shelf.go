package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/projections"
)

// shelf is what a commit does to one collection of one tenant.
type shelf struct {
	collection, tenant string
	put                map[string]put
	remove             []string
	id                 int64
}

type put struct {
	fields fields
	body   []byte
}

// sortBatch gives the shelves of a batch in one order for all commits.
func sortBatch(b projections.Batch) ([]*shelf, error) {
	byName := map[[2]string]*shelf{}
	of := func(k projections.Key) *shelf {
		name := [2]string{k.Collection, k.Tenant}
		if byName[name] == nil {
			byName[name] = &shelf{collection: k.Collection, tenant: k.Tenant, put: map[string]put{}}
		}
		return byName[name]
	}
	for _, doc := range b.Put {
		if doc.ID == "" {
			return nil, fmt.Errorf("%w: document of %s without an id", event.ErrInvalid, doc.Collection)
		}
		f, err := newFields(doc.Index)
		if err != nil {
			return nil, fmt.Errorf("document %s of %s: %w", doc.ID, doc.Collection, err)
		}
		body := doc.Body
		if body == nil {
			body = []byte{}
		}
		of(doc.Key).put[doc.ID] = put{f, body} // the last of two puts wins
	}
	for _, k := range b.Delete {
		s := of(k)
		delete(s.put, k.ID)
		s.remove = append(s.remove, k.ID)
	}
	out := make([]*shelf, 0, len(byName))
	for _, s := range byName {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *shelf) int {
		return cmp.Or(cmp.Compare(a.collection, b.collection), cmp.Compare(a.tenant, b.tenant))
	})
	return out, nil
}

// write makes the changes. The row of the shelf is held from the start, so that
// its fields and documents change one commit at a time.
func (s *shelf) write(ctx context.Context, tx pgx.Tx) error {
	if len(s.put) > 0 {
		if _, err := tx.Exec(ctx, "INSERT INTO shelf (collection, tenant) VALUES ($1, $2) ON CONFLICT DO NOTHING", s.collection, s.tenant); err != nil {
			return err
		}
	}
	err := tx.QueryRow(ctx, "SELECT id FROM shelf WHERE collection = $1 AND tenant = $2 FOR UPDATE", s.collection, s.tenant).Scan(&s.id)
	if errors.Is(err, pgx.ErrNoRows) && len(s.put) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	change := int64(0)
	if len(s.put) > 0 {
		if change, err = s.putAll(ctx, tx); err != nil {
			return err
		}
	}
	if len(s.remove) > 0 {
		n, err := s.removeAll(ctx, tx)
		if err != nil {
			return err
		}
		change -= n
	}
	if change != 0 {
		_, err = tx.Exec(ctx, "UPDATE shelf SET documents = documents + $2 WHERE id = $1", s.id, change)
	}
	return err
}

// known gives the ids of all fields of the shelf by name.
func (s *shelf) known(ctx context.Context, tx pgx.Tx) (map[string]int64, error) {
	rows, err := tx.Query(ctx, "SELECT id, name FROM field WHERE shelf = $1", s.id)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	var id int64
	var name []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		out[string(name)] = id
		return nil
	})
	return out, err
}

// putAll writes the documents and their entries: one for each field that any
// document of the shelf ever had. It gives how many documents are new.
func (s *shelf) putAll(ctx context.Context, tx pgx.Tx) (fresh int64, err error) {
	known, err := s.known(ctx, tx)
	if err != nil {
		return 0, err
	}
	names := make([]string, 0, len(s.put))
	for id, p := range s.put {
		names = append(names, id)
		for _, f := range p.fields {
			if known[f.name] == 0 {
				if known[f.name], err = s.add(ctx, tx, f.name); err != nil {
					return 0, err
				}
			}
		}
	}
	slices.Sort(names)
	ids, fieldBytes, bodies := make([][]byte, len(names)), make([][]byte, len(names)), make([][]byte, len(names))
	for i, name := range names {
		ids[i], fieldBytes[i], bodies[i] = []byte(name), s.put[name].fields.encode(), s.put[name].body
	}
	rows, err := tx.Query(ctx, `INSERT INTO document (shelf, name, fields, body) SELECT $1, * FROM unnest($2::bytea[], $3::bytea[], $4::bytea[])
ON CONFLICT (shelf, name) DO UPDATE SET fields = excluded.fields, body = excluded.body RETURNING id, name, xmax = 0`, s.id, ids, fieldBytes, bodies)
	if err != nil {
		return 0, err
	}
	var (
		docs, fieldIDs              []int64
		values, owners, wholes, low [][]byte
		doc                         int64
		name                        []byte
		inserted                    bool
	)
	if _, err := pgx.ForEachRow(rows, []any{&doc, &name, &inserted}, func() error {
		if inserted {
			fresh++
		}
		p := s.put[string(name)]
		owner := []byte(string(name)) // the variable is written again for the next row
		for field, id := range known {
			k := p.fields.get(field)
			value := []byte(k.entry())
			if value == nil {
				value = []byte{}
			}
			docs, fieldIDs, values = append(docs, doc), append(fieldIDs, id), append(values, value)
			owners, wholes, low = append(owners, owner), append(wholes, k.whole()), append(low, k.folded())
		}
		return nil
	}); err != nil {
		return 0, err
	}
	if len(docs) == 0 {
		return fresh, nil
	}
	_, err = tx.Exec(ctx, `INSERT INTO entry (document, field, value, name, whole, folded) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[])
ON CONFLICT (document, field) DO UPDATE SET value = excluded.value, whole = excluded.whole, folded = excluded.folded
WHERE (entry.value, entry.whole, entry.folded) IS DISTINCT FROM (excluded.value, excluded.whole, excluded.folded)`, docs, fieldIDs, values, owners, wholes, low)
	return fresh, err
}

// add begins to index a field: documents that are already there lack it.
func (s *shelf) add(ctx context.Context, tx pgx.Tx, name string) (id int64, err error) {
	if err := tx.QueryRow(ctx, "INSERT INTO field (shelf, name) VALUES ($1, $2) RETURNING id", s.id, []byte(name)).Scan(&id); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, "INSERT INTO entry (document, field, value, name) SELECT id, $2, '', name FROM document WHERE shelf = $1", s.id, id)
	return id, err
}

func (s *shelf) removeAll(ctx context.Context, tx pgx.Tx) (int64, error) {
	ids := make([][]byte, len(s.remove))
	for i, id := range s.remove {
		ids[i] = []byte(id)
	}
	tag, err := tx.Exec(ctx, `WITH gone AS (DELETE FROM document WHERE shelf = $1 AND name = ANY($2) RETURNING id),
entries AS (DELETE FROM entry WHERE document IN (SELECT id FROM gone)) SELECT FROM gone`, s.id, ids)
	return tag.RowsAffected(), err
}
