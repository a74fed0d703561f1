package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/ncruces/go-sqlite3"

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

// reach resolves scope and tags of a query, in the snapshot that is open.
func (r *reader) reach(q knowledge.Query) (*reach, error) {
	x := &reach{whole: map[int64]bool{}, entries: map[int64]bool{}, off: map[int64]bool{}}
	bases := map[string]int64{}
	for _, base := range q.Scope.Bases() {
		err := r.query("SELECT id, texts, length FROM knowledge_base WHERE tenant = ? AND base = ?", func(s *sqlite3.Stmt) error {
			c := search.Collection{ID: s.ColumnInt64(0), Texts: s.ColumnInt(1), Length: s.ColumnInt64(2)}
			bases[base] = c.ID
			if c.Texts > 0 {
				x.collections = append(x.collections, c)
			}
			return nil
		}, q.Tenant, base)
		if err != nil {
			return nil, err
		}
	}
	for _, t := range q.Scope.Targets {
		id, ok := bases[t.Base]
		if ok && !t.Restricted {
			x.whole[id] = true
		}
		if !ok || !t.Restricted {
			continue
		}
		for _, d := range t.Documents {
			err := r.query("SELECT row, base FROM knowledge_entry WHERE tenant = ? AND document = ?", func(s *sqlite3.Stmt) error {
				if s.ColumnInt64(1) == id {
					x.entries[s.ColumnInt64(0)] = true
				}
				return nil
			}, q.Tenant, d)
			if err != nil {
				return nil, err
			}
		}
	}
	err := r.query("SELECT row FROM knowledge_entry WHERE tenant = ? AND disabled = 1", func(s *sqlite3.Stmt) error {
		x.off[s.ColumnInt64(0)] = true
		return nil
	}, q.Tenant)
	if len(q.Tags) > 0 {
		x.tagged = map[int64]bool{}
	}
	for _, tag := range q.Tags {
		err = errors.Join(err, r.query("SELECT entry FROM knowledge_tag WHERE tenant = ? AND tag = ?", func(s *sqlite3.Stmt) error {
			x.tagged[s.ColumnInt64(0)] = true
			return nil
		}, q.Tenant, tag))
	}
	return x, err
}

// few is how many chunks of single documents are all scored, without a short list.
const few = 1000

// all gives the rows of the single documents in reach if they are few.
func (r *reader) all(x *reach) ([]int64, bool, error) {
	if len(x.whole) > 0 || len(x.entries) > few {
		return nil, false, nil
	}
	var rows []int64
	for e := range x.entries {
		err := r.query("SELECT row FROM knowledge_chunk WHERE entry = ? AND embedded IS NOT NULL LIMIT ?", func(s *sqlite3.Stmt) error {
			rows = append(rows, s.ColumnInt64(0))
			return nil
		}, e, int64(few+1))
		if err != nil || len(rows) > few {
			return nil, false, err
		}
	}
	slices.Sort(rows)
	return rows, true, nil
}

// scored is how many chunks of a short list are scored exactly.
func scored(limit int) int { return min(max(3*limit, 150), limit+400) }

// Keyword implements knowledge.Index.
func (x *Index) Keyword(ctx context.Context, q knowledge.Query) (hits []knowledge.Hit, err error) {
	q = q.Normal()
	err = x.db.read(ctx, func(r *reader) error {
		return r.snapshot(func() error {
			reach, err := r.reach(q)
			if err != nil {
				return err
			}
			rows, scorer, err := search.Shortlist(ctx, lists{r}, reach.collections, q.Text)
			if err != nil || scorer == nil {
				return err
			}
			want := scored(q.Limit)
			if some, ok, err := r.all(reach); err != nil {
				return err
			} else if ok {
				rows, want = some, few
			}
			hits, err = r.score(ctx, reach, q, rows, want, scorer)
			return err
		})
	})
	return hits, err
}

