package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/search"
	"refold/domain/tool"
)

// Index is a knowledge.Index in memory; the zero value is empty and ready. Each
// search looks at every chunk: it is made for being obviously right. Vectors stay
// as long as it does.
type Index struct {
	mu      sync.Mutex
	entries map[docKey]*indexed
	order   []docKey // as they were first put
	vectors map[modelKey]map[string][]float32
}

type docKey struct{ tenant, document string }

type modelKey struct{ tenant, model string }

type indexed struct {
	knowledge.Entry
	chunks []knowledge.Chunk // by index
}

var _ knowledge.Index = (*Index)(nil)

// own makes a copy that shares nothing.
func own(c knowledge.Chunk) knowledge.Chunk {
	if c.FAQ != nil {
		f := *c.FAQ
		f.Similar, f.Negative, f.Answers = slices.Clone(f.Similar), slices.Clone(f.Negative), slices.Clone(f.Answers)
		c.FAQ = &f
	}
	return c
}

func (e *indexed) found(c knowledge.Chunk) knowledge.Found {
	f := knowledge.Found{Chunk: own(c), Entry: e.Entry}
	f.Entry.Tags = slices.Clone(e.Entry.Tags)
	f.Chunk.Base, f.Chunk.Document, f.Chunk.Revision = e.Base, e.Document, e.Revision
	return f
}

// Put implements knowledge.Index.
func (x *Index) Put(ctx context.Context, d knowledge.Entry, chunks []knowledge.Chunk) error {
	if err := d.Check(chunks); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	key := docKey{d.Tenant, d.Document}
	for k, e := range x.entries {
		if k.tenant != d.Tenant || k == key {
			continue
		}
		for _, c := range e.chunks {
			if slices.ContainsFunc(chunks, func(n knowledge.Chunk) bool { return n.ID == c.ID }) {
				return fmt.Errorf("%w: chunk %s is one of document %s", event.ErrInvalid, c.ID, k.document)
			}
		}
	}
	old := x.entries[key]
	if old != nil && old.Revision > d.Revision {
		return nil
	}
	e := &indexed{Entry: d}
	e.Tags = slices.Clone(d.Tags)
	for _, c := range chunks {
		if old != nil {
			if i := slices.IndexFunc(old.chunks, func(o knowledge.Chunk) bool { return o.ID == c.ID && o.Edition > c.Edition }); i >= 0 {
				c = old.chunks[i]
			}
		}
		e.chunks = append(e.chunks, own(c))
	}
	slices.SortStableFunc(e.chunks, func(a, b knowledge.Chunk) int { return a.Index - b.Index })
	if x.entries == nil {
		x.entries = map[docKey]*indexed{}
	}
	if old == nil {
		x.order = append(x.order, key)
	}
	x.entries[key] = e
	return nil
}

// Change implements knowledge.Index.
func (x *Index) Change(ctx context.Context, d knowledge.Entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.entries[docKey{d.Tenant, d.Document}]; e != nil {
		e.Title, e.Tags, e.Disabled = d.Title, slices.Clone(d.Tags), d.Disabled
	}
	return ctx.Err()
}

// Edit implements knowledge.Index.
func (x *Index) Edit(ctx context.Context, tenant string, c knowledge.Chunk) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for k, e := range x.entries {
		for i, o := range e.chunks {
			if k.tenant != tenant || o.ID != c.ID {
				continue
			}
			if o.Edition <= c.Edition {
				o.Content, o.Context, o.Tokens, o.Digest, o.Edition, o.Disabled, o.FAQ = c.Content, c.Context, c.Tokens, c.Digest, c.Edition, c.Disabled, c.FAQ
				e.chunks[i] = own(o)
			}
			return nil
		}
	}
	return fmt.Errorf("%w: %s", knowledge.ErrNoChunk, c.ID)
}

// Remove implements knowledge.Index.
func (x *Index) Remove(ctx context.Context, tenant string, documents ...string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(func(e *indexed) bool { return e.Tenant == tenant && slices.Contains(documents, e.Document) })
	return ctx.Err()
}

// RemoveBase implements knowledge.Index.
func (x *Index) RemoveBase(ctx context.Context, tenant, base string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(func(e *indexed) bool { return e.Tenant == tenant && e.Base == base })
	return ctx.Err()
}

func (x *Index) drop(which func(*indexed) bool) {
	maps.DeleteFunc(x.entries, func(_ docKey, e *indexed) bool { return which(e) })
	x.order = slices.DeleteFunc(x.order, func(k docKey) bool { return x.entries[k] == nil })
}

// each calls f for every chunk that a search may find, but for its limit.
func (x *Index) each(q knowledge.Query, f func(*indexed, knowledge.Chunk)) {
	for _, k := range x.order {
		e := x.entries[k]
		if e.Tenant != q.Tenant || e.Disabled || !q.Scope.Holds(e.Base, e.Document) ||
			len(q.Tags) > 0 && !slices.ContainsFunc(q.Tags, func(t string) bool { return slices.Contains(e.Tags, t) }) {
			continue
		}
		for _, c := range e.chunks {
			if !c.Disabled && q.Wants(c.Kind) {
				f(e, c)
			}
		}
	}
}

