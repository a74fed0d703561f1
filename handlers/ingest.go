package handlers

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"refold/commands"
	"refold/domain"
	"refold/domain/event"
	"refold/domain/knowledge"
)

// Ingest keeps documents moving: whatever a document is owed is claimed, done and
// reported, a few documents at a time. It also empties bases that were deleted,
// imports FAQ entries, and copies and moves documents. Like the Runner it remembers nothing that the log does
// not have. Its exported fields are set before Run.
type Ingest struct {
	Commands *commands.Commands
	Store    event.Store
	Blobs    Blobs
	Parser   Parser
	Fetcher  Fetcher // nil = addresses can't be fetched
	// Embedder gives the embedder of a tenant by its configured name, "" is the
	// default one; nil if there is none.
	Embedder func(tenant, name string) Embedder
	Index    knowledge.Index
	Holdings Holdings
	// Keep says that contents are about to be in use, and gives how many of them are
	// there (see Contents); nil = they stay by themselves.
	Keep   func(ctx context.Context, tenant string, digests ...string) (int, error)
	Tokens TokenCounter // nil = a rough estimate
	Clock  Clock
	Log    *slog.Logger
	Self   string      // this process's instance id, the owner of its claims
	Sole   bool        // no other process works on this log
	AtOnce int         // documents that are worked on at the same time; 0 = 4
	Watch  IngestWatch // nil = nobody

	gone   atomic.Pointer[[]string]
	mu     sync.Mutex
	ctx    context.Context // of the work of the present Run
	early  []Owed          // woken before Run
	line   *turns
	busy   map[event.Stream]*job
	parked map[event.Stream]parkedWork
	ending chan struct{} // closed when no new work is begun
	work   sync.WaitGroup
}

// IngestWatch is told what ingestion does. Safe for concurrent use.
type IngestWatch interface {
	// Stage is called after each attempt at a stage: outcome is "done", or the code
	// of the failure.
	Stage(stage, outcome string, took time.Duration)
	// Document is called when nothing more is done for a document: indexed, failed or
	// removed (from the index).
	Document(outcome string)
}

// Owed names a stream that may be owed work: of a document, a base that was
// deleted, an import or a transfer. Base is the base that it is about.
type Owed struct {
	Stream event.Stream
	Base   string
}

// job is a stream that a goroutine works on.
type job struct {
	owed   Owed
	cancel context.CancelCauseFunc // ends what is being done, nil if nothing is
	folded int64                   // version that the work knows
	fence  int64                   // version of the newest fact that ends what is being done
	again  bool                    // something happened since
}

type parkedWork struct {
	version int64
	cancel  func()
}

// ingestGrace is the time from the end of an attempt to the end of its claim.
const ingestGrace = 30 * time.Second

// Run follows the log from a position and works until ctx ends; then it hands
// back what it has claimed and returns. resume are streams that were owed work at
// that position.
func (g *Ingest) Run(ctx context.Context, from event.Position, resume []Owed) {
	// Work outlives ctx: what was done, or is handed back, must be reported.
	workCtx, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	g.mu.Lock()
	g.line, g.busy, g.parked, g.ending, g.ctx = newTurns(), map[event.Stream]*job{}, map[event.Stream]parkedWork{}, make(chan struct{}), workCtx
	resume = append(resume, g.early...)
	g.early = nil
	g.mu.Unlock()
	for _, o := range resume {
		g.line.push(o)
	}
	for range max(1, g.atOnce()) {
		g.work.Go(func() { g.serve(workCtx) })
	}
	g.follow(ctx, from)
	g.mu.Lock()
	close(g.ending)
	g.ctx = nil
	for _, p := range g.parked {
		p.cancel()
	}
	for _, j := range g.busy {
		if j.cancel != nil {
			j.cancel(errHandBack)
		}
	}
	g.mu.Unlock()
	g.work.Wait()
}

func (g *Ingest) atOnce() int {
	if g.AtOnce == 0 {
		return 4
	}
	return g.AtOnce
}

// SetGone tells which instances are known to be gone: their claims are void.
func (g *Ingest) SetGone(ids []string) { g.gone.Store(&ids) }

