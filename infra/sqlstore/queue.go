package sqlstore

import (
	"context"
	"runtime"
	"sync"
)

// A batch takes no more than this, so that nobody waits for ever behind it.
const (
	MaxBatchJobs = 512
	MaxBatchSize = 4 << 20 // bytes, as jobs count them
)

// Request is a job on its way through a queue.
type Request[J any] struct {
	Job J
	Err error // what the caller is answered; Commit sets it

	taken bool          // in a batch; cannot be called off any more
	leads bool          // was handed the lead
	wake  chan struct{} // one signal: answered, or handed the lead
}

// Queue gathers jobs that share a commit. There is no goroutine behind it: of
// the callers who wait, one leads. It commits what all of them asked for at once,
// so with one flush, and then hands the lead on. A lone caller leads at once and
// pays nothing for it. The fields are set before the first Submit.
type Queue[J any] struct {
	// Commit runs a batch, in order. One batch at a time.
	Commit func(batch []*Request[J])
	// Size is roughly what a job writes, in bytes.
	Size func(J) int
	// Key, if set, names what a job is about: a batch holds one job of a key at
	// most, as the second could only be decided after the first.
	Key func(J) any

	mu      sync.Mutex
	queue   []*Request[J]
	leading bool
	stopped bool
	idle    *sync.Cond // leading became false
	last    int        // jobs in the batch before; for the leader
}

// Submit queues a job and waits for its answer. If ctx ends before the job is in
// a batch it is called off, and ran is false; after that the answer is waited
// for. After Stop nothing runs any more: ran is false, and there is no error.
func (q *Queue[J]) Submit(ctx context.Context, job J) (ran bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	r := &Request[J]{Job: job}
	q.mu.Lock()
	if q.stopped {
		q.mu.Unlock()
		return false, nil
	}
	q.queue = append(q.queue, r)
	if q.leading {
		r.wake = make(chan struct{}, 1)
		q.mu.Unlock()
		select {
		case <-r.wake:
		case <-ctx.Done():
			if q.callOff(r) {
				return false, ctx.Err()
			}
			<-r.wake
		}
		if !r.leads {
			return true, r.Err
		}
	} else {
		q.leading = true
		q.mu.Unlock()
	}
	q.lead()
	return true, r.Err
}

// callOff takes a request out of the queue if it is still in it and not about
// to lead.
func (q *Queue[J]) callOff(r *Request[J]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.taken || r.leads {
		return false
	}
	for i, other := range q.queue {
		if other == r {
			q.queue = append(q.queue[:i], q.queue[i+1:]...)
			return true
		}
	}
	return false
}

// lead runs one batch, which begins with the leader's own request, answers it
// and hands the lead on.
func (q *Queue[J]) lead() {
	if q.last > 1 {
		// The callers of the batch before were just woken and are about to ask
		// again. Let them: otherwise every second batch would hold one job.
		for range 3 {
			if q.Waiting() >= q.last {
				break
			}
			runtime.Gosched()
		}
	}
	q.mu.Lock()
	batch := q.take()
	q.mu.Unlock()

	q.Commit(batch)
	q.last = len(batch)

	for _, r := range batch[1:] { // the first is the leader's own
		r.wake <- struct{}{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) > 0 {
		next := q.queue[0]
		next.leads = true
		next.wake <- struct{}{}
		return
	}
	q.leading = false
	if q.idle != nil {
		q.idle.Broadcast()
	}
}

// take cuts a batch off the queue. What does not fit keeps its place.
func (q *Queue[J]) take() (batch []*Request[J]) {
	size, rest := 0, []*Request[J](nil)
	var keys map[any]bool
	if q.Key != nil {
		keys = make(map[any]bool, min(len(q.queue), MaxBatchJobs))
	}
	for i, r := range q.queue {
		if len(batch) == MaxBatchJobs {
			rest = append(rest, q.queue[i:]...)
			break
		}
		n, key := q.Size(r.Job), any(nil)
		if q.Key != nil {
			key = q.Key(r.Job)
		}
		if len(batch) > 0 && (size+n > MaxBatchSize || keys[key]) {
			rest = append(rest, r)
			continue
		}
		if keys != nil {
			keys[key] = true
		}
		size += n
		r.taken = true
		batch = append(batch, r)
	}
	q.queue = rest
	return batch
}

// Waiting is how many jobs are in no batch yet.
func (q *Queue[J]) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

// Idle calls fn while nobody leads, and tells whether it did.
func (q *Queue[J]) Idle(fn func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.leading {
		return false
	}
	fn()
	return true
}

// Stop refuses new jobs and waits until the queued ones are answered.
func (q *Queue[J]) Stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	if q.idle == nil {
		q.idle = sync.NewCond(&q.mu)
	}
	for q.leading {
		q.idle.Wait()
	}
}
