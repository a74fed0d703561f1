package viewquery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers"
)

const (
	maxTime   = 5 * time.Second
	maxSteps  = 50_000 // thousands of the engine's instructions
	maxMemory = 64 << 20
	maxHeap   = 48 << 20
	maxValue  = 4 << 20 // bytes of one value in the engine
	maxAtOnce = 8       // queries
)

// Engine answers queries. Safe for concurrent use.
type Engine struct {
	source handlers.ViewSource
	index  knowledge.Index
	slots  chan struct{}
	time   time.Duration
	steps  int64
}

var _ handlers.Views = (*Engine)(nil)

// New makes an engine over what there is: bases and documents of source, chunks
// of index.
func New(source handlers.ViewSource, index knowledge.Index) *Engine {
	return &Engine{source: source, index: index, slots: make(chan struct{}, maxAtOnce), time: maxTime, steps: maxSteps}
}

// Query implements handlers.Views.
func (e *Engine) Query(ctx context.Context, tenant string, s tool.Scope, sql string) (rows handlers.Rows, err error) {
	if tenant == "" || s.Empty() {
		return rows, &handlers.QueryError{Code: "refused", Message: "No knowledge base is in reach, so there is nothing to query."}
	}
	if err := checkText(sql); err != nil {
		return rows, err
	}
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return rows, ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, e.time)
	defer cancel()
	q := &query{ctx: limited, tenant: tenant, scope: s, engine: e}
	// The engine's memory is its own: a fault in it ends this query alone.
	defer func() {
		if p := recover(); p != nil {
			rows, err = handlers.Rows{}, &handlers.QueryError{Code: "too_much", Message: "The query needs more memory than a query may have. Ask for less: fewer columns, a narrower WHERE, no large joins."}
		}
	}()
	rows, err = q.run(sql)
	switch {
	case ctx.Err() != nil:
		return handlers.Rows{}, ctx.Err()
	case q.failed != nil && limited.Err() == nil:
		return handlers.Rows{}, fmt.Errorf("read what is queried: %w", q.failed)
	}
	return rows, err
}

func checkText(sql string) error {
	if strings.TrimSpace(sql) == "" {
		return &handlers.QueryError{Code: "invalid", Message: "The statement is empty."}
	}
	if len(sql) > handlers.MaxSQL {
		return &handlers.QueryError{Code: "refused", Message: fmt.Sprintf("The statement has %d bytes, at most %d are taken.", len(sql), handlers.MaxSQL)}
	}
	if strings.ContainsRune(sql, 0) {
		return &handlers.QueryError{Code: "invalid", Message: "The statement holds a NUL character."}
	}
	return nil
}

// query is one query with its connection.
type query struct {
	ctx    context.Context
	tenant string
	scope  tool.Scope
	engine *Engine
	failed error // of a port
	denied string
}

func (q *query) run(sql string) (handlers.Rows, error) {
	conn, err := sqlite3.OpenContext(sqlite3.WithMaxMemory(context.Background(), maxMemory), ":memory:")
	if err != nil {
		return handlers.Rows{}, fmt.Errorf("open the query engine: %w", err)
	}
	defer conn.Close()
	if err := q.fence(conn); err != nil {
		return handlers.Rows{}, fmt.Errorf("set up the query engine: %w", err)
	}
	conn.SetInterrupt(&meter{Context: q.ctx, left: atomicFrom(q.engine.steps)})
	stmt, err := q.prepare(conn, sql)
	if err != nil {
		return handlers.Rows{}, err
	}
	defer stmt.Close()
	return q.collect(stmt)
}

// fence leaves nothing in reach but the tables.
func (q *query) fence(conn *sqlite3.Conn) error {
	if err := conn.Exec("PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF; PRAGMA query_only=ON"); err != nil {
		return err
	}
	for _, t := range tables {
		if err := t.register(conn, q); err != nil {
			return err
		}
	}
	for id, n := range map[sqlite3.LimitCategory]int{sqlite3.LIMIT_LENGTH: maxValue, sqlite3.LIMIT_SQL_LENGTH: handlers.MaxSQL, sqlite3.LIMIT_COLUMN: 100,
		sqlite3.LIMIT_EXPR_DEPTH: 100, sqlite3.LIMIT_COMPOUND_SELECT: 20, sqlite3.LIMIT_VDBE_OP: 25_000, sqlite3.LIMIT_FUNCTION_ARG: 20,
		sqlite3.LIMIT_ATTACHED: 0, sqlite3.LIMIT_LIKE_PATTERN_LENGTH: 200, sqlite3.LIMIT_VARIABLE_NUMBER: 1, sqlite3.LIMIT_TRIGGER_DEPTH: 1, sqlite3.LIMIT_WORKER_THREADS: 0} {
		conn.Limit(id, n)
	}
	conn.HardHeapLimit(maxHeap)
	for option, on := range map[sqlite3.DBConfig]bool{sqlite3.DBCONFIG_DEFENSIVE: true, sqlite3.DBCONFIG_ENABLE_TRIGGER: false, sqlite3.DBCONFIG_ENABLE_VIEW: false,
		sqlite3.DBCONFIG_DQS_DML: false, sqlite3.DBCONFIG_DQS_DDL: false} {
		if _, err := conn.Config(option, on); err != nil {
			return err
		}
	}
	return conn.SetAuthorizer(q.authorize)
}

