package retrieval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/search"
	"refold/handlers"
)

// list is the answer to one question to the index.
type list struct {
	query, match string
	weight       float64
	hits         []knowledge.Hit
}

// group is the bases whose vectors are made by one model.
type group struct {
	embedder handlers.Embedder
	bases    []string
	vectors  [][]float32 // of the queries
}

// recall asks the index in every way that there is, and joins the answers.
func (s *searching) recall(ctx context.Context) ([]Hit, error) {
	bases := s.req.Scope.Bases()
	known := map[string]Base{}
	if s.r.Bases != nil {
		var err error
		if known, err = s.r.Bases(ctx, s.req.Tenant, bases); err != nil {
			return nil, err
		}
	}
	var words []string
	var groups []*group
	for _, id := range bases {
		b, ok := known[id]
		if !ok {
			b = Base{Vector: true, Keyword: true}
		}
		var e handlers.Embedder
		if b.Vector && !s.req.NoVectors && s.r.Embedder != nil {
			e = s.r.Embedder(s.req.Tenant, b.Embedding)
		}
		if b.Vector && !s.req.NoVectors && e == nil {
			s.note("searched by words only: no embedding model is configured")
		}
		if e != nil {
			i := slices.IndexFunc(groups, func(g *group) bool { return g.embedder.Name() == e.Name() })
			if i < 0 {
				groups = append(groups, &group{embedder: e})
				i = len(groups) - 1
			}
			groups[i].bases = append(groups[i].bases, id)
		}
		// Without vectors words are all there is.
		if b.Keyword && !s.req.NoKeywords || b.Vector && e == nil && !s.req.NoVectors {
			words = append(words, id)
		}
	}
	words = append(words, s.embed(ctx, groups, words)...)
	lists, err := s.ask(ctx, groups, words)
	if err != nil {
		return nil, err
	}
	if err := s.entries(ctx, lists); err != nil {
		return nil, err
	}
	found := s.fuse(lists)
	if !s.req.Expand || len(words) == 0 || len(found) >= max(1, s.req.TopK/2) {
		return found, nil
	}
	more, err := s.expand(ctx, words)
	if err == nil {
		err = s.entries(ctx, more)
	}
	if err != nil || len(more) == 0 {
		return found, err
	}
	return s.fuse(append(lists, more...)), nil
}

// embed makes the vectors of the queries, once for each model, and gives the
// bases that must do without.
func (s *searching) embed(ctx context.Context, groups []*group, words []string) (instead []string) {
	var wg sync.WaitGroup
	errs := make([]error, len(groups))
	for i, g := range groups {
		if s.req.Vector != nil {
			g.vectors = [][]float32{s.req.Vector}
			continue
		}
		wg.Go(func() {
			v, err := g.embedder.Embed(ctx, s.req.Queries)
			if err == nil && len(v) != len(s.req.Queries) {
				err = &handlers.ModelError{Code: "bad_response", Message: "it gave another number of vectors"}
			}
			g.vectors, errs[i] = v, err
		})
	}
	wg.Wait()
	for i, g := range groups {
		if errs[i] == nil {
			continue
		}
		g.vectors = nil
		s.note("searched by words only: the embedding model %s failed (%s)", g.embedder.Name(), codeOf(errs[i]))
		for _, b := range g.bases {
			if !slices.Contains(words, b) {
				instead = append(instead, b)
			}
		}
	}
	return instead
}

// codeOf names a failure of a model without its words.
func codeOf(err error) string {
	var e *handlers.ModelError
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "timeout"
	}
	return "error"
}

// query is what every question to the index has.
func (s *searching) query() knowledge.Query {
	n := min(max(s.req.TopK*recallEach, recallMin)*len(s.req.Scope.Bases()), recallMax)
	return knowledge.Query{Tenant: s.req.Tenant, Kinds: s.req.Kinds, Tags: s.req.Tags, Limit: n}
}

// keyword asks by words. BM25 has no scale of its own, so the threshold is a
// share of the best.
func (s *searching) keyword(ctx context.Context, q knowledge.Query, threshold float64) ([]knowledge.Hit, error) {
	hits, err := s.r.Index.Keyword(ctx, q)
	if len(hits) > 0 {
		hits = above(hits, threshold*hits[0].Score)
	}
	return hits, err
}

// expand asks in other words when little was found: by words alone, with a lower
// threshold, and for less weight than the questions themselves.
func (s *searching) expand(ctx context.Context, words []string) ([]list, error) {
	var lists []list
	var asked []string
	for _, query := range s.req.Queries {
		for _, other := range search.Expand(query) {
			if len(asked) < search.MaxExpansions && !slices.Contains(s.req.Queries, other) && !slices.Contains(asked, other) {
				asked = append(asked, other)
				lists = append(lists, list{query: query, match: MatchKeyword, weight: expandShare * search.KeywordWeight})
			}
		}
	}
	jobs := make([]func() error, len(lists))
	for i := range lists {
		q := s.query()
		q.Scope, q.Text = s.req.Scope.Within(words...), asked[i]
		jobs[i] = func() (err error) {
			lists[i].hits, err = s.keyword(ctx, q, expandShare*s.req.KeywordThreshold)
			return err
		}
	}
	return lists, do(jobs, expandFanOut)
}

