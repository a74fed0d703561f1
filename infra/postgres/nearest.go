package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/search"
)

// Nearest implements knowledge.Index. The best few by pgvector's halves, or by
// vectors held in memory with a byte for each component, are compared again as
// they came.
func (x *Index) Nearest(ctx context.Context, q knowledge.Query) (hits []knowledge.Hit, err error) {
	q = q.Normal()
	if err := search.CheckVector(q.Vector); err != nil {
		return nil, fmt.Errorf("%w: %w", event.ErrInvalid, err)
	}
	var s spaceRow
	var in *reach
	none := fmt.Errorf("%w of %s", knowledge.ErrNoVectors, q.Model)
	if !plain(q.Tenant) || !plain(q.Model) {
		return nil, none
	}
	err = x.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if s, err = spaceOf(ctx, tx, q.Tenant, q.Model); err != nil || s.id == 0 {
			return err
		}
		in, err = reachOf(ctx, tx, q)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case s.id == 0 || s.mark.Vectors == 0:
		return nil, none
	case s.dims != len(q.Vector):
		return nil, errDims(s.dims, len(q.Vector))
	case search.Cosine(q.Vector, q.Vector) == 0:
		return nil, nil // it points nowhere
	}
	for n := max(4*q.Limit, 200); ; n *= 8 {
		var near []search.Near
		all := false
		if x.db.half.on {
			near, all, err = x.half(ctx, q, s, in, n)
		} else {
			near, err = x.held(ctx, q, s, in, n)
			all = len(near) < n
		}
		if err != nil {
			return nil, err
		}
		// What is gone or disabled meanwhile shows here.
		if hits, err = x.exact(ctx, q, near); err != nil || len(hits) >= q.Limit || all {
			return hits[:min(len(hits), q.Limit)], err
		}
	}
}

// spaceRow is the vectors of a model, and up to where rows have been written for it.
type spaceRow struct {
	id   int64
	dims int
	mark search.Mark
}

// spaceOf finds a space; its id is 0 if there is none. Rows of a tenant are
// written one transaction after another, so whoever sees a number has missed none
// below it.
func spaceOf(ctx context.Context, tx pgx.Tx, tenant, model string) (s spaceRow, err error) {
	err = tx.QueryRow(ctx, `SELECT s.id, s.dims, coalesce((SELECT max(id) FROM knowledge_vector WHERE space = s.id), 0),
coalesce((SELECT max(id) FROM knowledge_chunk WHERE tenant = $1), 0) FROM knowledge_space s WHERE s.tenant = $1 AND s.model = $2`, tenant, model).
		Scan(&s.id, &s.dims, &s.mark.Vectors, &s.mark.Chunks)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return s, err
}

// held looks at all vectors of the model, in memory.
func (x *Index) held(ctx context.Context, q knowledge.Query, s spaceRow, in *reach, n int) ([]search.Near, error) {
	load := func(ctx context.Context, from search.Mark, add func(search.Ref, []float32) error) (to search.Mark, err error) {
		var failed error
		err = x.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
			now, err := spaceOf(ctx, tx, q.Tenant, q.Model)
			if err == nil {
				err = loadVectors(ctx, tx, q.Tenant, s.id, from, func(r search.Ref, v []float32) error {
					failed = add(r, v)
					return failed
				})
			}
			to = now.mark
			if failed != nil {
				err = fmt.Errorf("%w: %w", context.Canceled, failed) // not to be tried again
			}
			return err
		})
		if failed != nil {
			return to, failed
		}
		return to, err
	}
	keep := func(r search.Ref) bool { return in.holds(r.Collection, r.Entry) && q.Wants(knowledge.Kind(r.Kind)) }
	return x.db.spaces.Nearest(ctx, s.id, s.mark, load, q.Vector, n, keep)
}

// loadVectors is a search.Loader in one snapshot.
func loadVectors(ctx context.Context, tx pgx.Tx, tenant string, space int64, from search.Mark, add func(search.Ref, []float32) error) error {
	const columns = "SELECT c.id, c.entry, c.base, c.kind, v.id, v.data FROM knowledge_vector v JOIN knowledge_chunk c ON c.tenant = $1 AND c.embedded = v.digest WHERE v.space = $2 AND "
	kinds := map[string]string{}
	read := func(sql string, args ...any) error {
		rows, err := tx.Query(ctx, columns+sql, args...)
		if err != nil {
			return err
		}
		var r search.Ref
		var kind string
		var v []float32
		_, err = pgx.ForEachRow(rows, []any{&r.Row, &r.Entry, &r.Collection, &kind, &r.Vector, &v}, func() error {
			if _, ok := kinds[kind]; !ok {
				kinds[kind] = kind
			}
			r.Kind = kinds[kind]
			return add(r, v)
		})
		return err
	}
	if err := read("v.id > $3", tenant, space, from.Vectors); err != nil || from.Vectors == 0 {
		return err
	}
	return read("v.id <= $3 AND c.id > $4", tenant, space, from.Vectors, from.Chunks)
}

// exact compares vectors as they came, of chunks that are still there and
// enabled, and gives the best first.
func (x *Index) exact(ctx context.Context, q knowledge.Query, near []search.Near) (hits []knowledge.Hit, err error) {
	chunks, vectors := make([]int64, len(near)), make([]int64, len(near))
	for i, n := range near {
		chunks[i], vectors[i] = n.Row, n.Vector
	}
	err = x.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT c.id, v.data FROM unnest($1::bigint[], $2::bigint[]) n (chunk, vector)
JOIN knowledge_chunk c ON c.id = n.chunk AND NOT c.disabled JOIN knowledge_vector v ON v.id = n.vector`, chunks, vectors)
		if err != nil {
			return err
		}
		scores := map[int64]float64{}
		var id int64
		var v []float32
		if _, err := pgx.ForEachRow(rows, []any{&id, &v}, func() error {
			scores[id] = search.Cosine(q.Vector, v)
			return nil
		}); err != nil {
			return err
		}
		hits, err = best(ctx, tx, scores, q.Limit)
		return err
	})
	return hits, err
}

// wanted gives the searched kinds that a query names, nil for all.
func wanted(q knowledge.Query) (out []string) {
	if len(q.Kinds) > 0 {
		out = []string{}
	}
	for _, k := range append(slices.Clip(q.Kinds), knowledge.FAQQuestion) {
		if len(q.Kinds) > 0 && q.Wants(k) && !slices.Contains(out, string(k)) {
			out = append(out, string(k))
		}
	}
	return out
}
