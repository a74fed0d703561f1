package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"refold/domain/event"
)

// watched is a store that remembers whether its last append was refused because
// the store itself is in trouble, so that readiness can say so.
type watched struct {
	event.Store
	problem atomic.Pointer[trouble]
	waited  atomic.Pointer[trouble] // why those who follow it could not
	written atomic.Pointer[event.Position]
}

type trouble struct {
	text string
	at   time.Time
}

const (
	// troubleLasts is how long a refused append counts. Nobody appends to a server
	// that is not asked any more because it is not ready.
	troubleLasts = 30 * time.Second
	// answerWait is how soon a store that is well says where its end is.
	answerWait = 2 * time.Second
)

// trouble says what the store suffers from, "" if nothing is known of.
func (w *watched) trouble(ctx context.Context) string {
	if p := w.problem.Load(); p != nil && time.Since(p.at) < troubleLasts {
		return p.text
	}
	bound, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	switch _, err := w.Head(bound); {
	case errors.Is(err, context.DeadlineExceeded):
		text := "the store has not answered for " + answerWait.String()
		if p := w.waited.Load(); p != nil && time.Since(p.at) < troubleLasts {
			text += ": " + p.text
		}
		return text
	case err != nil:
		return err.Error()
	}
	return ""
}

// Append implements event.Store.
func (w *watched) Append(ctx context.Context, stream event.Stream, expect event.Expect, events ...event.New) (event.Appended, error) {
	res, err := w.Store.Append(ctx, stream, expect, events...)
	switch {
	case errors.Is(err, event.ErrUnavailable):
		w.problem.Store(&trouble{err.Error(), time.Now()})
	case err == nil && w.problem.Load() != nil:
		w.problem.Store(nil)
	}
	if err == nil {
		w.wrote(res.Position)
	}
	return res, err
}

// wrote remembers the newest position that this process has written.
func (w *watched) wrote(at event.Position) {
	for {
		old := w.written.Load()
		if old != nil && *old >= at || w.written.CompareAndSwap(old, &at) {
			return
		}
	}
}

// newest is the newest position that this process has written. On a shared
// store it may lie ahead of the head, which waits for others' transactions.
func (w *watched) newest() event.Position {
	if at := w.written.Load(); at != nil {
		return *at
	}
	return ""
}

// Wait implements event.Store.
func (w *watched) Wait(ctx context.Context, after event.Position) error {
	err := w.Store.Wait(ctx, after)
	if errors.Is(err, event.ErrUnavailable) {
		w.waited.Store(&trouble{err.Error(), time.Now()})
	}
	return err
}
