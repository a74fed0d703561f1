package handlers

import (
	"context"
	"errors"
	"sync"
	"time"

	"refold/domain/event"
	"refold/domain/run"
)

// errFenced says that the delta stream was closed under the writer: the run was
// stopped, or another process took the call for lost.
var errFenced = errors.New("the model call was fenced off")

// deltaPace is how long pieces gather before they are appended. A reply that is
// whole by then is shown by its closing fact alone.
const deltaPace = 2 * time.Millisecond

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
	err     error       // sticky
	busy    bool        // an append is on its way
	ended   bool        // what waits is left to the closing fact
	timer   *time.Timer // set while pieces gather
	idle    sync.Cond
	version int64
}

func newDeltaWriter(log event.Log[run.Delta], tenant, id string, newID func() string, env func() event.Envelope) *deltaWriter {
	w := &deltaWriter{log: log, tenant: tenant, id: id, newID: newID, env: env}
	w.idle.L = &w.mu
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
	if !w.busy && w.timer == nil {
		w.timer = time.AfterFunc(deltaPace, func() { w.write(context.WithoutCancel(ctx)) })
	}
	return nil
}

func (w *deltaWriter) write(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = nil
	w.busy = true
	for len(w.waiting) > 0 && w.err == nil && !w.ended {
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

// end waits for the append that is on its way. What was not appended by then is
// shown by the fact that closes the call. It tells whether anything may have been.
func (w *deltaWriter) end() (shown bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil && w.timer.Stop() {
		w.timer = nil
	}
	for w.busy || w.timer != nil {
		w.idle.Wait()
	}
	return w.version > 0 || w.err != nil
}
