package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"refold/domain/event"
	"refold/projections"
)

// Find implements projections.Documents. A page costs about as many index steps
// as it has documents (plus the offset), however many there are, if all filters
// are equalities that many or few documents pass, or there are none. Other
// filters look at each document on the way. Unknown operators and values of
// other types are event.ErrInvalid.
func (d *Documents) Find(ctx context.Context, q projections.Query) (projections.Page, error) {
	page := projections.Page{Total: -1}
	f := &finder{counts: &d.db.counts, limit: q.Limit, skip: max(q.Offset, 0)}
	if f.limit <= 0 {
		f.limit = 20
	}
	f.limit = min(f.limit, 1000)
	for _, w := range q.Where {
		if !slices.Contains([]string{"=", "<", "<=", ">", ">=", "contains"}, w.Op) {
			return page, fmt.Errorf("%w: filter operator %q", event.ErrInvalid, w.Op)
		}
		v, err := normal(w.Value)
		if err != nil {
			return page, fmt.Errorf("filter on %s: %w", w.Field, err)
		}
		f.where = append(f.where, projections.Where{Field: w.Field, Op: w.Op, Value: v})
	}
	q.Where = f.where
	after, err := locate(q)
	if err != nil {
		return page, err
	}
	if after != nil {
		f.skip = 0
	}
	err = d.db.read(ctx, func(r *reader) error {
		return r.snapshot(func() error {
			f.r = r
			return f.page(q, after, &page)
		})
	})
	if err != nil {
		return projections.Page{Total: -1}, err
	}
	return page, nil
}

// finder answers one query inside one snapshot.
type finder struct {
	r           *reader
	counts      *counts
	shelf       int64
	documents   int64
	where       []projections.Where // what every document must pass, with group conditions
	limit, skip int
	found       []hit
}

// by is one sort order that is known to the index.
type by struct {
	name  string
	field int64
	desc  bool
}

// hit is a document on its way into the page.
type hit struct {
	row int64
	id  string
}

func (f *finder) page(q projections.Query, after *place, page *projections.Page) (err error) {
	var changed int64
	if f.shelf, f.documents, changed, err = f.r.shelfOf(q.Collection, q.Tenant); err != nil {
		return err
	}
	if q.CountTotal {
		if page.Total, err = f.total(changed); err != nil {
			return err
		}
	}
	if f.shelf == 0 {
		return nil
	}
	if err := f.search(q.OrderBy, after); err != nil {
		return err
	}
	more := len(f.found) > f.limit
	f.found = f.found[:min(len(f.found), f.limit)]
	get, err := f.r.stmt("SELECT fields, body FROM document WHERE row = ?")
	if err != nil {
		return err
	}
	page.Documents = make([]projections.Document, len(f.found))
	for i, h := range f.found {
		if err := get.BindInt64(1, h.row); err != nil {
			return err
		}
		if !get.Step() {
			return errors.Join(get.Err(), fmt.Errorf("%w: the index names document %s of %s, which is not there", event.ErrCorrupt, h.id, q.Collection))
		}
		doc, boundary := &page.Documents[i], more && i == f.limit-1
		doc.Key, doc.Body = projections.Key{Collection: q.Collection, Tenant: q.Tenant, ID: h.id}, get.ColumnBlob(1, nil)
		var fs fields
		if !q.NoIndex || boundary {
			if fs, err = decodeFields(get.ColumnRawBlob(0)); err != nil {
				return err
			}
			doc.Index = fs.index()
		}
		if err := get.Reset(); err != nil {
			return err
		}
		if boundary {
			last := place{id: h.id}
			for _, o := range q.OrderBy {
				last.values = append(last.values, entry(fs.get(o.Field)))
			}
			page.Next = mint(q, last)
		}
	}
	return nil
}

// search fills found with one document more than the page, in order.
func (f *finder) search(orderBy []projections.Order, after *place) error {
	orders, from, err := f.plan(orderBy, after)
	if err != nil {
		return err
	}
	group, size, err := f.smallest()
	if err != nil {
		return err
	}
	_, err = func() (bool, error) {
		switch {
		case group == nil:
			return f.ordered(orders, from)
		case group.field == 0:
			return false, nil // nobody ever had the field
		case len(orders) == 0:
			return f.byID(group, from)
		case size <= f.small():
			return f.sorted(*group, orders, from)
		}
		return f.ordered(orders, from)
	}()
	return err
}

