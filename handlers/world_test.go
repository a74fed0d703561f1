package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"refold/commands"
	"refold/domain/agent"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
	"refold/handlers"
	"refold/infra/memory"
)

var t0 = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// patience only ends tests that hang; nothing is measured by it.
const patience = 30 * time.Second

const tenant = "acme"

// world is a store, a process that serves requests, and what runners need.
type world struct {
	t       *testing.T
	store   *memory.Store
	clock   *clock
	model   *model
	tools   *toolbox
	agent   agent.Agent
	session string
	scope   commands.Scope
	*commands.Commands
	ids counter
}

type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) next(prefix string) func() string {
	return func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n++
		return fmt.Sprintf("%s%06d", prefix, c.n)
	}
}

func (w *world) Agent(_ context.Context, _, id string) (agent.Agent, bool, error) {
	return w.agent, id == w.agent.ID, nil
}

func (w *world) Scope(context.Context, string, agent.Agent, *session.Sources, string, bool) (commands.Scope, error) {
	return w.scope, nil
}

func (w *world) Offer(context.Context, string, agent.Agent, commands.Means) ([]tool.Definition, error) {
	return w.tools.defs, nil
}

type script = func(ctx context.Context, n int, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error)

func newWorld(t *testing.T, s script) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(), clock: newClock(), model: &model{script: s}, tools: &toolbox{},
		agent: agent.Agent{ID: "a", Name: "A", SystemPrompt: "You answer.", ParallelTools: true}}
	w.Commands = commands.New(w.store, w, w.clock.Now, w.ids.next("id-"))
	var err error
	if w.session, _, err = w.CreateSession(t.Context(), w.caller(), "T", ""); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) caller() commands.Caller {
	return commands.Caller{Tenant: tenant, Principal: "u", Request: "q"}
}

// post sends a message and gives the id of its run.
func (w *world) post(query string) string {
	w.t.Helper()
	p, err := w.PostMessage(w.t.Context(), w.caller(), commands.PostMessage{Session: w.session, Query: query, Agent: "a"})
	if err != nil {
		w.t.Fatal(err)
	}
	return p.Run
}

// process is a runner at work.
type process struct {
	*handlers.Runner
	end  func()
	done chan struct{}
	err  error
	log  *buffer
}

type buffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

func (w *world) runner(self string) *handlers.Runner {
	return &handlers.Runner{Commands: w.Commands, Store: w.store, Models: w.model, Tools: w.tools, Blobs: &memory.Blobs{}, Clock: w.clock,
		Log: slog.New(slog.DiscardHandler), Self: self, Sole: true}
}

// start runs a process named self over a store; it ends with the test.
func (w *world) start(self string, change ...func(*handlers.Runner)) *process {
	w.t.Helper()
	p := &process{Runner: w.runner(self), done: make(chan struct{}), log: &buffer{}}
	p.Log = slog.New(slog.NewTextHandler(p.log, nil))
	for _, f := range change {
		f(p.Runner)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.end = cancel
	go func() {
		defer close(p.done)
		p.err = p.Run(ctx, "", nil)
	}()
	w.t.Cleanup(func() { w.kill(p) })
	return p
}

// kill ends a process, whatever it waits for.
func (w *world) kill(p *process) {
	p.end()
	w.pump(p.done)
}

// pump lets time pass until something is done.
func (w *world) pump(done <-chan struct{}) {
	limit := time.After(patience)
	for {
		w.clock.mu.Lock()
		added := w.clock.added
		w.clock.mu.Unlock()
		w.clock.advance(time.Hour)
		select {
		case <-done:
			return
		case <-added:
		case <-limit:
			w.t.Error("a process does not end")
			return
		}
	}
}

// facts are the events of a run so far.
func (w *world) facts(runID string) []run.Event {
	w.t.Helper()
	recs, err := w.Runs.Load(context.Background(), tenant, runID, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []run.Event
	for _, r := range recs {
		out = append(out, r.Event)
	}
	return out
}

// await waits until the log shows something.
func (w *world) await(what string, done func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		head, err := w.store.Head(ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		if done() {
			return
		}
		if err := w.store.Wait(ctx, head); err != nil {
			w.t.Fatalf("still waiting for %s: %v", what, err)
		}
	}
}

func (w *world) state(runID string) run.State {
	var s run.State
	for _, e := range w.facts(runID) {
		s = run.Evolve(s, e)
	}
	return s
}

// over waits for the end of a run.
func (w *world) over(runID string) run.State {
	w.t.Helper()
	w.await("the end of "+runID, func() bool { return w.state(runID).Over() })
	return w.state(runID)
}

// has waits for a fact.
func has[E run.Event](w *world, runID string) E {
	w.t.Helper()
	var found E
	w.await(fmt.Sprintf("%T", found), func() bool {
		for _, e := range w.facts(runID) {
			if e, ok := e.(E); ok {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

func (w *world) kinds(runID string) []string {
	var out []string
	recs, err := w.Runs.Load(context.Background(), tenant, runID, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range recs {
		out = append(out, r.Type)
	}
	return out
}

func (w *world) deltas(runID string, call int) []run.Segment {
	recs, err := w.Deltas.Load(context.Background(), tenant, run.DeltaID(runID, call), 0)
	if err != nil && !errors.Is(err, event.ErrUnavailable) {
		w.t.Fatal(err)
	}
	var out []run.Segment
	for _, r := range recs {
		out = append(out, r.Event.Segments...)
	}
	return out
}

func isEnd(t *testing.T, p *process) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("the process does not end")
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
}
