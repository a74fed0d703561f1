package sqlite

import (
	"errors"
	"slices"

	"github.com/ncruces/go-sqlite3"

	"refold/projections"
)

// maxRun is how many equal values a descending walk turns around in memory.
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
	const below = "SELECT row, id, value FROM entry WHERE field = ?1 AND value >= ?2 AND value < ?3 ORDER BY value DESC, id DESC"
	const upTo = "SELECT row, id, value FROM entry WHERE field = ?1 AND value >= ?2 AND value <= ?3 ORDER BY value DESC, id DESC"
	sql, bound := upTo, any(nil)
	if from != nil {
		sql, bound = below, from.values[0]
		if more, err := f.members(group{o.field, bound}, from.id); err != nil || !more {
			return false, err
		}
	}
	for {
		q, err := f.r.stmt(sql)
		if err != nil {
			return false, err
		}
		err = errors.Join(q.BindInt64(1, o.field), bindEntry(q, 2, f.least(o.name)))
		if sql == upTo {
			err = errors.Join(err, f.bindMost(q, 3, o.name))
		} else {
			err = errors.Join(err, bindEntry(q, 3, bound))
		}
		if err != nil {
			return false, err
		}
		more, long, err := f.turn(q)
		if err != nil || !more {
			return false, err
		}
		if long == nil {
			return true, nil
		}
		if more, err := f.members(group{o.field, long.value}, ""); err != nil || !more {
			return false, err
		}
		sql, bound = below, long.value
	}
}

// turn offers the rows of a descending statement with runs of equal values
// turned around, up to a run that is too long, which it gives back untouched.
func (f *finder) turn(q *sqlite3.Stmt) (more bool, long *group, err error) {
	var run []hit
	var value any
	flush := func() (bool, error) {
		for _, h := range slices.Backward(run) {
			if more, err := f.offer(h); err != nil || !more {
				return false, err
			}
		}
		run = run[:0]
		return true, nil
	}
	for q.Step() {
		h, v := hit{q.ColumnInt64(0), q.ColumnText(1)}, columnEntry(q, 2)
		if v != value {
			if more, err := flush(); err != nil || !more {
				return false, nil, errors.Join(err, q.Reset())
			}
			value = v
		}
		run = append(run, h)
		if len(run) > maxRun {
			return true, &group{value: value}, q.Reset()
		}
	}
	if err := errors.Join(q.Err(), q.Reset()); err != nil {
		return false, nil, err
	}
	more, err = flush()
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

// grouped walks several orders: the distinct values of the first, and inside
// each the other orders.
func (f *finder) grouped(orders []by, from *place) (bool, error) {
	first, rest := orders[0], orders[1:]
	g := group{field: first.field}
	var inner *place
	ok := true
	var err error
	if from != nil {
		g.value, inner = from.values[0], &place{from.values[1:], from.id}
	} else if g.value, ok, err = f.next(first, nil); err != nil {
		return false, err
	}
	for ok {
		n, err := f.size(g)
		if err != nil {
			return false, err
		}
		var more bool
		if n <= f.small() {
			more, err = f.sorted(g, rest, inner)
		} else {
			more, err = f.picked(g, first, rest, inner)
		}
		if err != nil || !more {
			return false, err
		}
		inner = nil
		if g.value, ok, err = f.next(first, &g.value); err != nil {
			return false, err
		}
	}
	return true, nil
}

// next gives the value of a field after another, in the order's direction.
func (f *finder) next(o by, after *any) (v any, ok bool, err error) {
	sql := "SELECT value FROM entry WHERE field = ?1"
	if after != nil {
		sql += map[bool]string{false: " AND value > ?2", true: " AND value < ?2"}[o.desc]
	}
	sql += map[bool]string{false: " ORDER BY value LIMIT 1", true: " ORDER BY value DESC LIMIT 1"}[o.desc]
	q, err := f.r.stmt(sql)
	if err != nil {
		return nil, false, err
	}
	if err := q.BindInt64(1, o.field); err != nil {
		return nil, false, err
	}
	if after != nil {
		if err := bindEntry(q, 2, *after); err != nil {
			return nil, false, err
		}
	}
	if ok = q.Step(); ok {
		v = columnEntry(q, 0)
	}
	return v, ok, errors.Join(q.Err(), q.Reset())
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
	type item struct {
		hit
		f fields
	}
	var items []item
	q, err := f.r.stmt("SELECT row, id FROM entry WHERE field = ? AND value = ?")
	if err != nil {
		return false, err
	}
	if err := errors.Join(q.BindInt64(1, g.field), bindEntry(q, 2, g.value)); err != nil {
		return false, err
	}
	for q.Step() {
		it := item{hit: hit{q.ColumnInt64(0), q.ColumnText(1)}}
		if it.f, err = f.r.fieldsAt(it.row); err != nil {
			return false, err
		}
		if it.f.holds(f.where) {
			items = append(items, it)
		}
	}
	if err := errors.Join(q.Err(), q.Reset()); err != nil {
		return false, err
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
		if it.id < id {
			return -1
		} else if it.id > id {
			return 1
		}
		return 0
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
