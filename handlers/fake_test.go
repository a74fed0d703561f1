package handlers_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"refold/domain/tool"
	"refold/handlers"
)

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
