//go:build cgo

package duckdb

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	driverduckdb "github.com/duckdb/duckdb-go/v2"

	"refold/infra/analysis/line"
)

// may lists the kinds of statements, as the engine tells them, that may be run.
// SHOW, DESCRIBE, SUMMARIZE and the pragmas that only show are SELECT to it; what
// of those may be run, the tree decides.
var may = []driverduckdb.StmtType{driverduckdb.STATEMENT_TYPE_SELECT, driverduckdb.STATEMENT_TYPE_EXPLAIN}

// query runs one statement in a transaction that can only read, and undoes it.
func (s *server) query(ctx context.Context, q line.Request) line.Reply {
	n, err := s.gate.count(q.SQL)
	if err != nil {
		return problem(err)
	}
	if n != 1 {
		return line.Reply{Code: "refused", Message: fmt.Sprintf("One statement is run at a time, the text holds %d.", n)}
	}
	if err := exec(s.conn, "BEGIN TRANSACTION READ ONLY"); err != nil {
		return problem(err)
	}
	defer func() { _ = exec(s.conn, "ROLLBACK") }()
	statement, kind, err := s.prepare(ctx, q.SQL)
	if err != nil {
		return problem(err)
	}
	defer statement.Close()
	if !slices.Contains(may, kind) {
		return onlyReads
	}
	var tree string
	if kind == driverduckdb.STATEMENT_TYPE_EXPLAIN {
		var sql string
		if sql, tree, err = s.explained(ctx, q.SQL); err == nil {
			if statement, _, err = s.prepare(ctx, sql); err != nil {
				return problem(err)
			}
			defer statement.Close()
		}
	} else {
		tree, err = s.parse(ctx, q.SQL)
	}
	why := ""
	if err == nil {
		why, err = s.forbidden(tree)
	}
	switch {
	case errors.Is(err, errUnread): // PRAGMA is SELECT to the engine, and gives no tree
		return onlyReads
	case err != nil:
		return s.timed(ctx, err)
	case why != "":
		return line.Reply{Code: "refused", Message: "Nothing but the table, WITH and VALUES can be read, with functions that compute: " + why + "."}
	}
	if statement.NumInput() > 0 {
		return line.Reply{Code: "invalid", Message: "The statement has parameters, for which there are no values: write the values into it."}
	}
	rows, err := statement.QueryContext(ctx, nil)
	if err != nil {
		return s.timed(ctx, err)
	}
	defer rows.Close()
	return s.collect(ctx, rows, q)
}

// onlyReads refuses statements of other kinds, and those that the engine can't show
// as a tree.
var onlyReads = line.Reply{Code: "refused", Message: "Only SELECT, SHOW, DESCRIBE, SUMMARIZE and EXPLAIN can be run, and PIVOT where IN says its values: nothing can be changed, loaded, attached, copied or set, and no setting read."}

// prepare binds a statement; the caller closes it. It does not run it.
func (s *server) prepare(ctx context.Context, sql string) (*driverduckdb.Stmt, driverduckdb.StmtType, error) {
	prepared, err := s.conn.PrepareContext(ctx, sql)
	if err != nil {
		return nil, 0, err
	}
	statement := prepared.(*driverduckdb.Stmt)
	kind, err := statement.StatementType()
	if err != nil {
		_ = statement.Close()
		return nil, 0, err
	}
	return statement, kind, nil
}

func (s *server) timed(ctx context.Context, err error) line.Reply {
	if ctx.Err() != nil {
		return line.Reply{Code: "too_much", Message: "The statement took too long and was stopped. Filter or aggregate more."}
	}
	return problem(err)
}

func (s *server) collect(ctx context.Context, rows driver.Rows, q line.Request) line.Reply {
	out := line.Reply{Rows: [][]any{}}
	seen := map[string]int{}
	for _, name := range rows.Columns() {
		unique := name
		for seen[unique] > 0 {
			seen[name]++
			unique = fmt.Sprintf("%s_%d", name, seen[name])
		}
		seen[unique]++
		out.Columns = append(out.Columns, unique)
	}
	size := 0
	for {
		row := make([]driver.Value, len(out.Columns))
		err := rows.Next(row)
		switch {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			return s.timed(ctx, err)
		case ctx.Err() != nil:
			return s.timed(ctx, ctx.Err())
		case len(out.Rows) == q.MaxRows:
			out.More = true
			return out
		}
		values := make([]any, len(row))
		for i, v := range row {
			values[i] = plain(v)
			if text, ok := values[i].(string); ok {
				size += len(text)
			}
			size += 8
		}
		if size > q.MaxSize {
			if out.More = true; len(out.Rows) == 0 {
				return line.Reply{Code: "too_much", Message: "One row alone is larger than an answer may be: select fewer or shorter columns."}
			}
			return out
		}
		out.Rows = append(out.Rows, values)
	}
}

// plain makes a value that JSON has a word for.
func plain(v driver.Value) any {
	switch v := v.(type) {
	case nil, bool, string, int64, int32, int16, int8, int, uint8, uint16, uint32, uint64:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
		return v
	case float32:
		return plain(float64(v))
	case *big.Int:
		if v == nil {
			return nil
		}
		if v.IsInt64() {
			return v.Int64()
		}
		return v.String()
	case []byte:
		return strings.ToValidUTF8(string(v), "\uFFFD")
	case time.Time:
		if v.Hour() == 0 && v.Minute() == 0 && v.Second() == 0 && v.Nanosecond() == 0 {
			return v.Format(time.DateOnly)
		}
		return v.Format("2006-01-02 15:04:05.999999")
	case driverduckdb.Decimal:
		return v.String()
	case fmt.Stringer:
		return v.String()
	}
	if raw, err := json.Marshal(v); err == nil {
		return string(raw)
	}
	return fmt.Sprint(v)
}

// problem says what the engine found wrong.
func problem(err error) line.Reply {
	message := err.Error()
	code := "invalid"
	var e *driverduckdb.Error
	if errors.As(err, &e) {
		message = e.Msg
		switch e.Type {
		case driverduckdb.ErrorTypeOutOfMemory:
			code, message = "too_much", "This needs more memory than there is for it. Filter or aggregate more."
		case driverduckdb.ErrorTypePermission, driverduckdb.ErrorTypeTransaction, driverduckdb.ErrorTypeIO, driverduckdb.ErrorTypeHTTP, driverduckdb.ErrorTypeMissingExtension, driverduckdb.ErrorTypeAutoLoad:
			code = "refused"
		case driverduckdb.ErrorTypeInterrupt:
			code = "too_much"
		case driverduckdb.ErrorTypeFatal, driverduckdb.ErrorTypeInternal:
			code = "internal"
		}
	}
	const most = 600
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "..."
	}
	return line.Reply{Code: code, Message: message}
}
