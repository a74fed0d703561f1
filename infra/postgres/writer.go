package postgres

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
)

// A batch takes no more than this, so that nobody waits for ever behind it.
const (
	maxBatchJobs = 512
	maxBatchSize = 4 << 20 // bytes, as jobs count them
)

// batchLockWait is how long a batch waits for a row that another process's
// transaction holds, before its requests go on one by one, each on its own.
const batchLockWait = time.Second

// request is an append on its way through the queue.
type request struct {
	*appendJob
	err   error         // nil if the job has its outcome
	taken bool          // in a batch; cannot be called off any more
	leads bool          // was handed the lead
	wake  chan struct{} // one signal: answered, or handed the lead
}

// writer gathers appends. There is no goroutine behind it: of the callers who
// wait, one leads. It writes what all of them asked for in one transaction, so
// with one flush, and then hands the lead on. A lone caller leads at once and
// pays nothing for it.
type writer struct {
	db *DB

	mu      sync.Mutex
	queue   []*request
	leading bool
	stopped bool
	idle    sync.Cond // leading became false

	// Below: only for the leader.
	conn *pgx.Conn
	last int // jobs in the batch before
	// settled is a number that the position sequence is sure to be past after a
	// crash of the server.
	settled int64
}

func newWriter(db *DB) *writer {
	w := &writer{db: db}
	w.idle.L = &w.mu
	return w
}

// submit queues an append and waits for it. An error says nothing about the
// append's fate, only that the batch has not answered it: the caller goes on
// alone. If ctx ends before the job is in a batch it is called off; after that
// the result is waited for.
func (w *writer) submit(ctx context.Context, j *appendJob) (called bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	r := &request{appendJob: j}
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return false, w.db.errClosed()
	}
	w.queue = append(w.queue, r)
	if w.leading {
		r.wake = make(chan struct{}, 1)
		w.mu.Unlock()
		select {
		case <-r.wake:
		case <-ctx.Done():
			if w.callOff(r) {
				return false, ctx.Err()
			}
			<-r.wake
		}
		if !r.leads {
			return true, r.err
		}
	} else {
		w.leading = true
		w.mu.Unlock()
	}
	w.lead()
	return true, r.err
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

// take cuts a batch off the queue. It holds one append of a stream at most, as
// the second could only be decided after the first.
func (w *writer) take() (batch []*request) {
	size, rest := 0, []*request(nil)
	streams := make(map[event.Stream]bool, min(len(w.queue), maxBatchJobs))
	for _, r := range w.queue {
		if len(batch) > 0 && (len(batch) == maxBatchJobs || size+r.bytes > maxBatchSize || streams[r.stream]) {
			rest = append(rest, r)
			continue
		}
		streams[r.stream] = true
		size += r.bytes
		r.taken = true
		batch = append(batch, r)
	}
	w.queue = rest
	return batch
}

// commit runs a batch in one transaction and sets every request's result.
func (w *writer) commit(batch []*request) {
	jobs := make([]*appendJob, len(batch))
	for i, r := range batch {
		jobs[i] = r.appendJob
	}
	err := w.transact(jobs)
	if err != nil && w.conn != nil && (broken(err) || w.conn.IsClosed()) {
		shut(w.conn)
		w.conn = nil
	}
	for _, r := range batch {
		r.err = err
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
	w.mu.Lock()
	w.stopped = true
	for w.leading {
		w.idle.Wait()
	}
	w.mu.Unlock()
	shut(w.conn)
}
