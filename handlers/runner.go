package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
)

// Toolbox runs tools. handlers/tools.Box implements it.
type Toolbox interface {
	// Hash is the hash of the tool's current definition, "" if there is none.
	Hash(name string) string
	// Invoke runs a call of the named tool and never fails: everything that goes
	// wrong is in the outcome. It obeys ctx. limit is the number of runes that the
	// model may see, 0 = the tool's own.
	Invoke(ctx context.Context, name string, call tool.Call, limit int) ToolOutcome
	// CleanRun releases what tools hold for a run.
	CleanRun(ctx context.Context, runID string)
}

// ToolOutcome is what a tool answered. Output is what the model reads, cut to
// the limit; Full is the whole text if Output is not.
type ToolOutcome struct {
	Success   bool
	Output    string
	Full      string
	Truncated bool
	Error     string
	Data      json.RawMessage
	Abandoned bool // the tool ignored its deadline: what it did is unknown
}

// Models gives a model by the name that an agent's configuration uses; "" is
// the default one. An unknown name is a *ModelError with code not_configured.
type Models interface {
	Model(name string) (Model, error)
}

// Runner keeps open runs moving: one goroutine per run that has work, none per
// run that waits. Its exported fields are set before Run.
type Runner struct {
	Commands *commands.Commands
	Store    event.Store
	Models   Models
	Tools    Toolbox
	Blobs    Blobs
	Tokens   TokenCounter // nil = a rough estimate
	Clock    Clock
	Log      *slog.Logger
	Self     string // this process's instance id, the owner of its claims
	Sole     bool   // no other process works on this log
	// Vision tells which models, by their configured names, can be shown images;
	// nil = none. Describer is the model that describes them to the others, ""
	// = none does.
	Vision    func(model string) bool
	Describer string
	// Plain tells which models, by their configured names, can't rewrite a question;
	// nil = all can.
	Plain func(model string) bool
	// Drain bounds how long a tool with side effects may go on after the runner
	// was told to end; 0 = 10 s.
	Drain time.Duration

	gone   atomic.Pointer[[]string]
	mu     sync.Mutex
	ctx    context.Context // of the work of the present Run
	early  []OpenRun       // woken before Run
	actors map[runKey]*actor
	parked map[runKey]parking
	ending chan struct{} // closed when no new work is begun
	work   sync.WaitGroup
}

type runKey struct{ tenant, run string }

// parking is a run that waits: for a person, or for a time. It is data.
type parking struct {
	session string
	version int64
	why     string // what it waits for, "" if the record says so
	missing string // of that: why its model can't be asked by this process
	cancel  func()
}

// OpenRun names a run that may have work.
type OpenRun struct{ Tenant, Session, Run string }

