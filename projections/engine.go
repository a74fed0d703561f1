package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// Exact: its stored checkpoint is read as a promise, and follows also the facts
	// that change nothing.
	Exact bool

	copy string // id of a copy that was built beside the first one, "" for that
}

// ID names this version of the projection: its checkpoint, and the prefix of
// its collections.
func (p Projection) ID() string {
	if p.copy != "" {
		return p.copy
	}
	return p.Base()
}

// Base is the ID of the first copy of this version.
func (p Projection) Base() string { return fmt.Sprintf("%s@%d", p.Name, p.Version) }

// as gives the projection with another copy's id.
func (p Projection) as(id string) Projection {
	p.copy = id
	return p
}

// All are the read models of Refold.
func All() []Projection {
	return []Projection{Sessions, History, ToolLog, Runs, Approvals, Keys, Tenants, Search, Usage, References, Bases, Library, FAQEntries, Imports, Transfers}
}

// Engine keeps projections up to date with the log. Its fields are set before
// Run.
type Engine struct {
	Store     event.Store
	Documents Documents
	Log       *slog.Logger
	List      []Projection
	// Linger is how long news may gather before it is folded; whoever waits for a
	// view ends it. 0 = 10 ms. Where folding takes long it is up to ten times as long
	// as the last pass took, at most maxLinger: folding that nobody waits for takes a
	// tenth of a core.
	Linger time.Duration

	mu       sync.Mutex
	views    map[string]string // base -> id of the copy that is read
	renewing map[string]*renewal
	status   map[string]*status
	joined   []*member     // caught up, to be taken into the group
	news     chan struct{} // somebody joined
	demand   chan struct{} // somebody waits for a view
}

type status struct {
	position event.Position // what is stored is the fold of everything up to it
	wanted   event.Position // the last one that anybody has waited for
	moved    chan struct{}  // closed and replaced when the position moves
	err      error          // why the projection has stopped for good
}

// ErrBehind says that a projection did not reach a position in time.
var ErrBehind = errors.New("the view has not caught up yet")

func (e *Engine) init() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.status == nil {
		e.views = map[string]string{}
		e.status, e.news, e.demand = map[string]*status{}, make(chan struct{}, 1), make(chan struct{}, 1)
	}
	if e.Linger == 0 {
		e.Linger = 10 * time.Millisecond
	}
}

func (e *Engine) stat(id string) *status {
	e.init()
	e.mu.Lock()
	defer e.mu.Unlock()
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

// Folded is the place up to which this process knows the projection to be folded.
func (e *Engine) Folded(p Projection) event.Position {
	st := e.stat(p.Base())
	e.mu.Lock()
	defer e.mu.Unlock()
	return st.position
}

// Await waits until the projection has folded everything up to pos, or ctx
// ends (ErrBehind), or the projection is broken (its error).
func (e *Engine) Await(ctx context.Context, p Projection, pos event.Position) error {
	st := e.stat(p.Base())
	for {
		e.mu.Lock()
		at, err, moved := st.position, st.err, st.moved
		st.wanted = max(st.wanted, pos)
		e.mu.Unlock()
		if at >= pos {
			return nil
		}
		if err != nil {
			return fmt.Errorf("projection %s has stopped: %w", p.ID(), err)
		}
		signal(e.demand)
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s is at %q, not at %q", ErrBehind, p.ID(), at, pos)
		}
	}
}

// AwaitAll waits for every projection, as Await does for one. All are asked for at
// once, so that they can be stored together.
func (e *Engine) AwaitAll(ctx context.Context, pos event.Position) error {
	for _, p := range e.List {
		st := e.stat(p.Base())
		e.mu.Lock()
		st.wanted = max(st.wanted, pos)
		e.mu.Unlock()
	}
	var errs []error
	for _, p := range e.List {
		errs = append(errs, e.Await(ctx, p, pos))
	}
	return errors.Join(errs...)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run projects until ctx ends. Each projection first catches up alone; those
// that have are kept up to date together, so that an event is read and decoded
// once for all of them. One that breaks stops alone, loudly.
func (e *Engine) Run(ctx context.Context) {
	e.init()
	var wg sync.WaitGroup
	for _, p := range e.List {
		m := &member{Projection: p, st: e.stat(p.Base())}
		wg.Go(func() { e.catchUp(ctx, m) })
	}
	e.together(ctx)
	wg.Wait()
}

// catchUp folds alone up to the present end of the log, and joins the group.
func (e *Engine) catchUp(ctx context.Context, m *member) {
	pause := 50 * time.Millisecond
	for ctx.Err() == nil {
		err := e.resume(ctx, m)
		for err == nil {
			var batch []event.Raw
			var upTo event.Position
			if batch, upTo, err = e.Store.Scan(ctx, m.at, m.Filter, 0); err != nil {
				if errors.Is(err, event.ErrCorrupt) {
					err = broken(err)
				}
				break
			}
			if upTo == m.at {
				e.mu.Lock()
				e.joined = append(e.joined, m)
				e.mu.Unlock()
				signal(e.news)
				return
			}
			if err = e.step(ctx, m.Projection, m.at, batch, upTo); err == nil {
				m.back(upTo)
				e.moved(m)
				m.fresh.folded(len(batch))
				pause = 50 * time.Millisecond
			}
		}
		if errors.Is(err, ErrStale) { // another process was faster, so there is nothing to wait for
			continue
		}
		if e.broke(ctx, m, err) {
			return
		}
		pause = e.pause(ctx, m.ID(), err, pause)
	}
}

// resume takes the stored checkpoint, which another process may have moved.
func (e *Engine) resume(ctx context.Context, m *member) error {
	if m.fresh == nil {
		p, err := e.Resolve(ctx, m.Projection)
		if err != nil {
			return err
		}
		m.Projection = p
	}
	at, err := e.Documents.Checkpoint(ctx, m.ID())
	if err == nil {
		m.back(at)
		e.moved(m)
	}
	return err
}

// broken is a log that can't be read as a fault of who folds it.
func broken(err error) *BrokenError {
	var damaged *event.DamagedError
	if errors.As(err, &damaged) {
		return &BrokenError{damaged.Position, err}
	}
	return &BrokenError{"", err}
}

// broke tells whether a projection has stopped for good, and says so.
func (e *Engine) broke(ctx context.Context, m *member, err error) bool {
	var broken *BrokenError
	if ctx.Err() != nil || !errors.As(err, &broken) {
		return false
	}
	e.mu.Lock()
	m.st.err = err
	close(m.st.moved)
	m.st.moved = make(chan struct{})
	e.mu.Unlock()
	if m.fresh != nil {
		e.endRenewal(m.fresh, err)
	}
	e.Log.Error("a projection has stopped; its view is out of date until it is repaired and rebuilt", "projection", m.ID(), "error", err)
	return true
}

// pause waits after a fault of the store and gives the next, longer pause.
func (e *Engine) pause(ctx context.Context, who string, err error, d time.Duration) time.Duration {
	if ctx.Err() != nil {
		return d
	}
	e.Log.Warn("projecting waits", "projection", who, "error", err, "again_in", d)
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return min(2*d, 5*time.Second)
}

// moved says that what is stored of a view is its fold up to where it has come.
func (e *Engine) moved(m *member) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m.at > m.st.position {
		m.st.position = m.at
		close(m.st.moved)
		m.st.moved = make(chan struct{})
	}
}
