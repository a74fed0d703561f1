package app

import (
	"context"
	"errors"
	"sync/atomic"

	"refold/domain/event"
)

// watched is a store that remembers whether its last append was refused because
// the store itself is in trouble, so that readiness can say so.
type watched struct {
	event.Store
	problem atomic.Pointer[string]
}

// Append implements event.Store.
func (w *watched) Append(ctx context.Context, stream event.Stream, expect event.Expect, events ...event.New) (event.Appended, error) {
	res, err := w.Store.Append(ctx, stream, expect, events...)
	switch {
	case errors.Is(err, event.ErrUnavailable):
		text := err.Error()
		w.problem.Store(&text)
	case err == nil && w.problem.Load() != nil:
		w.problem.Store(nil)
	}
	return res, err
}
