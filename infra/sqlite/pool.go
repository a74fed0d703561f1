package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
)

// maxReaders bounds the connections that read at the same time; each has a page
// cache of 2 MiB.
const maxReaders = 4

// maxCachedNames bounds a reader's memory of stream names, and of index fields
// (about 200 bytes each).
const maxCachedNames = 4096

// pool lends read-only connections. They are opened when first needed.
type pool struct {
	db   *DB
	free chan *reader // nil entries are connections not opened yet
}

func newPool(db *DB) *pool {
	p := &pool{db: db, free: make(chan *reader, maxReaders)}
	for range maxReaders {
		p.free <- nil
	}
	return p
}

// reader is a read-only connection. One goroutine at a time.
type reader struct {
	db    *DB
	conn  *sqlite3.Conn
	stmts map[string]*sqlite3.Stmt

	// What never changes once written, so may be remembered.
	feeds    []feed // by id, ascending
	feedByID map[int64]feed
	names    map[int64]event.Stream
	types    map[string]string
	fields   map[indexField]int64 // ids; a field is not deleted as long as its shelf has a name

	buf []byte // scratch
}

type feed struct {
	id int64
	feedKey
}

// read lends a connection to fn. Errors of SQLite come back as problems, an
// interrupted statement as ctx's error.
func (db *DB) read(ctx context.Context, fn func(*reader) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	var r *reader
	select {
	case <-db.closed:
		return db.errClosed()
	default:
	}
	select {
	case r = <-db.pool.free:
	case <-ctx.Done():
		return ctx.Err()
	case <-db.closed:
		return db.errClosed()
	}
	defer func() {
		// The driver panics when its memory is used up; that connection is gone.
		if p := recover(); p != nil {
			err = problem(db.path, "read", fmt.Errorf("the database driver failed: %v", p))
			r = nil
		}
		db.pool.free <- r
	}()
	if r == nil {
		if r, err = openReader(db); err != nil {
			return err
		}
	}
	r.conn.SetInterrupt(ctx)
	err = fn(r)
	r.conn.SetInterrupt(context.Background())
	if err != nil {
		r.reset()
		if ctx.Err() != nil && errors.Is(err, sqlite3.INTERRUPT) {
			return ctx.Err()
		}
	}
	return problem(db.path, "read", err)
}

func openReader(db *DB) (*reader, error) {
	conn, err := connect(context.Background(), db.path, sqlite3.OPEN_READONLY)
	conn, err = withWords(db.path, conn, err)
	if err != nil {
		return nil, err
	}
	return &reader{db: db, conn: conn, stmts: map[string]*sqlite3.Stmt{}, feedByID: map[int64]feed{},
		names: map[int64]event.Stream{}, types: map[string]string{}, fields: map[indexField]int64{}}, nil
}

// reset ends every statement, so that no old snapshot stays open.
func (r *reader) reset() {
	for _, s := range r.stmts {
		s.Reset()
	}
	if !r.conn.GetAutocommit() {
		r.exec("ROLLBACK")
	}
}

func (r *reader) stmt(sql string) (*sqlite3.Stmt, error) { return prepare(r.conn, r.stmts, sql) }

func (r *reader) exec(sql string) error {
	s, err := r.stmt(sql)
	if err != nil {
		return err
	}
	return s.Exec()
}

// snapshot runs fn in one read transaction.
func (r *reader) snapshot(fn func() error) error {
	if err := r.exec("BEGIN"); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err // read resets the connection
	}
	return r.exec("COMMIT")
}

// close takes all connections out of the pool, waiting for those that are lent.
func (p *pool) close() (err error) {
	for range maxReaders {
		r := <-p.free
		if r == nil {
			continue
		}
		for _, s := range r.stmts {
			err = errors.Join(err, s.Close())
		}
		err = errors.Join(err, problem(p.db.path, "close", r.conn.Close()))
	}
	return err
}
