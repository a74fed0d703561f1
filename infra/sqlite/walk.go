package sqlite

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"refold/projections"
)

// maxRun is how many equal values a walk sorts, or turns around, in memory.
const maxRun = 64

// byID walks a group, or the whole shelf, by id.
func (f *finder) byID(g *group, from *place) (bool, error) {
	id := ""
	if from != nil {
		id = from.id
	}
	if g != nil {
		return f.members(*g, id)
	}
	q, err := f.r.stmt("SELECT row, id FROM document WHERE shelf = ? AND id > ? ORDER BY id")
	if err != nil {
		return false, err
	}
	if err := errors.Join(q.BindInt64(1, f.shelf), q.BindText(2, id)); err != nil {
		return false, err
	}
	return f.offerAll(q)
}

// members walks a group by id, after an id.
func (f *finder) members(g group, after string) (bool, error) {
	q, err := f.r.stmt("SELECT row, id FROM entry WHERE field = ? AND value = ? AND id > ? ORDER BY id")
	if err != nil {
		return false, err
	}
	if err := errors.Join(q.BindInt64(1, g.field), bindEntry(q, 2, g.value), q.BindText(3, after)); err != nil {
		return false, err
	}
	return f.offerAll(q)
}

// offerAll offers the rows of a bound statement; false when the page is full.
func (f *finder) offerAll(q *sqlite3.Stmt) (bool, error) {
	for q.Step() {
		if more, err := f.offer(hit{q.ColumnInt64(0), q.ColumnText(1)}); err != nil || !more {
			return false, errors.Join(err, q.Reset())
		}
	}
	return true, errors.Join(q.Err(), q.Reset())
}

// ordered walks the shelf in the given orders from a place. It answers false
// when the page is full.
func (f *finder) ordered(orders []by, from *place) (bool, error) {
	switch {
	case len(orders) == 0:
		return f.byID(nil, from)
	case len(orders) > 1:
		return f.grouped(orders, from)
	case orders[0].desc:
		return f.down(orders[0], from)
	}
	return f.up(orders[0], from)
}

// up walks one field upwards.
func (f *finder) up(o by, from *place) (bool, error) {
	sql := "SELECT row, id FROM entry WHERE field = ?1 AND value <= ?2 AND value >= ?3 ORDER BY value, id"
	if from != nil {
		sql = "SELECT row, id FROM entry WHERE field = ?1 AND value <= ?2 AND (value, id) > (?3, ?4) ORDER BY value, id"
	}
	q, err := f.r.stmt(sql)
	if err != nil {
		return false, err
	}
	err = errors.Join(q.BindInt64(1, o.field), f.bindMost(q, 2, o.name))
	if from != nil {
		err = errors.Join(err, bindEntry(q, 3, from.values[0]), q.BindText(4, from.id))
	} else {
		err = errors.Join(err, bindEntry(q, 3, f.least(o.name)))
	}
	if err != nil {
		return false, err
	}
	return f.offerAll(q)
}

// least is where an upward walk may begin: no document below passes the filters.
func (f *finder) least(name string) (v any) {
	for _, w := range f.where {
		if w.Field == name && (w.Op == ">" || w.Op == ">=") && order(entry(w.Value), v) > 0 {
			v = entry(w.Value)
		}
	}
	return v
}

// down walks one field downwards. The index holds equal values by id upwards,
// so a short run of them is turned around and a long one walked on its own.
func (f *finder) down(o by, from *place) (bool, error) {
	var after *any
	if from != nil {
		after = &from.values[0]
		if more, err := f.members(group{o.field, *after}, from.id); err != nil || !more {
			return false, err
		}
	}
	return f.inRuns(o, after, func(run []hit) (bool, error) {
		for _, h := range slices.Backward(run) {
			if more, err := f.offer(h); err != nil || !more {
				return false, err
			}
		}
		return true, nil
	}, func(g group) (bool, error) { return f.members(g, "") })
}

// inRuns walks one field, after a value, in runs of equal values, each in the
// order of the index: short ones are read with one statement for all of them, and
// a long one is left to long. They answer false when the page is full.
func (f *finder) inRuns(o by, after *any, short func([]hit) (bool, error), long func(group) (bool, error)) (bool, error) {
	for {
		q, err := f.from(o, after)
		if err != nil {
			return false, err
		}
		more, tooLong, err := f.runs(q, short)
		if err != nil || !more || tooLong == nil {
			return more, err
		}
		if more, err := long(group{o.field, *tooLong}); err != nil || !more {
			return false, err
		}
		after = tooLong
	}
}

