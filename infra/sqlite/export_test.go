package sqlite

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"refold/domain/search"
	"refold/infra/sqlstore"
)

// funcJob runs a function as the writer.
type funcJob func(w *writer) error

func (f funcJob) durable() bool                        { return false }
func (f funcJob) size() int                            { return sqlstore.MaxBatchSize } // alone in its batch
func (f funcJob) run(w *writer) (refused, err error)   { return nil, f(w) }
func (db *DB) do(ctx context.Context, f funcJob) error { return db.submit(ctx, f) }

// Integrity is SQLite's own opinion of the file: "ok".
func (db *DB) Integrity(ctx context.Context) (out string, err error) {
	err = db.read(ctx, func(r *reader) error {
		q, err := r.stmt("PRAGMA integrity_check")
		if err != nil {
			return err
		}
		for q.Step() {
			out += q.ColumnText(0)
		}
		return q.Err()
	})
	return out, err
}

// Limit bounds the size of the database, in pages.
func (db *DB) Limit(t *testing.T, pages int) {
	t.Helper()
	if err := db.do(t.Context(), func(w *writer) error { return w.conn.Exec(fmt.Sprintf("PRAGMA max_page_count=%d", pages)) }); err != nil {
		t.Fatal(err)
	}
}

// Impatient makes the writer give up at once when the file is locked.
func (db *DB) Impatient(t *testing.T) {
	t.Helper()
	if err := db.do(t.Context(), func(w *writer) error { return w.conn.BusyTimeout(0) }); err != nil {
		t.Fatal(err)
	}
}

// Panic fails in the middle of a transaction that has written something.
func (db *DB) Panic(ctx context.Context) error {
	return db.do(ctx, func(w *writer) error {
		if err := w.run("DELETE FROM event"); err != nil {
			return err
		}
		panic("out of memory")
	})
}

// Stall keeps the lead until released.
func (db *DB) Stall(t *testing.T) (release func()) {
	t.Helper()
	leading, end := make(chan struct{}), make(chan struct{})
	go db.do(context.Background(), func(*writer) error { close(leading); <-end; return nil })
	<-leading
	return func() { close(end) }
}

// Queued waits until n requests are in the queue.
func (db *DB) Queued(t *testing.T, n int) {
	t.Helper()
	for {
		if db.w.queue.Waiting() == n {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the queue never filled")
		}
		runtime.Gosched()
	}
}

// KeepLoose sets for how long vectors are kept that no chunk has.
func (db *DB) KeepLoose(d time.Duration) { db.keepLoose = d }

// Held is what is in memory of the vectors.
func (db *DB) Held() (spaces, bytes int) { return db.spaces.Held() }

// HoldAtMost bounds that.
func (db *DB) HoldAtMost(bytes int) { db.spaces = search.NewSpaces(bytes, time.Hour) }
