package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/search"
)

// Nearest implements knowledge.Index. All vectors of the model are looked at, in
// memory, with a byte for each component (see search.Spaces for how much that may
// be); the best few are compared again as they came. The first search reads them
// from the file, later ones what is new.
func (x *Index) Nearest(ctx context.Context, q knowledge.Query) (hits []knowledge.Hit, err error) {
	q = q.Normal()
	if err := search.CheckVector(q.Vector); err != nil {
		return nil, fmt.Errorf("%w: %w", event.ErrInvalid, err)
	}
	var space, dims int64
	var in *reach
	var now search.Mark
	err = x.db.read(ctx, func(r *reader) error {
		return r.snapshot(func() (err error) {
			err = r.query("SELECT id, dims FROM knowledge_space WHERE tenant = ? AND model = ? AND EXISTS (SELECT 1 FROM knowledge_vector WHERE space = knowledge_space.id)",
				func(s *sqlite3.Stmt) error { space, dims = s.ColumnInt64(0), s.ColumnInt64(1); return nil }, q.Tenant, q.Model)
			if err != nil || space == 0 {
				return err
			}
			if now, err = r.mark(); err != nil {
				return err
			}
			in, err = r.reach(q)
			return err
		})
	})
	switch {
	case err != nil:
		return nil, err
	case space == 0:
		return nil, fmt.Errorf("%w of %s", knowledge.ErrNoVectors, q.Model)
	case int(dims) != len(q.Vector):
		return nil, errDims(int(dims), len(q.Vector))
	}
	load := func(ctx context.Context, from search.Mark, add func(search.Ref, []float32) error) (to search.Mark, err error) {
		err = x.db.read(ctx, func(r *reader) error {
			return r.snapshot(func() (err error) {
				to, err = r.vectors(q.Tenant, space, from, add)
				return err
			})
		})
		return to, err
	}
	keep := func(r search.Ref) bool { return in.holds(r.Collection, r.Entry) && q.Wants(knowledge.Kind(r.Kind)) }
	for n := max(4*q.Limit, 200); ; n *= 8 {
		near, err := x.db.spaces.Nearest(ctx, space, now, load, q.Vector, n, keep)
		if err != nil {
			return nil, err
		}
		// What is gone or disabled meanwhile shows here.
		if hits, err = x.exact(ctx, q, near); err != nil || len(hits) >= q.Limit || len(near) < n {
			return hits[:min(len(hits), q.Limit)], err
		}
	}
}

// mark is up to where rows have been written.
func (r *reader) mark() (m search.Mark, err error) {
	err = r.query("SELECT name, seq FROM sqlite_sequence WHERE name IN ('knowledge_vector', 'knowledge_chunk')", func(s *sqlite3.Stmt) error {
		if s.ColumnText(0) == "knowledge_vector" {
			m.Vectors = s.ColumnInt64(1)
		} else {
			m.Chunks = s.ColumnInt64(1)
		}
		return nil
	})
	return m, err
}

// vectors is a search.Loader in the snapshot that is open. Numbers of rows are
// given out by the only writer, in commit order.
func (r *reader) vectors(tenant string, space int64, from search.Mark, add func(search.Ref, []float32) error) (search.Mark, error) {
	to, err := r.mark()
	if err != nil {
		return to, err
	}
	var v []float32
	kinds := map[string]string{}
	row := func(s *sqlite3.Stmt) error {
		kind, ok := kinds[string(s.ColumnRawText(3))]
		if !ok {
			kind = s.ColumnText(3)
			kinds[kind] = kind
		}
		v = floats(v, s.ColumnRawBlob(5))
		return add(search.Ref{Row: s.ColumnInt64(0), Entry: s.ColumnInt64(1), Collection: s.ColumnInt64(2), Kind: kind, Vector: s.ColumnInt64(4)}, v)
	}
	const columns = "SELECT c.row, c.entry, c.base, c.kind, v.row, v.data FROM "
	err = r.query(columns+`knowledge_vector v CROSS JOIN knowledge_chunk c ON c.tenant = ? AND c.embedded = v.digest
WHERE v.row > ? AND +v.space = ?`, row, tenant, from.Vectors, space)
	if err != nil || from.Vectors == 0 {
		return to, err
	}
	return to, r.query(columns+`knowledge_chunk c CROSS JOIN knowledge_vector v ON v.space = ? AND v.digest = c.embedded
WHERE c.row > ? AND c.tenant = ? AND v.row <= ?`, row, space, from.Chunks, tenant, from.Vectors)
}

// exact compares vectors as they came, of chunks that are still there and
// enabled, and gives the best first.
func (x *Index) exact(ctx context.Context, q knowledge.Query, near []search.Near) (hits []knowledge.Hit, err error) {
	err = x.db.read(ctx, func(r *reader) error {
		return r.snapshot(func() error {
			var v []float32
			var rows []int64
			var scores []float64
			for _, n := range near {
				err := r.query(`SELECT v.data FROM knowledge_chunk c JOIN knowledge_vector v ON v.row = ? WHERE c.row = ? AND c.disabled = 0`, func(s *sqlite3.Stmt) error {
					v = floats(v, s.ColumnRawBlob(0))
					rows, scores = append(rows, n.Row), append(scores, search.Cosine(q.Vector, v))
					return nil
				}, n.Vector, n.Row)
				if err != nil {
					return err
				}
			}
			hits, err = r.best(rows, scores, q.Limit)
			return err
		})
	})
	return hits, err
}
