package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/ncruces/go-sqlite3"
)

// A batch takes no more than this, so that nobody waits for ever behind it.
const (
	maxBatchJobs = 512
	maxBatchSize = 4 << 20 // bytes, as jobs count them
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

// request is a job on its way through the queue.
type request struct {
	job   job
	err   error
	taken bool          // in a batch; cannot be called off any more
	leads bool          // was handed the lead
	wake  chan struct{} // one signal: answered, or handed the lead
}

// writer is the only connection that writes. There is no goroutine behind it:
// of the callers who wait, one leads. It runs what all of them asked for in one
// transaction, so with one fsync, and then hands the lead on. A lone caller
// leads at once and pays nothing for it.
type writer struct {
	db *DB

	mu      sync.Mutex
	queue   []*request
	leading bool
	stopped bool
	idle    sync.Cond // leading became false

	// Below: only for the leader.
	conn    *sqlite3.Conn
	stmts   map[string]*sqlite3.Stmt
	full    bool  // synchronous is FULL
	head    int64 // last position given out, also in the open transaction
	streams map[streamKey]*stream
	feeds   map[feedKey]int64
	last    int           // jobs in the batch before
	fresh   []recentEvent // appended in the open transaction
}

func newWriter(db *DB) (*writer, error) {
	w := &writer{db: db}
	w.idle.L = &w.mu
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
	w.streams, w.feeds = map[streamKey]*stream{}, map[feedKey]int64{}
}

// submit queues a job and gives its result. If ctx ends before the job is in a
// batch it is called off; after that the result is waited for.
func (w *writer) submit(ctx context.Context, j job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{job: j}
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return w.db.errClosed()
	}
	w.queue = append(w.queue, r)
	if w.leading {
		r.wake = make(chan struct{}, 1)
		w.mu.Unlock()
		select {
		case <-r.wake:
		case <-ctx.Done():
			if w.callOff(r) {
				return ctx.Err()
			}
			<-r.wake
		}
		if !r.leads {
			return r.err
		}
	} else {
		w.leading = true
		w.mu.Unlock()
	}
	w.lead()
	return r.err
}

// callOff takes a request out of the queue if it is still in it and not about
// to lead.
func (w *writer) callOff(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.taken || r.leads {
		return false
	}
	for i, q := range w.queue {
		if q == r {
			w.queue = append(w.queue[:i], w.queue[i+1:]...)
			return true
		}
	}
	return false
}

// lead runs one batch, which begins with the leader's own request, answers it
// and hands the lead on.
func (w *writer) lead() {
	if w.last > 1 {
		// The callers of the batch before were just woken and are about to ask
		// again. Let them: otherwise every second batch would hold one job.
		for range 3 {
			w.mu.Lock()
			n := len(w.queue)
			w.mu.Unlock()
			if n >= w.last {
				break
			}
			runtime.Gosched()
		}
	}
	w.mu.Lock()
	batch := w.take()
	w.mu.Unlock()

	w.commit(batch)
	w.last = len(batch)

	for _, r := range batch[1:] { // the first is the leader's own
		r.wake <- struct{}{}
	}
	w.mu.Lock()
	if len(w.queue) > 0 {
		next := w.queue[0]
		next.leads = true
		next.wake <- struct{}{}
	} else {
		w.leading = false
		w.idle.Broadcast()
	}
	w.mu.Unlock()
}

func (w *writer) take() []*request {
	n, size := 0, 0
	for n < len(w.queue) && n < maxBatchJobs && (n == 0 || size+w.queue[n].job.size() <= maxBatchSize) {
		size += w.queue[n].job.size()
		w.queue[n].taken = true
		n++
	}
	batch := w.queue[:n:n]
	w.queue = append([]*request(nil), w.queue[n:]...)
	return batch
}

// commit runs a batch in one transaction and sets every request's result.
func (w *writer) commit(batch []*request) {
	err := w.transact(batch)
	if err == nil {
		return
	}
	err = problem(w.db.path, "write", err)
	for _, r := range batch {
		// Also a refusal may have looked at what was then taken back.
		r.err = err
	}
}

func (w *writer) transact(batch []*request) (err error) {
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
		full = full || r.job.durable()
	}
	if err := w.sync(full); err != nil {
		return err
	}
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, r := range batch {
		refused, err := r.job.run(w)
		if err != nil {
			return w.rollback(err)
		}
		r.err = refused
	}
	if err := w.exec("COMMIT"); err != nil {
		return w.rollback(err)
	}
	w.db.recent.add(w.fresh)
	if w.head != w.db.head.Load() {
		w.db.head.Store(w.head)
		w.db.news.tell()
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

// stop refuses new requests and waits until the queued ones are answered.
func (w *writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for w.leading {
		w.idle.Wait()
	}
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
