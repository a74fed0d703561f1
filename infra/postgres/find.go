package postgres

import (
	"context"
	"fmt"
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

// find answers in two round trips and one snapshot. When it fails the pool
// closes the connection, as its transaction is still open.
func find(ctx context.Context, c *pgx.Conn, q projections.Query, after *place) (projections.Page, error) {
	page := projections.Page{Total: -1}
	if q.CountTotal {
		page.Total = 0
	}
	var shelf int64
	known := map[string]int64{}
	var b pgx.Batch
	b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	b.Queue(shelfSQL, q.Collection, q.Tenant).Query(func(rows pgx.Rows) error {
		var documents int
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
	b = pgx.Batch{}
	if shelf != 0 {
		if q.CountTotal && len(q.Where) > 0 {
			f := finder{fields: known}
			sql := "SELECT count(*) FROM document d WHERE d.shelf = " + f.arg(shelf) + f.where(q.Where)
			b.Queue(sql, f.args...).QueryRow(func(row pgx.Row) error { return row.Scan(&page.Total) })
		}
		limit := q.Limit
		if limit <= 0 {
			limit = 20
		}
		limit = min(limit, 1000)
		f := finder{fields: known}
		sql := f.page(shelf, q, after, limit)
		b.Queue(sql, f.args...).Query(func(rows pgx.Rows) error { return collectPage(rows, q, limit, &page) })
	}
	b.Queue("COMMIT")
	return page, c.SendBatch(ctx, &b).Close()
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
func (f *finder) page(shelf int64, q projections.Query, after *place, limit int) string {
	var columns, join, order strings.Builder
	type by struct {
		column string
		desc   bool
		value  []byte
	}
	var orders []by
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
		fmt.Fprintf(&join, " JOIN entry %s ON %s.document = d.id AND %s.field = %s", t, t, t, f.arg(id))
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
	sql := "SELECT d.name, d.fields, d.body" + columns.String() + " FROM document d" + join.String() + " WHERE d.shelf = " + f.arg(shelf) + f.where(q.Where)
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

// where gives the conditions on a document. Values of different types never
// match, nor does a missing value.
func (f *finder) where(where []projections.Where) string {
	var sql strings.Builder
	for _, w := range where {
		id := f.fields[w.Field]
		k, _ := newKey(w.Value) // was checked
		_, text := w.Value.(string)
		if id == 0 || w.Op == "contains" && !text {
			sql.WriteString(" AND false")
			continue
		}
		cond := ""
		if w.Op == "contains" {
			low := []byte(strings.ToLower(w.Value.(string)))
			// Behind the first byte, which tells the type.
			cond = fmt.Sprintf("position(%s::bytea in substring(coalesce(e.folded, e.whole, e.value) from 2)) > 0", f.arg(low))
		} else {
			cond = fmt.Sprintf("coalesce(e.whole, e.value) %s %s", w.Op, f.arg([]byte(k)))
			if op := w.Op; op == "=" {
				cond += " AND e.value = " + f.arg([]byte(k.entry()))
			} else {
				cond += fmt.Sprintf(" AND e.value %s= %s", op[:1], f.arg([]byte(k.entry())))
			}
		}
		// The bounds of the type.
		low, high := []byte{kindNumber}, []byte{kindText}
		if text {
			low, high = []byte{kindText}, []byte{kindText + 1}
		}
		fmt.Fprintf(&sql, " AND EXISTS (SELECT FROM entry e WHERE e.document = d.id AND e.field = %s AND e.value >= %s AND e.value < %s AND %s)", f.arg(id), f.arg(low), f.arg(high), cond)
	}
	return sql.String()
}
