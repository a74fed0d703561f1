package handlers_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"refold/commands"
	"refold/domain/agent"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tool"
	"refold/handlers"
	"refold/infra/memory"
)

var t0 = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// patience only ends tests that hang; nothing is measured by it.
const patience = 30 * time.Second

const tenant = "acme"

// clock stands still until a test moves it.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*timer
	added  chan struct{} // closed and replaced with every timer
}

type timer struct {
	at time.Time
	f  func()
}

func newClock() *clock { return &clock{now: t0, added: make(chan struct{})} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) AfterFunc(d time.Duration, f func()) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{c.now.Add(d), f}
	if d <= 0 {
		go f()
		return func() {}
	}
	c.timers = append(c.timers, t)
	close(c.added)
	c.added = make(chan struct{})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timers = slices.DeleteFunc(c.timers, func(o *timer) bool { return o == t })
	}
}

// advance moves the time and starts what is due by then.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.timers = slices.DeleteFunc(c.timers, func(t *timer) bool {
		if t.at.After(c.now) {
			return false
		}
		go t.f()
		return true
	})
}

// await waits until a timer is set for exactly that time after t0.
func (c *clock) await(t *testing.T, after time.Duration) {
	t.Helper()
	limit := time.After(patience)
	for {
		c.mu.Lock()
		added := c.added
		set := slices.ContainsFunc(c.timers, func(o *timer) bool { return o.at.Equal(t0.Add(after)) })
		c.mu.Unlock()
		if set {
			return
		}
		select {
		case <-added:
		case <-limit:
			t.Fatalf("no timer is set for %v", after)
		}
	}
}

// model answers by script.
type model struct {
	mu       sync.Mutex
	requests []handlers.ModelRequest
	script   func(ctx context.Context, n int, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error)
}

func (m *model) Name() string { return "scripted" }

func (m *model) Model(name string) (handlers.Model, error) {
	if name != "" {
		return nil, &handlers.ModelError{Code: "not_configured", Message: "no model " + name}
	}
	return m, nil
}

func (m *model) Chat(ctx context.Context, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	m.mu.Lock()
	m.requests = append(m.requests, req)
	n := len(m.requests)
	m.mu.Unlock()
	r, err := m.script(ctx, n, req, emit)
	if sent, bad := json.Marshal(req); bad == nil {
		r.RequestDigest = fmt.Sprintf("sha256:%x", sha256.Sum256(sent))
	}
	return r, err
}

func (m *model) request(n int) handlers.ModelRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[n-1]
}

func (m *model) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.requests)
}

// say streams a reply: reasoning, text, calls.
func say(emit func(handlers.ModelDelta) error, reasoning, text string, calls ...handlers.ModelCall) (handlers.ModelReply, error) {
	var deltas []handlers.ModelDelta
	if reasoning != "" {
		deltas = append(deltas, handlers.ModelDelta{Reasoning: reasoning})
	}
	if text != "" {
		deltas = append(deltas, handlers.ModelDelta{Content: text})
	}
	for i, c := range calls {
		deltas = append(deltas, handlers.ModelDelta{Call: &handlers.ModelCallDelta{Index: i, ID: c.ID, Name: c.Name, Text: c.Arguments}})
	}
	for _, d := range deltas {
		if err := emit(d); err != nil {
			return handlers.ModelReply{}, err
		}
	}
	finish := handlers.FinishStop
	if len(calls) > 0 {
		finish = handlers.FinishToolCalls
	}
	return handlers.ModelReply{Content: text, Reasoning: reasoning, Calls: calls, Finish: finish, Model: "scripted-1", RequestDigest: "sha256:of-the-request",
		Usage: handlers.ModelUsage{Prompt: 10, Completion: 2, Total: 12}}, nil
}

func call(id, name, arguments string) handlers.ModelCall {
	return handlers.ModelCall{ID: id, Name: name, Arguments: arguments}
}

// toolbox runs functions.
type toolbox struct {
	mu    sync.Mutex
	defs  []tool.Definition
	run   map[string]func(ctx context.Context, c tool.Call) handlers.ToolOutcome
	ran   []tool.Call
	clean []string
}

func (b *toolbox) Hash(name string) string {
	for _, d := range b.defs {
		if d.Name == name {
			return d.Hash()
		}
	}
	return ""
}

func (b *toolbox) Invoke(ctx context.Context, name string, c tool.Call, limit int) handlers.ToolOutcome {
	b.mu.Lock()
	b.ran = append(b.ran, c)
	f := b.run[name]
	b.mu.Unlock()
	return f(ctx, c)
}

func (b *toolbox) CleanRun(_ context.Context, runID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clean = append(b.clean, runID)
}

func (b *toolbox) runs(id string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.ran {
		if c.ID == id {
			n++
		}
	}
	return n
}

// define adds a tool.
func (b *toolbox) define(name string, effect tool.Effect, run func(ctx context.Context, c tool.Call) handlers.ToolOutcome) {
	b.defs = append(b.defs, tool.Definition{Name: name, Description: "Does " + name + ".", Schema: json.RawMessage(`{"type":"object"}`), Effect: effect})
	if b.run == nil {
		b.run = map[string]func(context.Context, tool.Call) handlers.ToolOutcome{}
	}
	b.run[name] = run
}

func output(text string) func(context.Context, tool.Call) handlers.ToolOutcome {
	return func(context.Context, tool.Call) handlers.ToolOutcome {
		return handlers.ToolOutcome{Success: true, Output: text, Full: text}
	}
}

// blocked is a tool that runs until its context ends.
func blocked(begun chan<- struct{}) func(context.Context, tool.Call) handlers.ToolOutcome {
	return func(ctx context.Context, _ tool.Call) handlers.ToolOutcome {
		begun <- struct{}{}
		<-ctx.Done()
		return handlers.ToolOutcome{Error: "cut off", Output: "cut off"}
	}
}

// world is a store, a process that serves requests, and what runners need.
type world struct {
	t       *testing.T
	store   *memory.Store
	clock   *clock
	model   *model
	tools   *toolbox
	agent   agent.Agent
	session string
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

func (w *world) Offer(context.Context, string, agent.Agent, string) ([]tool.Definition, error) {
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
