package analysis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"refold/handlers"
	"refold/infra/analysis/line"
)

const (
	queryTime   = 20 * time.Second
	loadTime    = 60 * time.Second
	grace       = 5 * time.Second // that the process has to stop a query itself
	maxAlive    = 4               // processes
	batchRows   = 500
	batchBytes  = 1 << 20
	maxColumns  = 2000
	programName = "refold-data"
)

// Options of New.
type Options struct {
	Binary string               // path of refold-data; see Find
	Tables handlers.TableReader // reads the files
	Temp   string               // directory for the processes' working directories, "" = the system's
	Log    *slog.Logger         // nil = discard

	QueryTime time.Duration // of one statement, 0 = 20 s
	LoadTime  time.Duration // of one file, 0 = 60 s
	Alive     int           // processes at once, 0 = 4
}

// Find gives the path of the binary: the configured one, else the one beside the
// running program. An error says why there is none; data_analysis is not offered
// then.
func Find(configured string) (string, error) {
	path := configured
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("place of %s: %w", programName, err)
		}
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		path = filepath.Join(filepath.Dir(self), programName)
		if runtime.GOOS == "windows" {
			path += ".exe"
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || runtime.GOOS != "windows" && info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%s is no program: make build makes it where there is a C compiler", path)
	}
	return filepath.Abs(path)
}

// Engine keeps the processes. Safe for concurrent use.
type Engine struct {
	o Options

	mu       sync.Mutex
	sessions map[key]*session
	closed   bool
	changed  chan struct{} // closed when a session becomes idle or goes
}

type key struct{ run, document string }

// session is one file in one process. mu is held while it is used.
type session struct {
	mu       chan struct{} // a lock that can be waited for with a context
	key      key
	process  *process
	revision int
	table    string
	columns  []string
	notes    []string
	used     time.Time
	gone     bool
}

var _ handlers.Analyst = (*Engine)(nil)

