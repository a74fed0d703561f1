package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"refold/domain/knowledge"
	"refold/domain/search"
)

// reach is what a query may find, in numbers of rows.
type reach struct {
	whole       map[int64]bool // bases
	entries     map[int64]bool // single documents
	off         map[int64]bool // documents that are disabled
	tagged      map[int64]bool // documents with one of the tags; nil = any
	collections []search.Collection
}

func (x *reach) holds(base, entry int64) bool {
	return (x.whole[base] || x.entries[entry]) && !x.off[entry] && (x.tagged == nil || x.tagged[entry])
}

// snapshot runs f in a transaction that sees one state.
func (x *Index) snapshot(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	return x.db.do(ctx, "read", func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

func numbers(ctx context.Context, tx pgx.Tx, sql string, args ...any) (map[int64]bool, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	out := map[int64]bool{}
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&n}, func() error { out[n] = true; return nil })
	return out, err
}

// reachOf resolves scope and tags of a query.
func reachOf(ctx context.Context, tx pgx.Tx, q knowledge.Query) (*reach, error) {
	x := &reach{whole: map[int64]bool{}, entries: map[int64]bool{}}
	bases := map[string]int64{}
	rows, err := tx.Query(ctx, "SELECT base, id, texts, length FROM knowledge_base WHERE tenant = $1 AND base = ANY($2) ORDER BY id", q.Tenant, texts(q.Scope.Bases()))
	if err != nil {
		return nil, err
	}
	var name string
	var c search.Collection
	if _, err = pgx.ForEachRow(rows, []any{&name, &c.ID, &c.Texts, &c.Length}, func() error {
		bases[name] = c.ID
		if c.Texts > 0 {
			x.collections = append(x.collections, c)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	for _, t := range q.Scope.Targets {
		id, ok := bases[t.Base]
		if ok && !t.Restricted {
			x.whole[id] = true
		}
		if !ok || !t.Restricted || len(t.Documents) == 0 {
			continue
		}
		some, err := numbers(ctx, tx, "SELECT id FROM knowledge_entry WHERE tenant = $1 AND base = $2 AND document = ANY($3)", q.Tenant, id, texts(t.Documents))
		if err != nil {
			return nil, err
		}
		for e := range some {
			x.entries[e] = true
		}
	}
	if x.off, err = numbers(ctx, tx, "SELECT id FROM knowledge_entry WHERE tenant = $1 AND disabled", q.Tenant); err == nil && len(q.Tags) > 0 {
		x.tagged, err = numbers(ctx, tx, "SELECT id FROM knowledge_entry WHERE tenant = $1 AND tags && $2", q.Tenant, texts(q.Tags))
	}
	return x, err
}

// few is how many chunks of single documents are all scored, without a short list.
const few = 1000

// all gives the rows of the single documents in reach if they are few.
func (x *reach) all(ctx context.Context, tx pgx.Tx) ([]int64, bool, error) {
	if len(x.whole) > 0 || len(x.entries) > few {
		return nil, false, nil
	}
	some, err := numbers(ctx, tx, "SELECT id FROM knowledge_chunk WHERE entry = ANY($1) AND embedded IS NOT NULL LIMIT $2", keys(x.entries), few+1)
	if err != nil || len(some) > few {
		return nil, false, err
	}
	return keys(some), true, nil
}

func keys(m map[int64]bool) []int64 {
	out := make([]int64, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// scored is how many chunks of a short list are scored exactly.
func scored(limit int) int { return min(max(3*limit, 150), limit+400) }

// Keyword implements knowledge.Index.
func (x *Index) Keyword(ctx context.Context, q knowledge.Query) (hits []knowledge.Hit, err error) {
	q = q.Normal()
	if !plain(q.Tenant) {
		return nil, ctx.Err()
	}
	err = x.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		hits = nil
		// A list is to be read by its index, whatever its length is thought to be.
		if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = off"); err != nil {
			return err
		}
		in, err := reachOf(ctx, tx, q)
		if err != nil {
			return err
		}
		rows, scorer, err := search.Shortlist(ctx, lists{tx}, in.collections, q.Text)
		if err != nil || scorer == nil {
			return err
		}
		want := scored(q.Limit)
		if some, ok, err := in.all(ctx, tx); err != nil {
			return err
		} else if ok {
			rows, want = some, few
		}
		if rows, err = in.kept(ctx, tx, q, rows, want); err != nil {
			return err
		}
		hits, err = score(ctx, tx, rows, scorer, q.Limit)
		return err
	})
	return hits, err
}

// kept gives the first n rows that the query may find.
func (x *reach) kept(ctx context.Context, tx pgx.Tx, q knowledge.Query, rows []int64, n int) (out []int64, err error) {
	for size := 2 * n; len(rows) > 0 && len(out) < n; size *= 4 {
		part := rows[:min(size, len(rows))]
		rows = rows[len(part):]
		found, err := tx.Query(ctx, "SELECT id, entry, base, kind FROM knowledge_chunk WHERE id = ANY($1) AND NOT disabled", part)
		if err != nil {
			return nil, err
		}
		ok := map[int64]bool{}
		var id, entry, base int64
		var kind knowledge.Kind
		if _, err := pgx.ForEachRow(found, []any{&id, &entry, &base, &kind}, func() error {
			ok[id] = x.holds(base, entry) && q.Wants(kind)
			return nil
		}); err != nil {
			return nil, err
		}
		for _, row := range part {
			if ok[row] && len(out) < n {
				out = append(out, row)
			}
		}
	}
	return out, nil
}

// score gives the best of some rows.
func score(ctx context.Context, tx pgx.Tx, rows []int64, scorer *search.Scorer, limit int) ([]knowledge.Hit, error) {
	found, err := tx.Query(ctx, "SELECT c.id, e.title, c.context, c.content FROM knowledge_chunk c JOIN knowledge_entry e ON e.id = c.entry WHERE c.id = ANY($1)", rows)
	if err != nil {
		return nil, err
	}
	scores := map[int64]float64{}
	var id int64
	var title, headings, content []byte
	if _, err := pgx.ForEachRow(found, []any{&id, &title, &headings, &content}, func() error {
		if s := scorer.Score(string(title), string(headings), string(content)); s > 0 {
			scores[id] = s
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return best(ctx, tx, scores, limit)
}

// best reads the chunks with the highest scores, equal ones in the order of
// documents.
func best(ctx context.Context, tx pgx.Tx, scores map[int64]float64, limit int) ([]knowledge.Hit, error) {
	rows := make([]int64, 0, len(scores))
	for id := range scores {
		rows = append(rows, id)
	}
	slices.SortFunc(rows, func(a, b int64) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	// A few more than asked for, as those that are equal to the last are ordered, too.
	n := min(len(rows), limit)
	for n > 0 && n < min(len(rows), limit+50) && scores[rows[n]] == scores[rows[n-1]] {
		n++
	}
	found, err := foundWhere(ctx, tx, "c.id = ANY($1)", rows[:n])
	if err != nil {
		return nil, err
	}
	var hits []knowledge.Hit
	for _, f := range found {
		if !f.Entry.Disabled {
			hits = append(hits, knowledge.Hit{Found: f.Found, Score: scores[f.row]})
		}
	}
	knowledge.SortHits(hits)
	return hits[:min(len(hits), limit)], nil
}

// lists are the inverted lists of the GIN index.
type lists struct{ tx pgx.Tx }

// match names a list to PostgreSQL. Lexemes hold no quotes and no backslashes.
func match(l search.List) string {
	if l.Prefix {
		return "'" + l.Text + "':*"
	}
	return "'" + l.Text + "'"
}

// Sizes implements search.Lists.
func (l lists) Sizes(ctx context.Context, in []search.List) ([][search.Levels]int, error) {
	var matches []string
	var stems, levels []int
	for i, stem := range in {
		for level := range search.Levels {
			if stem.Prefix && level > 0 {
				break
			}
			one := stem
			if !stem.Prefix {
				one.Text = search.LexemeOf(stem.Text, level)
			}
			matches, stems, levels = append(matches, match(one)), append(stems, i), append(levels, level)
		}
	}
	rows, err := l.tx.Query(ctx, `SELECT (SELECT count(*) FROM (SELECT FROM knowledge_chunk c WHERE c.words @@ q.term::tsquery LIMIT $2) x)
FROM unnest($1::text[]) WITH ORDINALITY q (term, n) ORDER BY q.n`, matches, search.Budget)
	if err != nil {
		return nil, err
	}
	sizes, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil, err
	}
	out := make([][search.Levels]int, len(in))
	for i, n := range sizes {
		out[stems[i]][levels[i]] = n
	}
	return out, nil
}

// Rows implements search.Lists.
func (l lists) Rows(ctx context.Context, in []search.List, limits []int) ([][]int64, error) {
	matches := make([]string, len(in))
	for i, list := range in {
		matches[i] = match(list)
	}
	rows, err := l.tx.Query(ctx, `SELECT array(SELECT c.id FROM knowledge_chunk c WHERE c.words @@ q.term::tsquery LIMIT q.most)
FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY q (term, most, n) ORDER BY q.n`, matches, limits)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[[]int64])
}
