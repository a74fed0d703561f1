package projections

import (
	"context"
	"fmt"

	"refold/domain/event"
)

// CatchUp folds what the projection has not folded yet, up to the log's present
// end.
func (e *Engine) CatchUp(ctx context.Context, p Projection) error {
	p, err := e.Resolve(ctx, p)
	if err != nil {
		return err
	}
	at, err := e.Documents.Checkpoint(ctx, p.ID())
	if err != nil {
		return err
	}
	return e.foldTo(ctx, p, at, func(int) {})
}

// Rebuild folds the whole log again, up to its present end, in place of the old
// documents, and calls progress after each batch with the number of events
// folded. Nobody may project or read meanwhile.
func (e *Engine) Rebuild(ctx context.Context, p Projection, progress func(events int)) error {
	p, err := e.Resolve(ctx, p)
	if err != nil {
		return err
	}
	if err := e.Documents.Drop(ctx, p.ID()); err != nil {
		return fmt.Errorf("drop %s: %w", p.ID(), err)
	}
	return e.foldTo(ctx, p, "", progress)
}

func (e *Engine) foldTo(ctx context.Context, p Projection, at event.Position, progress func(events int)) error {
	end, err := e.Store.Head(ctx)
	if err != nil {
		return err
	}
	total := 0
	for at < end {
		batch, upTo, err := e.Store.Scan(ctx, at, p.Filter, 1000)
		if err != nil {
			return err
		}
		if upTo == at {
			return nil
		}
		if err := e.step(ctx, p, at, batch, upTo); err != nil {
			return fmt.Errorf("fold %s: %w", p.ID(), err)
		}
		total += len(batch)
		at = upTo
		progress(total)
	}
	return nil
}