// New makes an engine. The caller must Close it.
func New(o Options) *Engine {
	if o.QueryTime <= 0 {
		o.QueryTime = queryTime
	}
	if o.LoadTime <= 0 {
		o.LoadTime = loadTime
	}
	if o.Alive <= 0 {
		o.Alive = maxAlive
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{o: o, sessions: map[key]*session{}, changed: make(chan struct{})}
}

// Query implements handlers.Analyst.
func (e *Engine) Query(ctx context.Context, run string, t handlers.TableFile, sql string) (handlers.Analysis, error) {
	if strings.TrimSpace(sql) == "" || len(sql) > handlers.MaxSQL || strings.ContainsRune(sql, 0) {
		return handlers.Analysis{}, &handlers.QueryError{Code: "invalid", Message: fmt.Sprintf("A statement has 1 to %d bytes, and no NUL character.", handlers.MaxSQL)}
	}
	s, err := e.take(ctx, key{run, t.Document})
	if err != nil {
		return handlers.Analysis{}, err
	}
	defer e.put(s)
	if s.process == nil || s.revision != t.Revision {
		if err := e.load(ctx, s, t); err != nil {
			e.drop(s)
			return handlers.Analysis{}, e.explain(ctx, err)
		}
	}
	a := handlers.Analysis{Table: s.table, Notes: s.notes, SQL: nameTable(sql, t.Document, s.table)}
	reply, err := e.ask(ctx, s, a.SQL)
	if err != nil {
		e.drop(s)
		return handlers.Analysis{}, e.explain(ctx, err)
	}
	if reply.Code == "invalid" {
		// The model may have written a column's name not quite as it is.
		if mended := mendColumns(a.SQL, s.columns); mended != a.SQL {
			a.SQL = mended
			if reply, err = e.ask(ctx, s, mended); err != nil {
				e.drop(s)
				return handlers.Analysis{}, e.explain(ctx, err)
			}
		}
	}
	if reply.Code != "" {
		return handlers.Analysis{}, refusal(reply, s)
	}
	a.Rows = handlers.Rows{Columns: reply.Columns, Rows: reply.Rows, More: reply.More}
	for _, row := range a.Rows.Rows {
		for i := range row {
			row[i] = plain(row[i])
		}
	}
	return a, nil
}

// plain makes Go's numbers of JSON's.
func plain(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	if f, err := n.Float64(); err == nil {
		return f
	}
	return n.String()
}

func refusal(r line.Reply, s *session) error {
	e := &handlers.QueryError{Code: r.Code, Message: r.Message}
	switch r.Code {
	case "refused":
		e.Message = "This statement is not run. " + r.Message
	case "internal":
		e.Code = "unavailable"
	case "invalid":
		e.Message += hint(r.Message, s.columns) + "\nThe table is " + s.table + ", its columns are " + strings.Join(quoteAll(s.columns), ", ") + "."
	}
	return e
}

// ask runs one statement, and ends the process if it does not stop in time.
func (e *Engine) ask(ctx context.Context, s *session, sql string) (line.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, e.o.QueryTime+grace)
	defer cancel()
	stop := s.process.under(ctx)
	r, err := s.process.ask(line.Request{Op: line.Query, SQL: sql, Millis: int(e.o.QueryTime.Milliseconds()), MaxRows: handlers.MaxRows, MaxSize: handlers.MaxRowsBytes})
	if !stop() && err == nil {
		err = errBroken // it was ended just as it answered
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return r, err
}

// explain makes one of the errors that are promised.
func (e *Engine) explain(ctx context.Context, err error) error {
	var told *handlers.QueryError
	var unread *handlers.ParseError
	switch {
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ctx.Err()
	case errors.As(err, &told):
		return told
	case errors.As(err, &unread):
		return unread
	case errors.Is(err, context.DeadlineExceeded):
		return &handlers.QueryError{Code: "too_much", Message: "The analysis took too long and was stopped. Filter or aggregate more, or ask for less."}
	case errors.Is(err, errBroken):
		e.o.Log.Warn("an analysis process ended", "error", err)
		return &handlers.QueryError{Code: "unavailable", Message: "The analysis engine broke down, maybe because the statement or the file needs too much memory. Nothing is lost; the next statement starts a new one. Ask for less."}
	}
	return fmt.Errorf("analyse a table file: %w", err)
}

// load starts the process and sends it the rows.
func (e *Engine) load(ctx context.Context, s *session, t handlers.TableFile) error {
	if old := e.attach(s, nil); old != nil {
		old.close()
	}
	ctx, cancel := context.WithTimeout(ctx, e.o.LoadTime)
	defer cancel()
	f, done, err := t.Open(ctx)
	if err != nil {
		return fmt.Errorf("open the file: %w", err)
	}
	defer done()
	p, err := start(e.o.Binary, e.o.Temp)
	if err != nil {
		return err
	}
	s.revision, s.table = t.Revision, handlers.TableName(t.Document)
	e.attach(s, p)
	stop := p.under(ctx)
	defer stop()
	s.notes = nil
	reply, err := e.feed(ctx, s, f)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	if reply.Code != "" {
		return &handlers.QueryError{Code: reply.Code, Message: "The file cannot be loaded: " + reply.Message}
	}
	if !stop() {
		return context.DeadlineExceeded
	}
	s.columns = reply.Columns
	for i, c := range s.columns {
		if i < len(reply.Types) && reply.Types[i] != "VARCHAR" {
			s.notes = append(s.notes, fmt.Sprintf("%s is %s", c, reply.Types[i]))
		}
	}
	return nil
}

func (e *Engine) feed(ctx context.Context, s *session, f handlers.File) (line.Reply, error) {
	if err := s.process.send(line.Request{Op: line.Open, Name: s.table}); err != nil {
		return line.Reply{}, err
	}
	var batch [][]string
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := s.process.send(line.Request{Op: line.Rows, Rows: batch})
		batch, size = nil, 0
		return err
	}
	err := e.o.Tables.Tables(ctx, f, func(t handlers.Table) error {
		if err := flush(); err != nil {
			return err
		}
		if len(t.Columns) > maxColumns {
			return &handlers.ParseError{Code: "too_many_columns", Message: fmt.Sprintf("The table has %d columns, at most %d can be analysed.", len(t.Columns), maxColumns)}
		}
		names := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			names[i] = c.Name
		}
		return s.process.send(line.Request{Op: line.Sheet, Name: t.Name, Columns: names})
	}, func(cells []string) error {
		row := slices.Clone(cells)
		for _, c := range row {
			size += len(c) + 3
		}
		if batch = append(batch, row); len(batch) >= batchRows || size >= batchBytes {
			return flush()
		}
		return nil
	})
	if err != nil {
		return line.Reply{}, err
	}
	if err := flush(); err != nil {
		return line.Reply{}, err
	}
	return s.process.ask(line.Request{Op: line.Ready})
}
