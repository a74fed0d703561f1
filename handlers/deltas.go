package handlers

import (
	"context"
	"errors"
	"sync"

	"refold/domain/event"
	"refold/domain/run"
)

// errFenced says that the delta stream was closed under the writer: the run was
// stopped, or another process took the call for lost.
var errFenced = errors.New("the model call was fenced off")

// deltaWriter appends what readers are shown to the transient stream of a model
// call. While one append is on its way, further pieces gather for the next, so
// a slow disk coalesces appends and never blocks the model's stream. What it
// has appended is always a prefix of what the call's closing fact says.
type deltaWriter struct {
	log    event.Log[run.Delta]
	tenant string
	id     string
	newID  func() string
	env    func() event.Envelope

	mu      sync.Mutex
	waiting []run.Segment
	err     error // sticky
	busy    bool
	idle    *sync.Cond
	version int64
}

func newDeltaWriter(log event.Log[run.Delta], tenant, id string, newID func() string, env func() event.Envelope) *deltaWriter {
	w := &deltaWriter{log: log, tenant: tenant, id: id, newID: newID, env: env}
	w.idle = sync.NewCond(&w.mu)
	return w
}

// add takes pieces; errFenced means that nobody will be shown them any more.
func (w *deltaWriter) add(ctx context.Context, segments ...run.Segment) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		if errors.Is(w.err, errFenced) {
			return errFenced
		}
		return nil // a broken disk: readers get the text with the closing fact
	}
	w.waiting = append(w.waiting, segments...)
	if !w.busy {
		w.busy = true
		go w.write(context.WithoutCancel(ctx))
	}
	return nil
}

func (w *deltaWriter) write(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > 0 && w.err == nil {
		batch, version := w.waiting, w.version
		w.waiting = nil
		w.mu.Unlock()
		_, err := w.log.Append(ctx, w.tenant, w.id, event.Exactly(version), w.env(),
			event.Fact[run.Delta]{ID: w.newID(), Event: run.Delta{Segments: batch}})
		w.mu.Lock()
		if errors.Is(err, event.ErrConflict) {
			err = errFenced
		}
		w.err = err
		w.version++
	}
	w.busy = false
	w.idle.Broadcast()
}

// flush waits until everything taken is appended or given up.
func (w *deltaWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy {
		w.idle.Wait()
	}
}