// plan drops orders that cannot tell documents apart: by fields that none has,
// and by fields that a filter holds constant.
func (f *finder) plan(orderBy []projections.Order, after *place) (orders []by, from *place, err error) {
	if after != nil {
		from = &place{id: after.id}
	}
	seen := map[string]bool{}
	for _, w := range f.where {
		if s, ok := w.Value.(string); w.Op == "=" && (!ok || len(s) < maxEntry) {
			seen[w.Field] = true
		}
	}
	for i, o := range orderBy {
		field, err := f.r.fieldOf(f.shelf, o.Field)
		if err != nil {
			return nil, nil, err
		}
		if field == 0 || seen[o.Field] {
			continue
		}
		seen[o.Field] = true
		orders = append(orders, by{o.Field, field, o.Desc})
		if after != nil {
			from.values = append(from.values, after.values[i])
		}
	}
	return orders, from, nil
}

// group is all documents with one value of a field.
type group struct {
	field int64
	value any
}

// smallest gives the smallest group that an equality filter names, nil without
// such a filter. Sizes are counted up to small()+1.
func (f *finder) smallest() (best *group, size int, err error) {
	for _, w := range f.where {
		if w.Op != "=" {
			continue
		}
		field, err := f.r.fieldOf(f.shelf, w.Field)
		if err != nil {
			return nil, 0, err
		}
		g := &group{field, entry(w.Value)}
		n := 0
		if field != 0 {
			if n, err = f.size(*g); err != nil {
				return nil, 0, err
			}
		}
		if best == nil || n < size {
			best, size = g, n
		}
	}
	return best, size, nil
}

func (f *finder) size(g group) (int, error) {
	q, err := f.r.stmt("SELECT count(*) FROM (SELECT 1 FROM entry WHERE field = ? AND value = ? LIMIT ?)")
	if err != nil {
		return 0, err
	}
	if err := errors.Join(q.BindInt64(1, g.field), bindEntry(q, 2, g.value), q.BindInt64(3, int64(f.small()+1))); err != nil {
		return 0, err
	}
	n := 0
	if q.Step() {
		n = int(q.ColumnInt64(0))
	}
	return n, errors.Join(q.Err(), q.Reset())
}

// small is the group size up to which it is cheaper to sort the whole group
// than to walk the order and pick the group's members out of it: with n of N
// documents in the group, picking k takes k*N/n steps, sorting takes n.
func (f *finder) small() int {
	k := float64(f.limit + f.skip + 1)
	return int(min(math.Sqrt(k*float64(f.documents)), 5000))
}

// offer takes a document if it passes the filters; false when the page is full.
func (f *finder) offer(h hit) (bool, error) {
	if len(f.where) > 0 {
		fs, err := f.r.fieldsAt(h.row)
		if err != nil {
			return false, err
		}
		if !fs.holds(f.where) {
			return true, nil
		}
	}
	return f.keep(h), nil
}

func (f *finder) keep(h hit) bool {
	if f.skip > 0 {
		f.skip--
		return true
	}
	f.found = append(f.found, h)
	return len(f.found) <= f.limit
}

// total counts all that pass the filters.
func (f *finder) total(changed int64) (int, error) {
	if len(f.where) == 0 || f.shelf == 0 {
		return int(f.documents), nil
	}
	key := fmt.Sprintf("%d %d %q", f.shelf, changed, f.where)
	if n, ok := f.counts.get(key); ok {
		return n, nil
	}
	g, _, err := f.smallest()
	if err != nil {
		return 0, err
	}
	all := &finder{r: f.r, shelf: f.shelf, documents: f.documents, where: f.where, skip: math.MaxInt}
	if g == nil || g.field != 0 {
		if _, err := all.byID(g, nil); err != nil {
			return 0, err
		}
	}
	n := math.MaxInt - all.skip
	f.counts.put(key, n)
	return n, nil
}

// counts remembers totals of filtered lists. A key names the state of the
// collection, so it is never wrong, only forgotten.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) get(key string) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.n[key]
	return n, ok
}

func (c *counts) put(key string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.n) >= 256 || c.n == nil {
		c.n = map[string]int{}
	}
	c.n[key] = n
}
