package projections

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"refold/domain/event"
)

// What the group folds in memory before it is written down. It is lost with the
// process, and folded again from the log.
const (
	// maxHeld is how long a change may wait that nobody waits for. A busy run changes
	// the same documents with each of its facts; so they are written once.
	maxHeld = 250 * time.Millisecond
	// How many facts are folded without a commit, and of how many bytes.
	maxUnsaved      = 1000
	maxUnsavedBytes = 4 << 20

	maxLinger = 250 * time.Millisecond
)

// group are the projections that are kept up to date together, so that a fact is
// read and decoded once for all of them.
type group struct {
	members []*member
	took    time.Duration // by the last pass that folded anything
	held    time.Time     // since when a change has not been stored; zero if all are
}

// together keeps the members of the group up to date.
func (e *Engine) together(ctx context.Context) {
	g := &group{}
	pause := 50 * time.Millisecond
	for ctx.Err() == nil {
		e.mu.Lock()
		g.members = append(g.members, e.joined...)
		e.joined = nil
		e.mu.Unlock()
		if len(g.members) == 0 {
			select {
			case <-e.news:
			case <-ctx.Done():
			}
			continue
		}
		from := g.members[0].at
		for _, m := range g.members {
			from = min(from, m.at)
		}
		batch, upTo, err := e.Store.Scan(ctx, from, event.Filter{}, 0)
		if err == nil {
			err = e.pass(ctx, g, batch, upTo)
		}
		if errors.Is(err, event.ErrCorrupt) { // nothing mends that
			for _, m := range g.members {
				e.broke(ctx, m, broken(err))
			}
			g.members, g.held = nil, time.Time{}
			continue
		}
		if err != nil {
			pause = e.pause(ctx, "all", err, pause)
			continue
		}
		pause = 50 * time.Millisecond
		// One that went back to what another process has stored has more to fold.
		if upTo == from && !slices.ContainsFunc(g.members, func(m *member) bool { return m.at < upTo }) {
			e.gather(ctx, g, from)
		}
	}
}

// pass folds one batch into every member, stores what is due and gives the last
// fault of the store. Commits are begun together, so that the store can make one
// of them.
func (e *Engine) pass(ctx context.Context, g *group, batch []event.Raw, upTo event.Position) error {
	began := time.Now()
	decoded, size := make([]decodedFact, len(batch)), 0
	for i, raw := range batch {
		decoded[i].Fact, decoded[i].err = Read(raw)
		size += len(raw.Data)
	}
	errs := make([]error, len(g.members))
	for i, m := range g.members {
		if m.at >= upTo {
			continue
		}
		if m.view == nil {
			m.view = newView(e.Documents, m.ID())
		}
		m.view.ctx = ctx
		if errs[i] = foldAll(m, m.view, decoded); errs[i] == nil {
			m.at, m.since, m.bytes = upTo, m.since+len(batch), m.bytes+size
			if !m.view.changed() {
				m.view.committed()
			}
		}
	}
	all := g.overdue(began)
	var wg sync.WaitGroup
	for i, m := range g.members {
		if errs[i] != nil || !m.full() && !(m.ahead() && (all || e.wanted(m))) {
			continue
		}
		wg.Go(func() {
			if errs[i] = e.Documents.Commit(ctx, m.view.batch(m.saved, m.at)); errs[i] == nil {
				m.stored()
			}
		})
	}
	wg.Wait()
	fault := e.settle(ctx, g, errs, began)
	g.members = e.switchOver(ctx, g.members, upTo)
	if len(batch) > 0 {
		g.took = time.Since(began)
	}
	return fault
}

// overdue tells whether all that is held is to be stored now: it has waited long
// enough, or a copy of a view is being built, and readers switch between copies
// that are stored.
func (g *group) overdue(now time.Time) bool {
	return !g.held.IsZero() && now.Sub(g.held) >= maxHeld ||
		slices.ContainsFunc(g.members, func(m *member) bool { return m.fresh != nil })
}

// wanted tells whether somebody waits for a view.
func (e *Engine) wanted(m *member) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return m.st.wanted > m.st.position
}

// settle says how far the members have come. One that failed goes back to what is
// stored, or stops.
func (e *Engine) settle(ctx context.Context, g *group, errs []error, now time.Time) (fault error) {
	since := g.held
	if since.IsZero() {
		since = now
	}
	g.held = time.Time{}
	kept := g.members[:0]
	for i, m := range g.members {
		switch {
		case errs[i] == nil && m.ahead():
			g.held = since
		case errs[i] == nil:
			e.moved(m)
		case e.broke(ctx, m, errs[i]):
			continue
		case errors.Is(errs[i], ErrStale): // another process was faster
			if err := e.resume(ctx, m); err != nil {
				m.back(m.saved)
				fault = err
			}
		default:
			m.back(m.saved)
			fault = errs[i]
		}
		kept = append(kept, m)
	}
	g.members = kept
	return fault
}

// gather waits for news, and a little longer for more of it, unless somebody
// waits for a view; or until what is held is to be stored.
func (e *Engine) gather(ctx context.Context, g *group, after event.Position) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- e.Store.Wait(waiting, after) }()
	var demand <-chan struct{}
	var store <-chan time.Time
	if !g.held.IsZero() {
		timer := time.NewTimer(time.Until(g.held.Add(maxHeld)))
		defer timer.Stop()
		demand, store = e.demand, timer.C
	}
	select {
	case err := <-done:
		if err != nil {
			e.pause(ctx, "all", err, 50*time.Millisecond)
			return
		}
	case <-demand:
		return
	case <-store:
		return
	case <-e.news:
		return
	}
	timer := time.NewTimer(max(e.Linger, min(10*g.took, maxLinger)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.demand:
	case <-ctx.Done():
	}
}
