package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"refold/infra/sqlstore"
)

// job is one caller's change, run inside a transaction that it may share.
type job interface {
	// run makes the change. refused is the answer to this caller alone, and then
	// run has left nothing behind; err spoils the whole transaction.
	run(w *writer) (refused, err error)
	// durable tells whether the change must survive the death of the machine.
	durable() bool
	// size is roughly what it writes, in bytes.
	size() int
}

// writer is the only connection that writes. It runs what the callers who wait
// have asked for in one transaction, so with one fsync.
type writer struct {
	db    *DB
	queue sqlstore.Queue[job]

	// Below: only for the leader.
	conn    *sqlite3.Conn
	stmts   map[string]*sqlite3.Stmt
	full    bool  // synchronous is FULL
	head    int64 // last position given out, also in the open transaction
	streams map[streamKey]*stream
	feeds   map[feedKey]int64
	shelves map[[2]string]*shelf // by collection and tenant
	fresh   []recentEvent        // appended in the open transaction
}

func newWriter(db *DB) (*writer, error) {
	w := &writer{db: db}
	w.queue.Commit, w.queue.Size = w.commit, job.size
	if err := w.open(); err != nil {
		return nil, err
	}
	head, err := number(w.conn, headSQL)
	if err != nil {
		return nil, errors.Join(problem(db.path, "read", err), w.conn.Close())
	}
	w.head = head
	db.head.Store(head)
	db.recent.start(head)
	return w, nil
}

func (w *writer) open() error {
	conn, err := connect(context.Background(), w.db.path, sqlite3.OPEN_READWRITE)
	conn, err = withWords(w.db.path, conn, err)
	if err != nil {
		return err
	}
	// The journal is kept after a checkpoint and written over; 64 MiB bounds what
	// a burst leaves behind.
	if err := conn.Exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-8000; PRAGMA wal_autocheckpoint=2000; PRAGMA journal_size_limit=67108864"); err != nil {
		return errors.Join(problem(w.db.path, "set up", err), conn.Close())
	}
	w.conn, w.full, w.stmts = conn, true, map[string]*sqlite3.Stmt{}
	w.forget()
	return nil
}

// forget empties the caches, after a transaction that did not happen.
func (w *writer) forget() {
	w.head = w.db.head.Load()
	w.streams, w.feeds, w.shelves = map[streamKey]*stream{}, map[feedKey]int64{}, map[[2]string]*shelf{}
}

// submit queues a job and gives its result. If ctx ends before the job is in a
// batch it is called off; after that the result is waited for.
func (w *writer) submit(ctx context.Context, j job) error {
	ran, err := w.queue.Submit(ctx, j)
	if !ran && err == nil {
		return w.db.errClosed()
	}
	return err
}

// commit runs a batch in one transaction and sets every request's result.
func (w *writer) commit(batch []*sqlstore.Request[job]) {
	err := w.transact(batch)
	if err == nil {
		return
	}
	err = problem(w.db.path, "write", err)
	for _, r := range batch {
		// Also a refusal may have looked at what was then taken back.
		r.Err = err
	}
}

func (w *writer) transact(batch []*sqlstore.Request[job]) (err error) {
	// The driver panics when its memory is used up. Whatever happened, the
	// transaction is not committed; a fresh connection is sure to be sound.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the database driver failed: %v", p)
			w.discard()
		}
	}()
	if w.conn == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	w.fresh = w.fresh[:0]
	full := false
	for _, r := range batch {
		full = full || r.Job.durable()
	}
	if err := w.sync(full); err != nil {
		return err
	}
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, r := range batch {
		refused, err := r.Job.run(w)
		if err != nil {
			return w.rollback(err)
		}
		r.Err = refused
	}
	if err := w.exec("COMMIT"); err != nil {
		return w.rollback(err)
	}
	w.db.recent.add(w.fresh)
	if w.head != w.db.head.Load() {
		w.db.head.Store(w.head)
		w.db.news.Tell()
	}
	return nil
}

func (w *writer) rollback(cause error) error {
	// SQLite has already rolled back after some errors.
	if !w.conn.GetAutocommit() {
		if err := w.exec("ROLLBACK"); err != nil {
			w.discard()
			return cause
		}
	}
	w.forget()
	return cause
}

// discard gives up the connection; the next batch opens another.
func (w *writer) discard() {
	conn, stmts := w.conn, w.stmts
	w.conn = nil
	w.forget()
	if conn == nil {
		return
	}
	// Each step may panic again on the way out; the next is worth trying, as only
	// a connection that is closed has given up its locks.
	try := func(step func() error) {
		defer func() { _ = recover() }()
		_ = step()
	}
	for _, s := range stmts {
		try(s.Close)
	}
	try(conn.Close)
}

// sync sets whether commits wait for the disk. The pragma acts when it is
// compiled, so it cannot be a prepared statement.
func (w *writer) sync(full bool) error {
	if full == w.full {
		return nil
	}
	mode := "NORMAL"
	if full {
		mode = "FULL"
	}
	if err := w.conn.Exec("PRAGMA synchronous=" + mode); err != nil {
		return err
	}
	w.full = full
	return nil
}

// stmt prepares a statement once.
func (w *writer) stmt(sql string) (*sqlite3.Stmt, error) { return prepare(w.conn, w.stmts, sql) }

func (w *writer) exec(sql string) error {
	s, err := w.stmt(sql)
	if err != nil {
		return err
	}
	return s.Exec()
}

func (w *writer) close() error {
	if w.conn == nil {
		return nil
	}
	_, _, err := w.conn.WALCheckpoint("", sqlite3.CHECKPOINT_TRUNCATE)
	if errors.Is(err, sqlite3.BUSY) {
		err = nil // a reader in another process; its next checkpoint does it
	}
	for _, s := range w.stmts {
		err = errors.Join(err, s.Close())
	}
	return problem(w.db.path, "close", errors.Join(err, w.conn.Close()))
}

func prepare(conn *sqlite3.Conn, cache map[string]*sqlite3.Stmt, sql string) (*sqlite3.Stmt, error) {
	if s := cache[sql]; s != nil {
		return s, nil
	}
	s, _, err := conn.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	cache[sql] = s
	return s, nil
}