// score reads rows until it has scored as many as wanted, and gives the best.
func (r *reader) score(ctx context.Context, x *reach, q knowledge.Query, rows []int64, want int, scorer *search.Scorer) ([]knowledge.Hit, error) {
	var found []int64
	var scores []float64
	titles := map[int64]string{}
	title := func(entry int64) (t string, err error) {
		t, ok := titles[entry]
		if !ok {
			err = r.query("SELECT title FROM knowledge_entry WHERE row = ?", func(s *sqlite3.Stmt) error { t = s.ColumnText(0); return nil }, entry)
			titles[entry] = t
		}
		return t, err
	}
	for i, row := range rows {
		if len(found) >= want {
			break
		}
		if i%64 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		err := r.query("SELECT entry, base, disabled, kind, context, content FROM knowledge_chunk WHERE row = ?", func(s *sqlite3.Stmt) error {
			entry := s.ColumnInt64(0)
			if s.ColumnInt64(2) != 0 || !x.holds(s.ColumnInt64(1), entry) || !q.Wants(knowledge.Kind(s.ColumnText(3))) {
				return nil
			}
			t, err := title(entry)
			if err != nil {
				return err
			}
			if score := scorer.Score(t, s.ColumnText(4), s.ColumnText(5)); score > 0 {
				found, scores = append(found, row), append(scores, score)
			}
			return nil
		}, row)
		if err != nil {
			return nil, err
		}
	}
	return r.best(found, scores, q.Limit)
}

// best reads the chunks with the highest scores, equal ones in the order of
// documents.
func (r *reader) best(rows []int64, scores []float64, limit int) ([]knowledge.Hit, error) {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	// A few more than asked for, as those that are equal to the last are ordered, too.
	n := min(len(order), limit)
	for n > 0 && n < min(len(order), limit+50) && scores[order[n]] == scores[order[n-1]] {
		n++
	}
	var hits []knowledge.Hit
	for _, i := range order[:n] {
		f, err := r.foundAt(rows[i])
		if err != nil {
			return nil, err
		}
		if !f.Entry.Disabled {
			hits = append(hits, knowledge.Hit{Found: f, Score: scores[i]})
		}
	}
	knowledge.SortHits(hits)
	return hits[:min(len(hits), limit)], nil
}

// lists are the inverted lists of FTS5.
type lists struct{ r *reader }

// Sizes implements search.Lists.
func (l lists) Sizes(ctx context.Context, in []search.List) ([][search.Levels]int, error) {
	out := make([][search.Levels]int, len(in))
	for i, stem := range in {
		var err error
		if stem.Prefix {
			// Terms that begin alike share rows, so they are counted together.
			err = l.r.query("SELECT count(*) FROM (SELECT 1 FROM knowledge_words WHERE knowledge_words MATCH ? LIMIT ?)", func(s *sqlite3.Stmt) error {
				out[i][0] = s.ColumnInt(0)
				return ctx.Err()
			}, match(stem), int64(search.Budget))
		} else {
			// ">" is the character after "=".
			err = l.r.query("SELECT term, doc FROM knowledge_lists WHERE term >= ? AND term < ?", func(s *sqlite3.Stmt) error {
				out[i][search.LevelOf(s.ColumnText(0))] = s.ColumnInt(1)
				return ctx.Err()
			}, stem.Text+"=", stem.Text+">")
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// match names a list to FTS5. Lexemes hold nothing that it would understand
// inside quotes.
func match(l search.List) string {
	if l.Prefix {
		return `"` + l.Text + `"*`
	}
	return `"` + l.Text + `"`
}

// Rows implements search.Lists.
func (l lists) Rows(ctx context.Context, in []search.List, limits []int) ([][]int64, error) {
	out := make([][]int64, len(in))
	for i, list := range in {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = make([]int64, 0, min(limits[i], search.Budget))
		err := l.r.query("SELECT rowid FROM knowledge_words WHERE knowledge_words MATCH ? LIMIT ?", func(s *sqlite3.Stmt) error {
			out[i] = append(out[i], s.ColumnInt64(0))
			return nil
		}, match(list), int64(limits[i]))
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
