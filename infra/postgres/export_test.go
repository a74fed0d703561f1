package postgres

import (
	"context"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/infra/sqlstore"
)

// Write appends in the caller's transaction, as a process does that has not yet
// committed. The feed must exist.
func Write(ctx context.Context, tx pgx.Tx, stream event.Stream, expect event.Expect, events ...event.New) (event.Position, error) {
	j, err := newJob(stream, expect.Version(), events)
	if err != nil {
		return "", err
	}
	if err := tx.QueryRow(ctx, "SELECT id FROM feed WHERE tenant = $1 AND category = $2", stream.Tenant, stream.Category).Scan(&j.feed); err != nil {
		return "", err
	}
	var settled int64
	err = write(ctx, tx.Conn(), []*appendJob{j}, &settled)
	return j.result.Position, err
}

// Mint gives a number as a position.
func Mint(n int64) event.Position { return sqlstore.Position(n) }

// WriterPID is the session of the batches, 0 before there is one.
func (db *DB) WriterPID() uint32 {
	var pid uint32
	db.w.queue.Idle(func() {
		if db.w.conn != nil {
			pid = db.w.conn.PgConn().PID()
		}
	})
	return pid
}

// NotifierPID is the session that sends wake-ups, 0 before there is one.
func (db *DB) NotifierPID() uint32 { return db.notice.pid.Load() }

// Frontier is the frontier without moving it.
func (db *DB) Frontier() event.Position { return sqlstore.Position(db.tail.frontier.Load()) }

// Settled is what the writer knows to be on the server's disk.
func (db *DB) Settled() (n int64) {
	for !db.w.queue.Idle(func() { n = db.w.settled }) {
		runtime.Gosched()
	}
	return n
}

// KeepLoose sets for how long vectors are kept that no chunk has.
func (db *DB) KeepLoose(d time.Duration) { db.keepLoose = d }

// Halves tells whether vectors are searched by the server.
func (db *DB) Halves() bool { return db.half.on }

// GraphsFrom sets from how many vectors on a model has a graph, and from how
// many chunks on it is used.
func (db *DB) GraphsFrom(vectors, chunks int) {
	db.half.from, db.half.narrow = int64(vectors), chunks
}

// Graph makes the graph of a model.
func (db *DB) Graph(ctx context.Context, tenant, model string) (built bool, err error) {
	var space int64
	var dims int
	if err := db.pool.QueryRow(ctx, "SELECT id, dims FROM knowledge_space WHERE tenant = $1 AND model = $2", tenant, model).Scan(&space, &dims); err != nil {
		return false, err
	}
	return db.half.graph(ctx, space, dims)
}