// Keyword implements knowledge.Index.
func (x *Index) Keyword(ctx context.Context, q knowledge.Query) ([]knowledge.Hit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q = q.Normal()
	terms := search.QueryTerms(q.Text)
	x.mu.Lock()
	defer x.mu.Unlock()
	n, length, df := 0, 0, make([]int, len(terms))
	one := make([]float64, len(terms))
	for i := range one {
		one[i] = 1
	}
	for _, k := range x.order {
		e := x.entries[k]
		if e.Tenant != q.Tenant || !q.Scope.HoldsBase(e.Base) {
			continue
		}
		for _, c := range e.chunks {
			if !c.Kind.Searched() {
				continue
			}
			n++
			length += search.Length(c.Context, c.Content)
			for i := range terms {
				if search.NewScorer(terms[i:i+1], one[i:i+1], 1).Score(e.Title, c.Context, c.Content) > 0 {
					df[i]++
				}
			}
		}
	}
	idf := make([]float64, len(terms))
	for i := range terms {
		idf[i] = search.IDF(n, df[i])
	}
	scorer := search.NewScorer(terms, idf, float64(length)/float64(max(n, 1)))
	var hits []knowledge.Hit
	x.each(q, func(e *indexed, c knowledge.Chunk) {
		if s := scorer.Score(e.Title, c.Context, c.Content); s > 0 {
			hits = append(hits, knowledge.Hit{Found: e.found(c), Score: s})
		}
	})
	knowledge.SortHits(hits)
	return hits[:min(len(hits), q.Limit)], nil
}

// Nearest implements knowledge.Index.
func (x *Index) Nearest(ctx context.Context, q knowledge.Query) ([]knowledge.Hit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q = q.Normal()
	x.mu.Lock()
	defer x.mu.Unlock()
	vectors := x.vectors[modelKey{q.Tenant, q.Model}]
	if len(vectors) == 0 {
		return nil, fmt.Errorf("%w of %s", knowledge.ErrNoVectors, q.Model)
	}
	for _, v := range vectors {
		if err := fits(v, q.Vector); err != nil {
			return nil, err
		}
		break
	}
	var hits []knowledge.Hit
	x.each(q, func(e *indexed, c knowledge.Chunk) {
		v := vectors[c.EmbeddedDigest()]
		if search.Cosine(v, v) > 0 && search.Cosine(q.Vector, q.Vector) > 0 {
			hits = append(hits, knowledge.Hit{Found: e.found(c), Score: search.Cosine(q.Vector, v)})
		}
	})
	knowledge.SortHits(hits)
	return hits[:min(len(hits), q.Limit)], nil
}

func fits(have, v []float32) error {
	if err := search.CheckVector(v); err != nil {
		return fmt.Errorf("%w: %w", event.ErrInvalid, err)
	}
	if len(have) != len(v) {
		return fmt.Errorf("%w: the vectors of this model have %d components, not %d; give another model another name", event.ErrInvalid, len(have), len(v))
	}
	return nil
}

// Walk implements knowledge.Index.
func (x *Index) Walk(ctx context.Context, tenant string, s tool.Scope, fn func(knowledge.Found) bool) error {
	x.mu.Lock()
	var all []knowledge.Found
	x.each(knowledge.Query{Tenant: tenant, Scope: s}, func(e *indexed, c knowledge.Chunk) { all = append(all, e.found(c)) })
	x.mu.Unlock()
	for _, f := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !fn(f) {
			return nil
		}
	}
	return ctx.Err()
}

// Chunks implements knowledge.Index.
func (x *Index) Chunks(ctx context.Context, tenant string, ids ...string) ([]knowledge.Found, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []knowledge.Found
	for k, e := range x.entries {
		for _, c := range e.chunks {
			if k.tenant == tenant && slices.Contains(ids, c.ID) {
				out = append(out, e.found(c))
			}
		}
	}
	return out, ctx.Err()
}

// List implements knowledge.Index.
func (x *Index) List(ctx context.Context, l knowledge.List) ([]knowledge.Found, int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.entries[docKey{l.Tenant, l.Document}]
	if e == nil {
		return nil, 0, ctx.Err()
	}
	var out []knowledge.Found
	for _, c := range e.chunks {
		if (l.Disabled || !c.Disabled) && (len(l.Kinds) == 0 || slices.Contains(l.Kinds, c.Kind)) {
			out = append(out, e.found(c))
		}
	}
	total := len(out)
	out = out[min(max(l.Offset, 0), total):]
	return out[:min(len(out), min(max(l.Limit, 1), 1000))], total, ctx.Err()
}

// Embeddings implements knowledge.Index.
func (x *Index) Embeddings(ctx context.Context, tenant, model string, digests []string) (map[string][]float32, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[string][]float32{}
	for _, d := range digests {
		if v, ok := x.vectors[modelKey{tenant, model}][d]; ok {
			out[d] = slices.Clone(v)
		}
	}
	return out, ctx.Err()
}

// Embed implements knowledge.Index.
func (x *Index) Embed(ctx context.Context, tenant, model string, vectors map[string][]float32) error {
	if tenant == "" || model == "" {
		return fmt.Errorf("%w: vectors need a tenant and a model", event.ErrInvalid)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	key := modelKey{tenant, model}
	var like []float32
	for _, v := range x.vectors[key] {
		like = v
		break
	}
	for d, v := range vectors {
		if like == nil {
			like = v
		}
		if err := fits(like, v); err != nil {
			return err
		}
		if _, err := knowledge.ParseDigest(d); err != nil {
			return err
		}
	}
	if x.vectors == nil {
		x.vectors = map[modelKey]map[string][]float32{}
	}
	if x.vectors[key] == nil {
		x.vectors[key] = map[string][]float32{}
	}
	for d, v := range vectors {
		if _, there := x.vectors[key][d]; !there {
			x.vectors[key][d] = slices.Clone(v)
		}
	}
	return ctx.Err()
}
