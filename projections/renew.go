package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"refold/domain"
	"refold/domain/event"
)

// A view is rebuilt while it is read by building a copy beside it: the copy
// folds the whole log alone, joins the projections that are kept up to date
// together, and when both stand at the same position readers switch. Which copy
// is read is a document of its own, so that every process and the next start
// know it.

// pointers is the collection (and checkpoint) of the documents that say which
// copy of a view is read.
const pointers = "views"

// pointer says which copy of a view is read.
type pointer struct {
	Copy string `json:"copy"`
}

// ErrRenewing says that the view is being rebuilt already.
var ErrRenewing = errors.New("this view is being rebuilt already")

// renewal is the building of a copy.
type renewal struct {
	name   string // base id of the view
	events atomic.Int64
	done   chan struct{}
	err    error // after done
}

func (r *renewal) folded(n int) {
	if r != nil {
		r.events.Add(int64(n))
	}
}

func (r *renewal) finish(err error) {
	r.err = err
	close(r.done)
}

// Resolve gives the projection as the copy that is read.
func (e *Engine) Resolve(ctx context.Context, p Projection) (Projection, error) {
	e.init()
	docs, err := e.Documents.Get(ctx, Key{pointers, domain.SystemTenant, p.Base()})
	if err != nil {
		return p, fmt.Errorf("which copy of %s is read: %w", p.Base(), err)
	}
	id := p.Base()
	if len(docs) == 1 {
		var to pointer
		if err := json.Unmarshal(docs[0].Body, &to); err != nil {
			return p, fmt.Errorf("%w: which copy of %s is read: %v", event.ErrCorrupt, p.Base(), err)
		}
		id = to.Copy
	}
	e.mu.Lock()
	e.views[p.Base()] = id
	e.mu.Unlock()
	return p.as(id), nil
}

// Renew rebuilds a view while it is read, and gives a function that waits for
// the end; progress is in Building. The old copy is deleted after the switch.
func (e *Engine) Renew(ctx context.Context, p Projection) (wait func(context.Context) error, err error) {
	p, err = e.Resolve(ctx, p)
	if err != nil {
		return nil, err
	}
	r := &renewal{name: p.Base(), done: make(chan struct{})}
	e.mu.Lock()
	if e.renewing == nil {
		e.renewing = map[string]*renewal{}
	}
	if e.renewing[r.name] != nil {
		e.mu.Unlock()
		return nil, ErrRenewing
	}
	e.renewing[r.name] = r
	e.mu.Unlock()
	_, n, _ := strings.Cut(p.ID(), "#")
	copied := fmt.Sprintf("%s#%d", p.Base(), atoi(n)+1)
	m := &member{Projection: p.as(copied), st: &status{moved: make(chan struct{})}, fresh: r}
	go func() {
		err := e.Documents.Drop(ctx, copied) // what an earlier, unfinished try has left
		if err == nil {
			e.catchUp(ctx, m)
			err = ctx.Err()
		}
		if err != nil {
			e.endRenewal(r, err)
		}
	}()
	return func(ctx context.Context) error {
		select {
		case <-r.done:
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

func atoi(s string) (n int) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func (e *Engine) endRenewal(r *renewal, err error) {
	e.mu.Lock()
	delete(e.renewing, r.name)
	e.mu.Unlock()
	r.finish(err)
}

// Building tells, for each view that is being rebuilt, how many events its copy
// has folded.
func (e *Engine) Building() map[string]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := map[string]int64{}
	for name, r := range e.renewing {
		out[name] = r.events.Load()
	}
	return out
}

// switchOver makes readers read the copies that stand where the old ones stand,
// and takes the old ones out of the group. A fault is tried again after the next
// pass.
func (e *Engine) switchOver(ctx context.Context, group []*member, at event.Position) []*member {
	for _, m := range group {
		if m.fresh == nil || m.at != at {
			continue
		}
		i := slices.IndexFunc(group, func(o *member) bool { return o.fresh == nil && o.Base() == m.Base() && o.at == at })
		if i < 0 {
			continue
		}
		old := group[i]
		if err := e.point(ctx, m.Projection); err != nil {
			if ctx.Err() == nil {
				e.Log.Warn("switch to the new copy of a view; tried again", "projection", m.ID(), "error", err)
			}
			continue
		}
		r := m.fresh
		m.fresh, m.st = nil, old.st
		group = slices.Delete(group, i, i+1)
		go func() {
			// Readers that are in the old copy get an empty page at worst, for the
			// length of one request; the cursor of a walk is refused.
			e.endRenewal(r, e.Documents.Drop(ctx, old.ID()))
		}()
		return e.switchOver(ctx, group, at)
	}
	return group
}

// point writes which copy is read.
func (e *Engine) point(ctx context.Context, p Projection) error {
	from, err := e.Documents.Checkpoint(ctx, pointers)
	if err != nil {
		return err
	}
	to := event.Position(fmt.Sprintf("%016d", atoi(string(from))+1))
	body, err := json.Marshal(pointer{p.ID()})
	if err != nil {
		return err
	}
	doc := Document{Key: Key{pointers, domain.SystemTenant, p.Base()}, Body: body}
	if err := e.Documents.Commit(ctx, Batch{Projection: pointers, From: from, To: to, Put: []Document{doc}}); err != nil {
		return err
	}
	e.mu.Lock()
	e.views[p.Base()] = p.ID()
	e.mu.Unlock()
	return nil
}

// Reading gives the documents as readers see them: collections are named by the
// view, whichever copy of it is read.
func (e *Engine) Reading() Documents { return reading{e.Documents, e} }

type reading struct {
	Documents
	engine *Engine
}

// Get implements Documents.
func (r reading) Get(ctx context.Context, keys ...Key) ([]Document, error) {
	copied := slices.Clone(keys)
	for i := range copied {
		copied[i].Collection = r.engine.collection(copied[i].Collection)
	}
	return r.Documents.Get(ctx, copied...)
}

// Find implements Documents.
func (r reading) Find(ctx context.Context, q Query) (Page, error) {
	q.Collection = r.engine.collection(q.Collection)
	return r.Documents.Find(ctx, q)
}

func (e *Engine) collection(name string) string {
	base, rest, dotted := strings.Cut(name, ".")
	e.mu.Lock()
	id, known := e.views[base]
	e.mu.Unlock()
	if !known {
		return name
	}
	if dotted {
		return id + "." + rest
	}
	return id
}
