package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/projections"
)

// operators of filters on index values, beside "contains".
var operators = []string{"=", "<", "<=", ">", ">="}

// Find implements projections.Documents. A page in the order of one field costs
// about as many index steps as it has documents (plus the offset); other fields
// sort what is equal in the first. Unknown operators and values of other types
// are event.ErrInvalid.
func (d *Documents) Find(ctx context.Context, q projections.Query) (projections.Page, error) {
	none := projections.Page{Total: -1}
	for i, w := range q.Where {
		if w.Op != "contains" && !slices.Contains(operators, w.Op) {
			return none, fmt.Errorf("%w: filter operator %q", event.ErrInvalid, w.Op)
		}
		if _, err := newKey(w.Value); err != nil {
			return none, fmt.Errorf("filter on %s: %w", q.Where[i].Field, err)
		}
	}
	after, err := locate(q)
	if err != nil {
		return none, err
	}
	var page projections.Page
	err = d.db.do(ctx, "read", func(ctx context.Context, c *pgx.Conn) (err error) {
		page, err = find(ctx, c, q, after)
		return err
	})
	if err != nil {
		return none, err
	}
	return page, nil
}

// finder builds the statement of one query.
type finder struct {
	args   []any
	fields map[string]int64
}

func (f *finder) arg(v any) string {
	f.args = append(f.args, v)
	return fmt.Sprintf("$%d", len(f.args))
}

// shelfSQL gives a shelf with the fields that its documents have.
const shelfSQL = `SELECT s.id, s.documents, coalesce(f.id, 0), coalesce(f.name, '') FROM shelf s LEFT JOIN field f ON f.shelf = s.id
WHERE s.collection = $1 AND s.tenant = $2`

// find answers in one snapshot and two or three round trips. When it fails the pool
// closes the connection, as its transaction is still open.
func find(ctx context.Context, c *pgx.Conn, q projections.Query, after *place) (projections.Page, error) {
	page := projections.Page{Total: -1}
	if q.CountTotal {
		page.Total = 0
	}
	var shelf int64
	documents := 0
	known := map[string]int64{}
	var b pgx.Batch
	b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	b.Queue(shelfSQL, q.Collection, q.Tenant).Query(func(rows pgx.Rows) error {
		var id int64
		var name []byte
		_, err := pgx.ForEachRow(rows, []any{&shelf, &documents, &id, &name}, func() error {
			if id != 0 {
				known[string(name)] = id
			}
			return nil
		})
		if q.CountTotal {
			page.Total = documents
		}
		return err
	})
	if err := c.SendBatch(ctx, &b).Close(); err != nil {
		return page, err
	}
	if shelf == 0 {
		_, err := c.Exec(ctx, "COMMIT")
		return page, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = 20
	}
	limit = min(limit, 1000)
	group, err := smallest(ctx, c, known, q, small(limit+max(q.Offset, 0), documents))
	if err != nil {
		return page, err
	}
	b = pgx.Batch{}
	// The statement is written in the order in which it is best done; the planner,
	// whose statistics of fresh tables are guesses, might join and sort everything.
	sort := "off"
	if group != nil {
		sort = "on"
	}
	b.Queue(plannerSQL, sort)
	f := finder{fields: known}
	sql := f.page(shelf, q, group, after, limit)
	b.Queue(sql, f.args...).Query(func(rows pgx.Rows) error { return collectPage(rows, q, limit, &page) })
	if q.CountTotal && len(q.Where) > 0 {
		f := finder{fields: known}
		sql := f.count(q.Where)
		b.Queue(sql, f.args...).QueryRow(func(row pgx.Row) error { return row.Scan(&page.Total) })
	}
	b.Queue("COMMIT")
	return page, c.SendBatch(ctx, &b).Close()
}

const plannerSQL = `SELECT set_config('join_collapse_limit', '1', true), set_config('enable_hashjoin', 'off', true),
set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', $1, true)`

// group is all documents with one value of a field.
type group struct {
	field int64
	value []byte
}

// small is the size of a group up to which it is cheaper to sort the whole group
// than to walk the order and pick the group's members out of it: with n of N
// documents in the group, picking k takes k*N/n steps, sorting takes n.
func small(k, documents int) int {
	return int(min(math.Sqrt(float64(k+1)*float64(documents)), 5000))
}

// smallest gives the smallest group that an equality filter names, nil if there
// is none of at most limit documents.
func smallest(ctx context.Context, c *pgx.Conn, known map[string]int64, q projections.Query, limit int) (best *group, err error) {
	var b pgx.Batch
	least := limit + 1
	for _, w := range q.Where {
		id := known[w.Field]
		if w.Op != "=" || id == 0 {
			continue
		}
		k, _ := newKey(w.Value) // was checked
		g := &group{id, k.entry()}
		b.Queue("SELECT count(*) FROM (SELECT FROM entry WHERE field = $1 AND value = $2 LIMIT $3) e", g.field, g.value, limit+1).QueryRow(func(row pgx.Row) error {
			var n int
			if err := row.Scan(&n); err != nil {
				return err
			}
			if n < least {
				best, least = g, n
			}
			return nil
		})
	}
	if b.Len() == 0 {
		return nil, nil
	}
	return best, c.SendBatch(ctx, &b).Close()
}

