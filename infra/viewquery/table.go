package viewquery

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers"
)

// table is one of the virtual tables. Columns base and document, where it has
// them, narrow the scope when a query compares them with a value, so that the
// rest is never read.
type table struct {
	name     string
	columns  []string // "name TYPE"
	base     int      // column of the base's id, -1 = none
	document int      // column of the document's id
	scan     func(ctx context.Context, q *query, s tool.Scope, row func([]any) bool) error
}

var tables []table

func init() { // what they scan refers to them
	tables = []table{
		{name: "knowledge_bases", base: 0, document: -1, scan: scanBases,
			columns: []string{"id TEXT", "name TEXT", "type TEXT", "description TEXT", "created_at TEXT", "updated_at TEXT"}},
		{name: "knowledges", base: 1, document: 0, scan: scanDocuments,
			columns: []string{"id TEXT", "knowledge_base_id TEXT", "title TEXT", "description TEXT", "type TEXT", "source TEXT", "file_name TEXT", "file_type TEXT",
				"file_size INTEGER", "parse_status TEXT", "chunk_count INTEGER", "created_at TEXT", "updated_at TEXT"}},
		{name: "chunks", base: 2, document: 1, scan: scanChunks,
			columns: []string{"id TEXT", "knowledge_id TEXT", "knowledge_base_id TEXT", "chunk_index INTEGER", "chunk_type TEXT", "section TEXT", "content TEXT",
				"start_at INTEGER", "end_at INTEGER"}},
	}
}

// schema names tables and columns for the model.
func schema() string {
	var out []string
	for _, t := range tables {
		var names []string
		for _, c := range t.columns {
			names = append(names, strings.Fields(c)[0])
		}
		out = append(out, t.name+"("+strings.Join(names, ", ")+")")
	}
	return strings.Join(out, ", ")
}

func (t table) register(conn *sqlite3.Conn, q *query) error {
	//lint:ignore SA1019 the method that replaces it needs a newer Go than go.mod names
	return sqlite3.CreateModule(conn, t.name, nil, func(db *sqlite3.Conn, _, _, _ string, _ ...string) (*view, error) {
		return &view{t, q}, db.DeclareVTab("CREATE TABLE x(" + strings.Join(t.columns, ", ") + ")")
	})
}

// view is a table in one query.
type view struct {
	table
	q *query
}

// BestIndex takes comparisons with ids of bases and documents.
func (v *view) BestIndex(idx *sqlite3.IndexInfo) error {
	next := 1
	take := func(column, bit int) bool {
		for i, c := range idx.Constraint {
			if column >= 0 && c.Column == column && c.Op == sqlite3.INDEX_CONSTRAINT_EQ && c.Usable {
				idx.ConstraintUsage[i] = sqlite3.IndexConstraintUsage{ArgvIndex: next}
				idx.IdxNum |= bit
				next++
				return true
			}
		}
		return false
	}
	idx.EstimatedCost, idx.EstimatedRows = 1e7, 100_000
	if take(v.base, byBase) {
		idx.EstimatedCost, idx.EstimatedRows = 1e6, 10_000
	}
	if take(v.document, byDocument) {
		idx.EstimatedCost, idx.EstimatedRows = 1e3, 20
	}
	return nil
}

const (
	byBase = 1 << iota
	byDocument
)

// Open implements sqlite3.VTab.
func (v *view) Open() (sqlite3.VTabCursor, error) { return &cursor{view: v}, nil }

type cursor struct {
	*view
	next func() ([]any, bool)
	stop func()
	row  []any
	n    int64
	end  bool
}

// Filter begins a scan of what is left of the scope.
func (c *cursor) Filter(kind int, _ string, args ...sqlite3.Value) error {
	c.Close()
	s := c.q.scope
	if kind&byBase != 0 {
		s = s.Within(args[0].Text())
		args = args[1:]
	}
	if kind&byDocument != 0 {
		s = only(s, args[0].Text())
	}
	c.n, c.end = 0, false
	if s.Empty() {
		c.end = true
		return nil
	}
	c.next, c.stop = iter.Pull(func(yield func([]any) bool) {
		open := true
		err := c.scan(c.q.ctx, c.q, s, func(row []any) bool {
			open = open && yield(row)
			return open
		})
		if err != nil && c.q.failed == nil && open {
			c.q.failed = err
		}
	})
	return c.Next()
}

// only narrows a scope to one document.
func only(s tool.Scope, document string) tool.Scope {
	var out tool.Scope
	for _, t := range s.Targets {
		if !t.Restricted || slices.Contains(t.Documents, document) {
			out.Targets = append(out.Targets, tool.Target{Base: t.Base, Restricted: true, Documents: []string{document}})
		}
	}
	return out
}

// Next implements sqlite3.VTabCursor.
func (c *cursor) Next() error {
	row, ok := c.next()
	c.row, c.end = row, !ok
	c.n++
	if !ok && (c.q.failed != nil || c.q.ctx.Err() != nil) {
		return sqlite3.INTERRUPT
	}
	return nil
}

// EOF implements sqlite3.VTabCursor.
func (c *cursor) EOF() bool { return c.end }

// Column implements sqlite3.VTabCursor.
func (c *cursor) Column(ctx sqlite3.Context, n int) error {
	switch v := c.row[n].(type) {
	case string:
		ctx.ResultText(v)
	case int64:
		ctx.ResultInt64(v)
	default:
		ctx.ResultNull()
	}
	return nil
}

// RowID implements sqlite3.VTabCursor.
func (c *cursor) RowID() (int64, error) { return c.n, nil }

// Close ends a scan that was not read to its end.
func (c *cursor) Close() error {
	if c.stop != nil {
		c.stop()
		c.next, c.stop = nil, nil
	}
	return nil
}

// Whatever a port gives, a row outside the scope is not one.

func scanBases(ctx context.Context, q *query, s tool.Scope, row func([]any) bool) error {
	return q.engine.source.Bases(ctx, q.tenant, s.Bases(), func(b handlers.ViewBase) bool {
		if !s.HoldsBase(b.ID) {
			return true
		}
		return row([]any{b.ID, b.Name, b.Kind, b.Description, at(b.CreatedAt), at(b.UpdatedAt)})
	})
}

func scanDocuments(ctx context.Context, q *query, s tool.Scope, row func([]any) bool) error {
	return q.engine.source.Documents(ctx, q.tenant, s, func(d handlers.ViewDocument) bool {
		if !s.Holds(d.Base, d.ID) {
			return true
		}
		return row([]any{d.ID, d.Base, d.Title, d.Description, d.Kind, d.Source, d.File, d.FileType, d.Size, d.Status, int64(d.Chunks), at(d.CreatedAt), at(d.UpdatedAt)})
	})
}

func scanChunks(ctx context.Context, q *query, s tool.Scope, row func([]any) bool) error {
	return q.engine.index.Walk(ctx, q.tenant, s, func(f knowledge.Found) bool {
		if f.Entry.Tenant != q.tenant || f.Chunk.Disabled || f.Entry.Disabled || !s.Holds(f.Entry.Base, f.Entry.Document) {
			return true
		}
		return row([]any{f.ID, f.Entry.Document, f.Entry.Base, int64(f.Index), string(f.Kind), f.Context, f.Content, int64(f.Start), int64(f.End)})
	})
}

// at is a time as SQLite's date functions read it, nil for none.
func at(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}
