package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"refold/domain/event"
	"refold/projections"
)

// Documents is a projections.Documents in memory; the zero value is empty and
// ready. Find sorts all documents of the collection: it is made for being
// obviously right, not for speed.
type Documents struct {
	mu          sync.Mutex
	documents   map[projections.Key]projections.Document
	checkpoints map[string]event.Position
}

var _ projections.Documents = (*Documents)(nil)

// Checkpoint implements projections.Documents.
func (d *Documents) Checkpoint(ctx context.Context, projection string) (event.Position, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.checkpoints[projection], ctx.Err()
}

// Get implements projections.Documents.
func (d *Documents) Get(ctx context.Context, keys ...projections.Key) ([]projections.Document, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []projections.Document
	for _, k := range keys {
		if doc, ok := d.documents[k]; ok {
			out = append(out, copied(doc))
		}
	}
	return out, nil
}

// Commit implements projections.Documents.
func (d *Documents) Commit(ctx context.Context, b projections.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.To < b.From {
		return fmt.Errorf("%w: checkpoint of %s would move back from %s to %s", event.ErrInvalid, b.Projection, b.From, b.To)
	}
	put := make([]projections.Document, len(b.Put))
	for i, doc := range b.Put {
		put[i] = copied(doc)
		for name, v := range put[i].Index {
			k, err := normal(v)
			if err != nil {
				return fmt.Errorf("index field %s of %s %s: %w", name, doc.Collection, doc.ID, err)
			}
			put[i].Index[name] = k
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.checkpoints[b.Projection]; at != b.From {
		return fmt.Errorf("%w: %s is at %q, not at %q", projections.ErrStale, b.Projection, at, b.From)
	}
	if d.documents == nil {
		d.documents, d.checkpoints = map[projections.Key]projections.Document{}, map[string]event.Position{}
	}
	for _, doc := range put {
		d.documents[doc.Key] = doc
	}
	for _, k := range b.Delete {
		delete(d.documents, k)
	}
	d.checkpoints[b.Projection] = b.To
	return nil
}

// Drop implements projections.Documents.
func (d *Documents) Drop(ctx context.Context, projection string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.checkpoints, projection)
	maps.DeleteFunc(d.documents, func(k projections.Key, _ projections.Document) bool {
		return k.Collection == projection || strings.HasPrefix(k.Collection, projection+".")
	})
	return nil
}

// Find implements projections.Documents.
func (d *Documents) Find(ctx context.Context, q projections.Query) (projections.Page, error) {
	page := projections.Page{Total: -1}
	if err := ctx.Err(); err != nil {
		return page, err
	}
	where := slices.Clone(q.Where)
	for i, w := range where {
		v, err := normal(w.Value)
		if err != nil {
			return page, fmt.Errorf("filter on %s: %w", w.Field, err)
		}
		if !slices.Contains([]string{"=", "<", "<=", ">", ">=", "contains"}, w.Op) {
			return page, fmt.Errorf("%w: filter operator %q", event.ErrInvalid, w.Op)
		}
		where[i].Value = v
	}
	after, err := place(q)
	if err != nil {
		return page, err
	}
	d.mu.Lock()
	var found []projections.Document
	for k, doc := range d.documents {
		if k.Collection == q.Collection && k.Tenant == q.Tenant && match(doc, where) {
			found = append(found, copied(doc))
		}
	}
	d.mu.Unlock()
	slices.SortFunc(found, func(a, b projections.Document) int { return compare(q.OrderBy, a, b) })
	if q.CountTotal {
		page.Total = len(found)
	}
	limit := q.Limit
	if limit <= 0 {
		limit = 20
	}
	limit = min(limit, 1000)
	skip := max(q.Offset, 0)
	if after != nil {
		skip = 0
		for skip < len(found) && compare(q.OrderBy, found[skip], *after) <= 0 {
			skip++
		}
	}
	found = found[min(skip, len(found)):]
	if len(found) > limit {
		found = found[:limit]
		page.Next = mint(q, found[limit-1])
	}
	page.Documents = found
	return page, nil
}