// collectPage reads what the statement of a page gives.
func collectPage(rows pgx.Rows, q projections.Query, limit int, page *projections.Page) error {
	defer rows.Close()
	var last place
	for rows.Next() {
		if len(page.Documents) == limit { // one more than the page: there is a next one
			page.Next = mintCursor(q, last)
			break
		}
		var name, fields, body []byte
		values := make([][]byte, len(q.OrderBy))
		into := []any{&name, &fields, &body}
		for i := range values {
			into = append(into, &values[i])
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		index, err := decodeIndex(fields)
		if err != nil {
			return err
		}
		page.Documents = append(page.Documents, projections.Document{
			Key: projections.Key{Collection: q.Collection, Tenant: q.Tenant, ID: string(name)}, Body: body, Index: index})
		last = place{values: values, id: name}
	}
	rows.Close()
	return rows.Err()
}

// page is the statement for one document more than a page. A field that no
// document has tells none apart; it comes back as missing.
func (f *finder) page(shelf int64, q projections.Query, group *group, after *place, limit int) string {
	var columns, join, order strings.Builder
	type by struct {
		column string
		desc   bool
		value  []byte
	}
	var orders []by
	from := "document d"
	if group != nil {
		from = fmt.Sprintf("(SELECT document FROM entry WHERE field = %s AND value = %s OFFSET 0) g JOIN document d ON d.id = g.document", f.arg(group.field), f.arg(group.value))
	}
	seen := map[string]string{}
	for i, o := range q.OrderBy {
		id := f.fields[o.Field]
		if id == 0 {
			columns.WriteString(", ''::bytea")
			continue
		}
		if column := seen[o.Field]; column != "" {
			columns.WriteString(", " + column)
			continue
		}
		t := fmt.Sprintf("o%d", i)
		seen[o.Field] = t + ".value"
		columns.WriteString(", " + t + ".value")
		if from == "document d" { // the walk begins with the entries of the first order
			from = fmt.Sprintf("entry %s JOIN document d ON %s.document = d.id AND %s.field = %s", t, t, t, f.arg(id))
		} else {
			fmt.Fprintf(&join, " JOIN entry %s ON %s.document = d.id AND %s.field = %s", t, t, t, f.arg(id))
		}
		b := by{column: t + ".value", desc: o.Desc}
		if after != nil {
			b.value = after.values[i]
		}
		orders = append(orders, b)
		order.WriteString(b.column)
		if o.Desc {
			order.WriteString(" DESC")
		}
		order.WriteString(", ")
	}
	name := "d.name"
	if len(orders) > 0 {
		// The name in the index that the walk goes along.
		name = strings.TrimSuffix(orders[0].column, "value") + "name"
	}
	sql := "SELECT d.name, d.fields, d.body" + columns.String() + " FROM " + from + join.String() + " WHERE d.shelf = " + f.arg(shelf) + f.where(q.Where)
	if after != nil {
		// After the place: greater in the first field, or equal there and ...
		rest := name + " > " + f.arg(after.id)
		for i := len(orders) - 1; i >= 0; i-- {
			b, op := orders[i], ">"
			if b.desc {
				op = "<"
			}
			v := f.arg(b.value)
			rest = fmt.Sprintf("(%s %s %s OR (%s = %s AND %s))", b.column, op, v, b.column, v, rest)
			if i == 0 {
				rest = fmt.Sprintf("%s %s= %s AND %s", b.column, op, v, rest) // a bound that the index knows
			}
		}
		sql += " AND " + rest
	}
	sql += " ORDER BY " + order.String() + name + " LIMIT " + f.arg(limit+1)
	if after == nil && q.Offset > 0 {
		sql += " OFFSET " + f.arg(q.Offset)
	}
	return sql
}

// count is the statement for the number of documents that pass all filters, one
// at least: it looks at the entries of the first and asks each for the others.
func (f *finder) count(where []projections.Where) string {
	return "SELECT count(*) FROM (SELECT document AS id FROM entry e WHERE " + f.holds(where[0], "e.field") + ") d WHERE true" + f.where(where[1:])
}

// where gives the conditions on a document. OFFSET keeps the planner from making
// joins of them and changing the order, the sum from looking through all entries
// with the value for each document.
func (f *finder) where(where []projections.Where) string {
	var sql strings.Builder
	for _, w := range where {
		fmt.Fprintf(&sql, " AND EXISTS (SELECT FROM entry e WHERE e.document = d.id AND %s OFFSET 0)", f.holds(w, "e.field + 0"))
	}
	return sql.String()
}

// holds gives the condition on an entry. Values of different types never match,
// nor does a missing value.
func (f *finder) holds(w projections.Where, field string) string {
	id := f.fields[w.Field]
	k, _ := newKey(w.Value) // was checked
	_, text := w.Value.(string)
	if id == 0 || w.Op == "contains" && !text {
		return "false"
	}
	cond := ""
	switch {
	case w.Op == "contains":
		// Behind the first byte, which tells the type.
		cond = fmt.Sprintf("position(%s::bytea in substring(coalesce(e.folded, e.whole, e.value) from 2)) > 0", f.arg([]byte(strings.ToLower(w.Value.(string)))))
	case len(k) < maxEntry:
		// What was cut is longer, so that its beginning decides.
		cond = fmt.Sprintf("e.value %s %s", w.Op, f.arg([]byte(k)))
	default:
		op := w.Op
		if op != "=" {
			op = op[:1] + "="
		}
		cond = fmt.Sprintf("e.value %s %s AND coalesce(e.whole, e.value) %s %s", op, f.arg([]byte(k.entry())), w.Op, f.arg([]byte(k)))
	}
	// The bounds of the type.
	low, high := []byte{kindNumber}, []byte{kindText}
	if text {
		low, high = []byte{kindText}, []byte{kindText + 1}
	}
	return fmt.Sprintf("%s = %s AND e.value >= %s AND e.value < %s AND %s", field, f.arg(id), f.arg(low), f.arg(high), cond)
}
