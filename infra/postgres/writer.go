package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"refold/infra/sqlstore"
)

// batchLockWait is how long a batch waits for a row that another process's
// transaction holds, before its requests go on one by one, each on its own.
const batchLockWait = time.Second

// writer gathers appends: it writes what the callers who wait have asked for in
// one transaction, so with one flush.
type writer struct {
	db    *DB
	queue sqlstore.Queue[*appendJob]

	// Below: only for the leader.
	conn *pgx.Conn
	// settled is a number that the position sequence is sure to be past after a
	// crash of the server.
	settled int64
}

func newWriter(db *DB) *writer {
	w := &writer{db: db}
	w.queue.Commit = w.commit
	w.queue.Size = func(j *appendJob) int { return j.bytes }
	w.queue.Key = func(j *appendJob) any { return j.stream }
	return w
}

// submit queues an append and waits for it. An error says nothing about the
// append's fate, only that the batch has not answered it: the caller goes on
// alone. If ctx ends before the job is in a batch it is called off; after that
// the result is waited for.
func (w *writer) submit(ctx context.Context, j *appendJob) (called bool, err error) {
	if called, err = w.queue.Submit(ctx, j); !called && err == nil {
		err = w.db.errClosed()
	}
	return called, err
}

// commit runs a batch in one transaction and sets every request's result.
func (w *writer) commit(batch []*sqlstore.Request[*appendJob]) {
	jobs := make([]*appendJob, len(batch))
	for i, r := range batch {
		jobs[i] = r.Job
	}
	err := w.transact(jobs)
	if err != nil && w.conn != nil && (broken(err) || w.conn.IsClosed()) {
		shut(w.conn)
		w.conn = nil
	}
	for _, r := range batch {
		r.Err = err
	}
	w.db.appended(jobs, err)
}

func (w *writer) transact(jobs []*appendJob) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), replyWait)
	defer cancel()
	if w.conn == nil {
		if w.conn, err = w.db.connect(ctx, batchLockWait); err != nil {
			w.conn = nil
			return fmt.Errorf("connect: %w", err)
		}
		w.settled = 0
	}
	return write(ctx, w.conn, jobs, &w.settled)
}

// stop refuses new requests and waits until the queued ones are answered.
func (w *writer) stop() {
	w.queue.Stop()
	shut(w.conn)
}