// prepare compiles the one statement, which the authorizer has seen.
func (q *query) prepare(conn *sqlite3.Conn, sql string) (*sqlite3.Stmt, error) {
	stmt, tail, err := conn.Prepare(sql)
	if err != nil {
		return nil, q.problem(err)
	}
	refuse := func(text string) (*sqlite3.Stmt, error) {
		if stmt != nil {
			stmt.Close()
		}
		return nil, &handlers.QueryError{Code: "refused", Message: text}
	}
	if stmt == nil {
		return refuse("There is no statement in the text.")
	}
	if strings.Trim(tail, " \t\r\n;") != "" {
		// A comment may follow, a second statement may not.
		if second, _, err := conn.Prepare(tail); err != nil || second != nil {
			if second != nil {
				second.Close()
			}
			return refuse("Only one statement can be run at a time.")
		}
	}
	if !stmt.ReadOnly() || stmt.ColumnCount() == 0 {
		return refuse("Only SELECT can be run here.")
	}
	return stmt, nil
}

func (q *query) collect(stmt *sqlite3.Stmt) (handlers.Rows, error) {
	rows := handlers.Rows{Rows: [][]any{}}
	seen := map[string]int{}
	for i := range stmt.ColumnCount() {
		name := stmt.ColumnName(i)
		for seen[name]++; seen[name] > 1; seen[name]++ {
			name = fmt.Sprintf("%s_%d", name, seen[name])
		}
		rows.Columns = append(rows.Columns, name)
	}
	size := 0
	for stmt.Step() {
		if len(rows.Rows) == handlers.MaxRows {
			rows.More = true
			break
		}
		row := make([]any, len(rows.Columns))
		for i := range row {
			switch stmt.ColumnType(i) {
			case sqlite3.INTEGER:
				row[i] = stmt.ColumnInt64(i)
				size += 8
			case sqlite3.FLOAT:
				row[i] = stmt.ColumnFloat(i)
				size += 8
			case sqlite3.TEXT, sqlite3.BLOB:
				text := tool.Sanitize(stmt.ColumnText(i))
				row[i] = text
				size += len(text)
			}
		}
		if size > handlers.MaxRowsBytes {
			rows.More = true
			break
		}
		rows.Rows = append(rows.Rows, row)
	}
	if !rows.More {
		if err := stmt.Err(); err != nil {
			return handlers.Rows{}, q.problem(err)
		}
	}
	if rows.More && len(rows.Rows) == 0 {
		return handlers.Rows{}, &handlers.QueryError{Code: "too_much", Message: "One row alone is larger than an answer may be: select fewer columns, or substr(content, 1, 500)."}
	}
	return rows, nil
}

// problem says what the engine found wrong.
func (q *query) problem(err error) error {
	switch {
	case q.failed != nil:
		return q.failed
	case q.denied != "":
		return &handlers.QueryError{Code: "refused", Message: q.denied}
	case errors.Is(err, sqlite3.INTERRUPT):
		return &handlers.QueryError{Code: "too_much", Message: fmt.Sprintf("The query took longer than %s, or more steps than a query may have. Narrow it with WHERE on id, knowledge_id or knowledge_base_id, and join less.", q.engine.time)}
	case errors.Is(err, sqlite3.NOMEM), errors.Is(err, sqlite3.TOOBIG):
		return &handlers.QueryError{Code: "too_much", Message: "The query needs more memory than a query may have, or makes a value that is too large. Ask for less."}
	}
	text := strings.TrimPrefix(err.Error(), "sqlite3: ")
	text = strings.TrimPrefix(text, "SQL logic error: ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "")
	}
	return &handlers.QueryError{Code: "invalid", Message: fmt.Sprintf("The statement cannot be run: %s. Tables: %s.", text, schema())}
}

// meter ends a query when its time or its instructions are used up: the engine
// asks it after each thousand instructions.
type meter struct {
	context.Context
	left *atomic.Int64
}

func atomicFrom(n int64) *atomic.Int64 {
	var a atomic.Int64
	a.Store(n)
	return &a
}

func (m *meter) Err() error {
	if m.left.Add(-1) < 0 {
		return context.DeadlineExceeded
	}
	return m.Context.Err()
}