// entries puts FAQ entries in place of the questions that were found of them, each
// once in a list, and leaves out what is not recommended where that is asked for.
func (s *searching) entries(ctx context.Context, lists []list) error {
	var ids []string
	for _, l := range lists {
		for _, h := range l.hits {
			if h.Kind == knowledge.FAQQuestion && !slices.Contains(ids, h.Parent) {
				ids = append(ids, h.Parent)
			}
		}
	}
	known := map[string]knowledge.Found{}
	if len(ids) > 0 {
		found, err := s.r.Index.Chunks(ctx, s.req.Tenant, ids...)
		if err != nil {
			return fmt.Errorf("read FAQ entries: %w", err)
		}
		for _, f := range found {
			if !f.Chunk.Disabled && !f.Entry.Disabled {
				known[f.ID] = f
			}
		}
	}
	for i := range lists {
		seen := map[string]bool{}
		lists[i].hits = slices.DeleteFunc(lists[i].hits, func(h knowledge.Hit) bool {
			id, at := h.ID, h.FAQ
			if h.Kind == knowledge.FAQQuestion {
				id, at = h.Parent, known[h.Parent].FAQ
			}
			again := seen[id] || h.Kind == knowledge.FAQQuestion && at == nil || s.req.Recommended && (at == nil || !at.Recommended)
			seen[id] = true
			return again
		})
		for k, h := range lists[i].hits {
			if h.Kind == knowledge.FAQQuestion {
				lists[i].hits[k].Found = known[h.Parent]
			}
		}
	}
	return nil
}

// ask puts all questions to the index, some at a time.
func (s *searching) ask(ctx context.Context, groups []*group, words []string) ([]list, error) {
	q := s.query()
	var lists []list
	var jobs []func() error
	var mu sync.Mutex
	add := func(query, match string, weight float64, find func() ([]knowledge.Hit, error)) {
		i := len(lists)
		lists = append(lists, list{query: query, match: match, weight: weight})
		jobs = append(jobs, func() error {
			hits, err := find()
			if match == MatchVector && s.req.Vector != nil && errors.Is(err, event.ErrInvalid) {
				return ErrWrongVector
			}
			if errors.Is(err, knowledge.ErrNoVectors) || match == MatchVector && errors.Is(err, event.ErrInvalid) {
				mu.Lock()
				defer mu.Unlock()
				s.note("searched by words only: nothing has been embedded by the present model yet")
				return nil
			}
			lists[i].hits = hits
			return err
		})
	}
	for i, query := range s.req.Queries {
		if len(words) > 0 {
			q := q
			q.Scope, q.Text = s.req.Scope.Within(words...), query
			add(query, MatchKeyword, search.KeywordWeight, func() ([]knowledge.Hit, error) {
				return s.keyword(ctx, q, s.req.KeywordThreshold)
			})
		}
		for _, g := range groups {
			if g.vectors == nil {
				continue
			}
			q := q
			q.Scope, q.Model, q.Vector = s.req.Scope.Within(g.bases...), g.embedder.Name(), g.vectors[i]
			add(query, MatchVector, search.VectorWeight, func() ([]knowledge.Hit, error) {
				hits, err := s.r.Index.Nearest(ctx, q)
				return above(hits, s.req.VectorThreshold), err
			})
		}
	}
	return lists, do(jobs, fanOut)
}

// do runs jobs, no more than width at a time, and gives the first error.
func do(jobs []func() error, width int) error {
	var wg sync.WaitGroup
	errs := make([]error, len(jobs))
	next := make(chan int)
	for range min(width, len(jobs)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = jobs[i]()
			}
		})
	}
	for i := range jobs {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("search the index: %w", err)
		}
	}
	return nil
}

func above(hits []knowledge.Hit, threshold float64) []knowledge.Hit {
	return slices.DeleteFunc(hits, func(h knowledge.Hit) bool { return h.Score < threshold })
}

// fuse joins the lists. An FAQ entry that must not answer a query is not found
// by it.
func (s *searching) fuse(lists []list) []Hit {
	found := map[string]*Hit{}
	weights, ids := make([]float64, len(lists)), make([][]string, len(lists))
	best := map[string]float64{} // what one chunk can have, by way of being found
	for i, l := range lists {
		weights[i] = l.weight
		for _, h := range l.hits {
			if h.FAQ != nil && forbids(h.FAQ, l.query) {
				continue
			}
			ids[i] = append(ids[i], h.ID)
			x := found[h.ID]
			if x == nil {
				x = &Hit{Found: h.Found}
				found[h.ID] = x
			}
			if l.match == MatchVector {
				x.cosine = max(x.cosine, h.Score)
			} else {
				x.keyword = max(x.keyword, h.Score/l.hits[0].Score*l.weight/search.KeywordWeight)
			}
		}
		if len(ids[i]) > 0 {
			best[l.match] = max(best[l.match], l.weight)
		}
	}
	total := 0.0
	for _, w := range best {
		total += w
	}
	var out []Hit
	for _, f := range search.Fuse(weights, max(total, search.KeywordWeight), ids...) {
		h := *found[f.ID]
		h.base, h.Score = f.Score, f.Score
		place := -1.0
		for i, p := range f.Place {
			if share := lists[i].weight / float64(search.RRFK+1+p); p >= 0 && share > place {
				place, h.Match, h.Query = share, lists[i].match, lists[i].query
			}
		}
		out = append(out, h)
	}
	return out
}

// passage is what a model judges.
func (h Hit) passage() string {
	var b strings.Builder
	for _, part := range []string{h.Title, h.Context} {
		if part != "" {
			b.WriteString(part + "\n")
		}
	}
	b.WriteString(h.Content)
	return b.String()
}
