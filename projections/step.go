package projections

import (
	"context"
	"fmt"
	"runtime/debug"

	"refold/domain/event"
)

// BrokenError says at which event a fold broke.
type BrokenError struct {
	Position event.Position
	Cause    error
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("fold broke at event %s: %v", e.Position, e.Cause)
}

// Unwrap gives the cause.
func (e *BrokenError) Unwrap() error { return e.Cause }

// step folds one batch and commits documents and checkpoint together.
func (e *Engine) step(ctx context.Context, p Projection, from event.Position, batch []event.Raw, upTo event.Position) error {
	v := newView(e.Documents, p.ID())
	v.ctx = ctx
	for _, raw := range batch {
		f, err := Read(raw)
		if err != nil {
			return &BrokenError{raw.Position, err}
		}
		if err := fold(p, v, f); err != nil {
			return err
		}
	}
	return e.Documents.Commit(ctx, v.batch(from, upTo))
}

// fold runs the fold of one event. A failing read of a document is the store's
// fault and passed on; a panic is the fold's.
func fold(p Projection, v *View, f Fact) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if failed, ok := r.(readFailed); ok {
				err = failed.err
				return
			}
			err = &BrokenError{f.Position, fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
		}
	}()
	p.Fold(v, f)
	return nil
}
