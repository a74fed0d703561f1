package app

import (
	"context"
	"slices"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/projections"
)

// living is an index without what was deleted or disabled a moment ago and that
// the index still holds, because taking it out waits behind other work.
type living struct {
	knowledge.Index
	*shelves
}

// alive tells which documents, of those that are found, may be shown.
func (l living) alive(ctx context.Context, tenant string, found ...knowledge.Entry) (map[string]bool, error) {
	var ids, bases []string
	for _, e := range found {
		if !slices.Contains(ids, e.Document) {
			ids = append(ids, e.Document)
		}
		if !slices.Contains(bases, e.Base) {
			bases = append(bases, e.Base)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	documents, err := get[projections.DocumentEntry](ctx, l.shelves, projections.Library, tenant, ids...)
	if err != nil {
		return nil, err
	}
	there, err := get[projections.BaseEntry](ctx, l.shelves, projections.Bases, tenant, bases...)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for id, d := range documents {
		_, has := there[d.Base]
		out[id] = has && !d.Disabled
	}
	return out, nil
}

func (l living) hits(ctx context.Context, tenant string, hits []knowledge.Hit, err error) ([]knowledge.Hit, error) {
	if err != nil {
		return nil, err
	}
	entries := make([]knowledge.Entry, len(hits))
	for i, h := range hits {
		entries[i] = h.Entry
	}
	ok, err := l.alive(ctx, tenant, entries...)
	return slices.DeleteFunc(hits, func(h knowledge.Hit) bool { return !ok[h.Entry.Document] }), err
}

func (l living) found(ctx context.Context, tenant string, list []knowledge.Found) ([]knowledge.Found, error) {
	entries := make([]knowledge.Entry, len(list))
	for i, f := range list {
		entries[i] = f.Entry
	}
	ok, err := l.alive(ctx, tenant, entries...)
	return slices.DeleteFunc(list, func(f knowledge.Found) bool { return !ok[f.Entry.Document] }), err
}

// Keyword implements knowledge.Index.
func (l living) Keyword(ctx context.Context, q knowledge.Query) ([]knowledge.Hit, error) {
	hits, err := l.Index.Keyword(ctx, q)
	return l.hits(ctx, q.Tenant, hits, err)
}

// Nearest implements knowledge.Index.
func (l living) Nearest(ctx context.Context, q knowledge.Query) ([]knowledge.Hit, error) {
	hits, err := l.Index.Nearest(ctx, q)
	return l.hits(ctx, q.Tenant, hits, err)
}

// Walk implements knowledge.Index. A document is looked up when its first chunk
// comes.
func (l living) Walk(ctx context.Context, tenant string, s tool.Scope, fn func(knowledge.Found) bool) error {
	var failed error
	document, shown := "", false
	err := l.Index.Walk(ctx, tenant, s, func(f knowledge.Found) bool {
		if f.Entry.Document != document {
			ok, err := l.alive(ctx, tenant, f.Entry)
			if failed = err; err != nil {
				return false
			}
			document, shown = f.Entry.Document, ok[f.Entry.Document]
		}
		return !shown || fn(f)
	})
	if failed != nil {
		return failed
	}
	return err
}

// Chunks implements knowledge.Index.
func (l living) Chunks(ctx context.Context, tenant string, ids ...string) ([]knowledge.Found, error) {
	list, err := l.Index.Chunks(ctx, tenant, ids...)
	if err != nil {
		return nil, err
	}
	return l.found(ctx, tenant, list)
}

// List implements knowledge.Index.
func (l living) List(ctx context.Context, q knowledge.List) ([]knowledge.Found, int, error) {
	list, total, err := l.Index.List(ctx, q)
	if err != nil || len(list) == 0 {
		return list, total, err
	}
	kept, err := l.found(ctx, q.Tenant, list)
	if len(kept) == 0 {
		total = 0
	}
	return kept, total, err
}