// Wake makes sure that somebody looks at a stream, for example because the owner
// of its claim is gone. Before Run it is noted for then.
func (g *Ingest) Wake(o Owed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx == nil {
		g.early = append(g.early, o)
		return
	}
	g.wake(o, 0)
}

// Waiting counts the streams that nobody works on yet.
func (g *Ingest) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.line == nil {
		return 0
	}
	return g.line.len()
}

// Active counts the streams that are worked on.
func (g *Ingest) Active() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.busy)
}

// serve works on one stream after another.
func (g *Ingest) serve(ctx context.Context) {
	for {
		select {
		case <-g.ending:
			return
		case <-g.line.news:
		}
		g.mu.Lock()
		o, ok := g.line.pop()
		if ok && g.busy[o.Stream] != nil {
			g.busy[o.Stream].again = true
			ok = false
		}
		if !ok {
			g.mu.Unlock()
			continue
		}
		j := &job{owed: o}
		g.busy[o.Stream] = j
		g.mu.Unlock()
		g.finish(ctx, j, g.attend(ctx, j))
	}
}

// attend does what a stream is owed and gives the time at which to look again,
// zero if only a fact can change it.
func (g *Ingest) attend(ctx context.Context, j *job) (next time.Time) {
	defer func() {
		if p := recover(); p != nil {
			g.log(j.owed).Error("panic while ingesting; it is looked at again later", "panic", p, "stack", string(debug.Stack()))
			next = g.Clock.Now().Add(time.Minute)
		}
	}()
	move := g.moveDocument
	switch j.owed.Stream.Category {
	case knowledge.BaseCategory:
		move = g.emptyBase
	case knowledge.ImportCategory:
		move = g.moveImport
	case knowledge.TransferCategory:
		move = g.moveTransfer
	}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		next, err := move(ctx, j)
		if err == nil {
			return next
		}
		if g.isEnding() { // what could not be written is found by the next start
			return time.Time{}
		}
		if _, refused := domain.AsRejection(err); refused || errors.Is(err, event.ErrCorrupt) || errors.Is(err, event.ErrUnknownType) || errors.Is(err, event.ErrNewerSchema) {
			g.log(j.owed).Error("this can't be worked on", "error", err)
			return g.Clock.Now().Add(10 * time.Minute)
		}
		g.log(j.owed).Warn("ingestion waits", "error", err, "again_in", pause)
		g.sleep(ctx, pause)
	}
}

// finish lets go of a stream.
func (g *Ingest) finish(ctx context.Context, j *job, next time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, j.owed.Stream)
	if g.isEnding() {
		return
	}
	if j.again {
		g.line.push(j.owed)
		return
	}
	if next.IsZero() {
		return
	}
	p := parkedWork{version: j.folded}
	p.cancel = g.Clock.AfterFunc(max(0, next.Sub(g.Clock.Now())), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.wake(j.owed, 0)
	})
	g.parked[j.owed.Stream] = p
}

func (g *Ingest) isEnding() bool {
	select {
	case <-g.ending:
		return true
	default:
		return false
	}
}

// sleep waits for d, the end of ctx, or the end of the worker.
func (g *Ingest) sleep(ctx context.Context, d time.Duration) {
	done := make(chan struct{})
	stop := g.Clock.AfterFunc(d, func() { close(done) })
	defer stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-g.ending:
	}
}

func (g *Ingest) moment() knowledge.Moment {
	m := knowledge.Moment{Now: g.Clock.Now().UTC(), Self: g.Self, Sole: g.Sole}
	if gone := g.gone.Load(); gone != nil {
		m.Gone = *gone
	}
	return m
}

func (g *Ingest) by(tenant string) commands.Caller {
	return commands.Caller{Tenant: tenant, Principal: "process:" + g.Self}
}

func (g *Ingest) log(o Owed) *slog.Logger {
	return g.Log.With("tenant", o.Stream.Tenant, "base", o.Base, o.Stream.Category, o.Stream.ID)
}

func (g *Ingest) counter() TokenCounter {
	if g.Tokens == nil {
		return roughly{}
	}
	return g.Tokens
}
