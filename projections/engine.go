package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"refold/domain/event"
)

// Projection is a fold of the log into documents. Raising Version builds it
// anew beside the old one.
type Projection struct {
	Name    string
	Version int
	Filter  event.Filter
	Fold    func(v *View, f Fact)
}

// ID names this version of the projection: its checkpoint, and the prefix of
// its collections.
func (p Projection) ID() string { return fmt.Sprintf("%s@%d", p.Name, p.Version) }

// All are the read models of Refold.
func All() []Projection {
	return []Projection{Sessions, History, ToolLog, Runs, Approvals}
}

// Engine keeps projections up to date with the log. Its fields are set before
// Run.
type Engine struct {
	Store     event.Store
	Documents Documents
	Log       *slog.Logger
	List      []Projection

	mu     sync.Mutex
	status map[string]*status
}

type status struct {
	position event.Position
	moved    chan struct{} // closed and replaced when the position moves
	err      error         // why the projection has stopped for good
}

// ErrBehind says that a projection did not reach a position in time.
var ErrBehind = errors.New("the view has not caught up yet")

// Run projects until ctx ends. A projection that breaks stops alone, loudly.
func (e *Engine) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, p := range e.List {
		st := e.stat(p.ID())
		wg.Go(func() {
			err := e.project(ctx, p, st)
			if ctx.Err() != nil {
				return
			}
			e.mu.Lock()
			st.err = err
			close(st.moved)
			st.moved = make(chan struct{})
			e.mu.Unlock()
			e.Log.Error("a projection has stopped; its view is out of date until it is repaired and rebuilt", "projection", p.ID(), "error", err)
		})
	}
	wg.Wait()
}

func (e *Engine) stat(id string) *status {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.status == nil {
		e.status = map[string]*status{}
	}
	if e.status[id] == nil {
		e.status[id] = &status{moved: make(chan struct{})}
	}
	return e.status[id]
}

// Broken lists the projections that have stopped, with the reason.
func (e *Engine) Broken() map[string]error {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := map[string]error{}
	for id, s := range e.status {
		if s.err != nil {
			out[id] = s.err
		}
	}
	return out
}

// Await waits until the projection has folded everything up to pos, or ctx
// ends (ErrBehind), or the projection is broken (its error).
func (e *Engine) Await(ctx context.Context, p Projection, pos event.Position) error {
	st := e.stat(p.ID())
	for {
		e.mu.Lock()
		at, err, moved := st.position, st.err, st.moved
		e.mu.Unlock()
		if at >= pos {
			return nil
		}
		if err != nil {
			return fmt.Errorf("projection %s has stopped: %w", p.ID(), err)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s is at %q, not at %q", ErrBehind, p.ID(), at, pos)
		}
	}
}

// project folds for ever. Only a fold or a stored event that can't be read ends
// it; a store that is away is asked again.
func (e *Engine) project(ctx context.Context, p Projection, st *status) error {
	pause := 50 * time.Millisecond
	for {
		at, err := e.Documents.Checkpoint(ctx, p.ID())
		if err == nil {
			e.moved(st, at)
			err = event.Follow(ctx, e.Store, at, p.Filter, func(batch []event.Raw, upTo event.Position) error {
				if err := e.step(ctx, p, at, batch, upTo); err != nil {
					return err
				}
				at, pause = upTo, 50*time.Millisecond
				e.moved(st, upTo)
				return nil
			})
		}
		var broken *BrokenError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &broken):
			return err
		case errors.Is(err, ErrStale):
			continue // another process was faster: go on from its checkpoint
		}
		e.Log.Warn("projection waits", "projection", p.ID(), "error", err, "again_in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, 5*time.Second)
	}
}

func (e *Engine) moved(st *status, at event.Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at > st.position {
		st.position = at
		close(st.moved)
		st.moved = make(chan struct{})
	}
}

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
	v := &View{ctx: ctx, documents: e.Documents, projection: p.ID(), cache: map[Key]*entry{}}
	for _, raw := range batch {
		f, err := Read(raw)
		if err != nil {
			return &BrokenError{raw.Position, err}
		}
		if err := fold(p, v, f); err != nil {
			return err
		}
	}
	return e.Documents.Commit(ctx, v.batch(p.ID(), from, upTo))
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

// CatchUp folds what the projection has not folded yet, up to the log's present
// end.
func (e *Engine) CatchUp(ctx context.Context, p Projection) error {
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
