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
	return []Projection{Sessions, History, ToolLog, Runs, Approvals, Keys, Tenants, Search, Usage, References, Bases, Library, FAQEntries, Imports}
}

// Engine keeps projections up to date with the log. Its fields are set before
// Run.
type Engine struct {
	Store     event.Store
	Documents Documents
	Log       *slog.Logger
	List      []Projection
	// Linger is how long news may gather before it is folded, so that a busy run
	// does not cost a commit for each of its events; whoever waits for a view ends
	// it. 0 = 10 ms. Where folding takes long it is up to ten times as long as the
	// last pass took, at most maxLinger: projecting that nobody waits for takes a
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
	position event.Position
	moved    chan struct{} // closed and replaced when the position moves
	err      error         // why the projection has stopped for good
}

const (
	maxLinger = 250 * time.Millisecond
	// maxUnsaved is how many facts that change nothing are folded without a
	// commit. They are folded again after a restart.
	maxUnsaved = 500
)

// member is a projection that is being kept up to date.
type member struct {
	Projection
	at    event.Position
	saved event.Position // the stored checkpoint: behind at while nothing changes
	since int            // facts folded after saved
	st    *status
	fresh *renewal // set while this is a copy that is being built
	view  *View    // documents at the checkpoint; nil after anything but a commit of ours
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
				e.moved(m, upTo)
				m.saved = upTo
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
		e.moved(m, at)
		m.at, m.saved, m.since = at, at, 0
	}
	return err
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

// together keeps the members of the group up to date.
func (e *Engine) together(ctx context.Context) {
	var group []*member
	var took time.Duration
	pause := 50 * time.Millisecond
	for ctx.Err() == nil {
		e.mu.Lock()
		group = append(group, e.joined...)
		e.joined = nil
		e.mu.Unlock()
		if len(group) == 0 {
			select {
			case <-e.news:
			case <-ctx.Done():
			}
			continue
		}
		from := group[0].at
		for _, m := range group {
			from = min(from, m.at)
		}
		batch, upTo, err := e.Store.Scan(ctx, from, event.Filter{}, 0)
		if err != nil {
			pause = e.pause(ctx, "all", err, pause)
			continue
		}
		if upTo == from {
			group = e.switchOver(ctx, group, from)
			e.gather(ctx, from, max(e.Linger, min(10*took, maxLinger)))
			continue
		}
		began := time.Now()
		failed := e.pass(ctx, &group, batch, upTo)
		took = time.Since(began)
		if failed == nil {
			pause = 50 * time.Millisecond
			continue
		}
		pause = e.pause(ctx, "all", failed, pause)
	}
}

// pass folds one batch into every member and gives the last fault of the store.
// Commits are begun together, so that the store can make one of them.
func (e *Engine) pass(ctx context.Context, group *[]*member, batch []event.Raw, upTo event.Position) error {
	decoded := make([]decodedFact, len(batch))
	for i, raw := range batch {
		decoded[i].Fact, decoded[i].err = Read(raw)
	}
	errs := make([]error, len(*group))
	var wg sync.WaitGroup
	for i, m := range *group {
		if m.at >= upTo {
			continue
		}
		v := m.view
		if m.view = nil; v == nil || v.projection != m.ID() {
			v = newView(e.Documents, m.ID())
		}
		v.ctx = ctx
		if errs[i] = foldAll(m, v, decoded); errs[i] != nil {
			continue
		}
		if m.since += len(batch); !m.Exact && !v.changed() && m.since < maxUnsaved {
			v.committed()
			m.view = v
			continue
		}
		wg.Go(func() {
			if errs[i] = e.Documents.Commit(ctx, v.batch(m.saved, upTo)); errs[i] == nil {
				v.committed()
				m.view, m.saved, m.since = v, upTo, 0
			}
		})
	}
	wg.Wait()
	var fault error
	kept := (*group)[:0]
	for i, m := range *group {
		switch {
		case errs[i] == nil:
			if m.at < upTo {
				e.moved(m, upTo)
			}
		case errors.Is(errs[i], ErrStale): // another process was faster
			if err := e.resume(ctx, m); err != nil {
				fault = err
			}
		case e.broke(ctx, m, errs[i]):
			continue
		default:
			fault = errs[i]
		}
		kept = append(kept, m)
	}
	*group = e.switchOver(ctx, kept, upTo)
	return fault
}

type decodedFact struct {
	Fact
	err error
}

func foldAll(m *member, v *View, facts []decodedFact) error {
	for _, f := range facts {
		if f.Position <= m.at || !m.Filter.Match(f.Stream) {
			continue
		}
		if f.err != nil {
			return &BrokenError{f.Position, f.err}
		}
		if err := fold(m.Projection, v, f.Fact); err != nil {
			return err
		}
	}
	return nil
}

// gather waits for news, and a little longer for more of it, unless somebody
// waits for a view.
func (e *Engine) gather(ctx context.Context, after event.Position, linger time.Duration) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- e.Store.Wait(waiting, after) }()
	select {
	case err := <-done:
		if err != nil {
			e.pause(ctx, "all", err, 50*time.Millisecond)
			return
		}
	case <-e.news:
		return
	}
	timer := time.NewTimer(linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.demand:
	case <-ctx.Done():
	}
}

func (e *Engine) moved(m *member, at event.Position) {
	m.at = at
	e.mu.Lock()
	defer e.mu.Unlock()
	if at > m.st.position {
		m.st.position = at
		close(m.st.moved)
		m.st.moved = make(chan struct{})
	}
}