// Run follows the log from a position and works until ctx ends; then it hands
// back what can be handed back and returns. resume are runs that were open at
// that position.
func (r *Runner) Run(ctx context.Context, from event.Position, resume []OpenRun) error {
	r.mu.Lock()
	r.actors, r.parked, r.ending = map[runKey]*actor{}, map[runKey]parking{}, make(chan struct{})
	r.mu.Unlock()
	if r.Drain == 0 {
		r.Drain = 10 * time.Second
	}
	// Work outlives ctx by the drain time: what was done must be reported.
	workCtx, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	r.mu.Lock()
	r.ctx = workCtx
	r.mu.Unlock()
	r.mu.Lock()
	resume = append(resume, r.early...)
	r.early = nil
	r.mu.Unlock()
	for _, o := range resume {
		r.wake(workCtx, runKey{o.Tenant, o.Run}, o.Session, 0)
	}
	err := r.follow(ctx, workCtx, from)
	close(r.ending)
	r.mu.Lock()
	for _, p := range r.parked {
		p.cancel()
	}
	r.mu.Unlock()
	r.work.Wait()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// follow turns facts into wake-ups. A failing store is asked again, for ever:
// the log is what the runner is for.
func (r *Runner) follow(ctx, workCtx context.Context, from event.Position) error {
	pause := 50 * time.Millisecond
	for {
		err := event.Follow(ctx, r.Store, from, event.Filter{Categories: []string{session.Category, run.Category}},
			func(batch []event.Raw, upTo event.Position) error {
				for _, raw := range batch {
					r.notice(workCtx, raw)
				}
				from, pause = upTo, 50*time.Millisecond
				return nil
			})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Log.Error("follow the log", "error", err, "again_in", pause)
		if !r.sleep(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// SetGone tells which instances are known to be gone: their claims are void.
func (r *Runner) SetGone(ids []string) { r.gone.Store(&ids) }

// Wake makes sure that somebody looks at a run, for example because the owner of
// its claim is gone. Before Run it is noted for then.
func (r *Runner) Wake(o OpenRun) {
	r.mu.Lock()
	ctx := r.ctx
	if ctx == nil {
		r.early = append(r.early, o)
	}
	r.mu.Unlock()
	if ctx != nil {
		r.wake(ctx, runKey{o.Tenant, o.Run}, o.Session, 0)
	}
}

// notice wakes the run that a fact gives work to.
func (r *Runner) notice(ctx context.Context, raw event.Raw) {
	if raw.Stream.Category == session.Category {
		if raw.Type != "MessagePosted" {
			return
		}
		rec, err := event.Record(session.Codec, raw)
		if err != nil {
			r.Log.Error("a posted message can't be read; its run is not started", "tenant", raw.Stream.Tenant, "session", raw.Stream.ID, "request", raw.Meta.Trace, "error", err)
			return
		}
		if m, ok := rec.Event.(session.MessagePosted); ok {
			r.wake(ctx, runKey{raw.Stream.Tenant, m.Run}, raw.Stream.ID, 0)
		}
		return
	}
	key := runKey{raw.Stream.Tenant, raw.Stream.ID}
	switch raw.Type {
	case "RunCompleted", "RunFailed", "RunStopped":
		r.TakeQueued(ctx, raw.Stream.Tenant, raw.Meta.Correlation)
		r.unpark(key)
	}
	switch raw.Type {
	case "RunStarted", "ApprovalResolved", "ToolOutcomeUnknown", "ModelCallFailed", "RunStopped":
		r.wake(ctx, key, raw.Meta.Correlation, raw.Version)
	default:
		r.mu.Lock()
		a := r.actors[key]
		r.mu.Unlock()
		if a != nil {
			a.poke(raw.Version)
		}
	}
}

// wake makes sure that somebody looks at the run. A fact that a waiting run has
// already folded (version not newer) does not disturb it.
func (r *Runner) wake(ctx context.Context, key runKey, sessionID string, version int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.ending:
		return
	default:
	}
	if a := r.actors[key]; a != nil {
		a.poke(version)
		return
	}
	if p, ok := r.parked[key]; ok {
		if version > 0 && version <= p.version {
			return
		}
		p.cancel()
		delete(r.parked, key)
	}
	a := &actor{runner: r, key: key, session: sessionID, woken: make(chan struct{}, 1)}
	r.actors[key] = a
	r.work.Add(1)
	go func() {
		defer r.work.Done()
		a.run(ctx)
	}()
}

// leave is called by an actor with nothing to do. It fails if the actor has
// been woken meanwhile. p says what the run waits for; next, if not zero, is
// when it wakes by itself.
func (r *Runner) leave(ctx context.Context, a *actor, waiting bool, p parking, next time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-a.woken:
		if a.seen.Load() > a.version() {
			return false
		}
	default:
	}
	delete(r.actors, a.key)
	if !waiting {
		return true
	}
	p.session, p.version, p.cancel = a.session, a.version(), func() {}
	if !next.IsZero() {
		key, id := a.key, a.session // not the actor: its state would wait with the timer
		p.cancel = r.Clock.AfterFunc(max(0, next.Sub(r.Clock.Now())), func() { r.wake(ctx, key, id, 0) })
	}
	r.parked[a.key] = p
	return true
}

// unpark forgets a waiting run that is over.
func (r *Runner) unpark(key runKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.parked[key]; ok {
		p.cancel()
		delete(r.parked, key)
	}
}

// Parked counts the runs that wait as data.
func (r *Runner) Parked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.parked)
}

// WaitsFor says what a run waits for that the record does not say: the time of
// the next attempt at its model, or a model that this process does not have. ""
// if it does not wait here.
func (r *Runner) WaitsFor(tenant, runID string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.parked[runKey{tenant, runID}].why
}

// Missing counts the runs that wait for a model that this process does not have,
// by what is said of the model.
func (r *Runner) Missing() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]int{}
	for _, p := range r.parked {
		if p.missing != "" {
			out[p.missing]++
		}
	}
	return out
}

// Others counts the runs but one that this process moves, also those that wait.
func (r *Runner) Others(tenant, runID string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, own := len(r.actors), runKey{tenant, runID}
	if r.actors[own] != nil {
		n--
	}
	for k := range r.parked {
		if k != own && r.actors[k] == nil {
			n++
		}
	}
	return n
}

// Active counts the runs that have a goroutine.
func (r *Runner) Active() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.actors)
}

func (r *Runner) counter() TokenCounter {
	if r.Tokens == nil {
		return roughly{}
	}
	return r.Tokens
}

// sleep waits for d, the end of ctx, or the end of the runner; false means that
// it was not the time that came.
func (r *Runner) sleep(ctx context.Context, d time.Duration) bool {
	done := make(chan struct{})
	stop := r.Clock.AfterFunc(d, func() { close(done) })
	defer stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	case <-r.ending:
		return false
	}
}

// SweepDeltas deletes transient streams of runs that are over, which a crash
// may have left behind.
func (r *Runner) SweepDeltas(ctx context.Context) error {
	var after event.Position
	seen := map[event.Stream]bool{}
	for {
		batch, upTo, err := r.Store.Scan(ctx, after, event.Filter{Categories: []string{event.CategoryDelta}}, 1000)
		if err != nil {
			return fmt.Errorf("look for left-over deltas: %w", err)
		}
		for _, raw := range batch {
			seen[raw.Stream] = true
		}
		if upTo == after || len(batch) == 0 {
			break
		}
		after = upTo
	}
	for stream := range seen {
		id := run.DeltaRun(stream.ID)
		o, err := r.Commands.OpenRun(ctx, stream.Tenant, id)
		if err != nil {
			return err
		}
		if o.State.Begun() && !o.State.Over() {
			continue
		}
		if err := r.Store.Trim(ctx, stream); err != nil {
			return err
		}
	}
	return nil
}
