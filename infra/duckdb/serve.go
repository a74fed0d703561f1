//go:build cgo

package duckdb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	driverduckdb "github.com/duckdb/duckdb-go/v2"

	"refold/infra/analysis/line"
)

// settings of the engine as it opens.
const settings = "?autoinstall_known_extensions=false&autoload_known_extensions=false&allow_community_extensions=false&allow_persistent_secrets=false" +
	"&threads=1&memory_limit=1GB"

// locked shut every door before anything is read: no spilling to disk, nothing
// but memory in reach, and, last, no setting can be changed.
var locked = []string{"SET temp_directory=''", "SET enable_external_access=false", "SET lock_configuration=true"}

// Serve answers requests until in ends. The error is a fault of this process;
// what is wrong with a request is in its reply.
func Serve(in io.Reader, out io.Writer) error {
	if err := limit(); err != nil {
		return fmt.Errorf("limits of the process: %w", err)
	}
	// Whoever started this process is gone when the input ends, also in the middle
	// of a query.
	requests := make(chan line.Request)
	ended := make(chan error, 1)
	go func() {
		r := line.NewReader(in)
		for {
			var q line.Request
			if err := r.Read(&q); err != nil {
				if errors.Is(err, io.EOF) {
					os.Exit(0)
				}
				ended <- err
				return
			}
			requests <- q
		}
	}()
	connector, err := driverduckdb.NewConnector(settings, nil)
	if err != nil {
		return fmt.Errorf("open the engine: %w", err)
	}
	defer connector.Close()
	c, err := connector.Connect(context.Background())
	if err != nil {
		return fmt.Errorf("connect to the engine: %w", err)
	}
	s := &server{conn: c.(*driverduckdb.Conn)}
	for _, setting := range locked {
		if err := exec(s.conn, setting); err != nil {
			return fmt.Errorf("lock the engine: %w", err)
		}
	}
	if s.gate, err = newGate(); err != nil {
		return err
	}
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("read a request: %w", err)
		case q := <-requests:
			reply, answered := s.handle(q)
			if !answered {
				continue
			}
			if err := line.Write(out, reply); err != nil {
				return fmt.Errorf("write a reply: %w", err)
			}
		}
	}
}

type server struct {
	conn   *driverduckdb.Conn
	gate   *gate
	loader loader
	failed error // of loading
	ready  bool
}

func (s *server) handle(q line.Request) (line.Reply, bool) {
	switch {
	case q.Op == line.Query && s.ready:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(q.Millis)*time.Millisecond)
		defer cancel()
		return s.query(ctx, q), true
	case q.Op == line.Ready && !s.ready:
		if s.failed == nil {
			s.failed = s.loader.finish(s.conn)
		}
		if s.failed != nil {
			return problem(s.failed), true
		}
		s.ready = true
		return line.Reply{Columns: s.loader.columns, Types: s.loader.types}, true
	case (q.Op == line.Open || q.Op == line.Sheet || q.Op == line.Rows) && !s.ready:
		if s.failed == nil {
			s.failed = s.loader.take(s.conn, q)
		}
		return line.Reply{}, false
	}
	return line.Reply{Code: "internal", Message: "a request out of turn"}, true
}

// exec runs a statement of ours.
func exec(conn *driverduckdb.Conn, sql string) error {
	_, err := conn.ExecContext(context.Background(), sql, nil)
	return err
}

// rowsOf reads all rows of a statement of ours.
func rowsOf(ctx context.Context, conn *driverduckdb.Conn, sql string) ([][]driver.Value, error) {
	rows, err := conn.QueryContext(ctx, sql, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out [][]driver.Value
	for {
		row := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
}