// from gives the statement that walks a field in the order's direction, after a
// value.
func (f *finder) from(o by, after *any) (*sqlite3.Stmt, error) {
	low, high, order := ">=", "<=", "value, id"
	if o.desc {
		order = "value DESC, id DESC"
	}
	if after != nil && o.desc {
		high = "<"
	} else if after != nil {
		low = ">"
	}
	q, err := f.r.stmt("SELECT row, id, value FROM entry WHERE field = ?1 AND value " + low + " ?2 AND value " + high + " ?3 ORDER BY " + order)
	if err != nil {
		return nil, err
	}
	err = q.BindInt64(1, o.field)
	if low == ">" {
		err = errors.Join(err, bindEntry(q, 2, *after))
	} else {
		err = errors.Join(err, bindEntry(q, 2, f.least(o.name)))
	}
	if high == "<" {
		return q, errors.Join(err, bindEntry(q, 3, *after))
	}
	return q, errors.Join(err, f.bindMost(q, 3, o.name))
}

// runs gives the rows of a statement in runs of equal values, up to one that is
// too long, whose value it gives back untouched.
func (f *finder) runs(q *sqlite3.Stmt, short func([]hit) (bool, error)) (more bool, long *any, err error) {
	var run []hit
	var value any
	for q.Step() {
		h, v := hit{q.ColumnInt64(0), q.ColumnText(1)}, columnEntry(q, 2)
		if len(run) > 0 && v != value {
			if more, err := short(run); err != nil || !more {
				return false, nil, errors.Join(err, q.Reset())
			}
			run = run[:0]
		}
		value = v
		run = append(run, h)
		if len(run) > maxRun {
			return true, &value, q.Reset()
		}
	}
	if err := errors.Join(q.Err(), q.Reset()); err != nil || len(run) == 0 {
		return err == nil, nil, err
	}
	more, err = short(run)
	return more, nil, err
}

// bindMost binds where a downward walk may begin: no document above passes the
// filters. An empty blob is above every entry.
func (f *finder) bindMost(q *sqlite3.Stmt, param int, name string) error {
	var most any
	for _, w := range f.where {
		if v := entry(w.Value); w.Field == name && (w.Op == "<" || w.Op == "<=") && (most == nil || order(v, most) < 0) {
			most = v
		}
	}
	if most == nil {
		return q.BindZeroBlob(param, 0)
	}
	return bindEntry(q, param, most)
}

// grouped walks several orders: the values of the first, and inside each the
// other orders.
func (f *finder) grouped(orders []by, from *place) (bool, error) {
	first, rest := orders[0], orders[1:]
	inside := func(g group, from *place) (bool, error) {
		n, err := f.size(g)
		if err != nil {
			return false, err
		}
		if n <= f.small() {
			return f.sorted(g, rest, from)
		}
		return f.picked(g, first, rest, from)
	}
	var after *any
	if from != nil {
		after = &from.values[0]
		if more, err := inside(group{first.field, *after}, &place{from.values[1:], from.id}); err != nil || !more {
			return false, err
		}
	}
	return f.inRuns(first, after, func(run []hit) (bool, error) {
		if len(run) == 1 {
			return f.offer(run[0])
		}
		return f.arranged(run, rest, nil)
	}, func(g group) (bool, error) { return inside(g, nil) })
}

// picked walks the remaining orders over the whole shelf and takes what is in
// the group.
func (f *finder) picked(g group, first by, rest []by, from *place) (bool, error) {
	kept := f.where
	defer func() { f.where = kept }()
	f.where = append(slices.Clip(kept), projections.Where{Field: first.name, Op: inGroup, Value: g.value})
	return f.ordered(rest, from)
}

// sorted reads a whole group and sorts it.
func (f *finder) sorted(g group, orders []by, from *place) (bool, error) {
	var hits []hit
	q, err := f.r.stmt("SELECT row, id FROM entry WHERE field = ? AND value = ?")
	if err != nil {
		return false, err
	}
	if err := errors.Join(q.BindInt64(1, g.field), bindEntry(q, 2, g.value)); err != nil {
		return false, err
	}
	for q.Step() {
		hits = append(hits, hit{q.ColumnInt64(0), q.ColumnText(1)})
	}
	if err := errors.Join(q.Err(), q.Reset()); err != nil {
		return false, err
	}
	return f.arranged(hits, orders, from)
}

// arranged takes the hits that pass the filters, sorted, after a place.
func (f *finder) arranged(hits []hit, orders []by, from *place) (bool, error) {
	type item struct {
		hit
		f fields
	}
	items := make([]item, 0, len(hits))
	for _, h := range hits {
		fs, err := f.r.fieldsAt(h.row)
		if err != nil {
			return false, err
		}
		if fs.holds(f.where) {
			items = append(items, item{h, fs})
		}
	}
	compare := func(it item, values func(i int) any, id string) int {
		for i, o := range orders {
			c := order(entry(it.f.get(o.name)), values(i))
			if o.desc {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return cmp.Compare(it.id, id)
	}
	slices.SortFunc(items, func(a, b item) int {
		return compare(a, func(i int) any { return entry(b.f.get(orders[i].name)) }, b.id)
	})
	for _, it := range items {
		if from != nil && compare(it, func(i int) any { return from.values[i] }, from.id) <= 0 {
			continue
		}
		if !f.keep(it.hit) {
			return false, nil
		}
	}
	return true, nil
}
