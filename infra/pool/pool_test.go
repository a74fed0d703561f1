package pool_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"refold/handlers"
	"refold/infra/pool"
)

// fake is an endpoint that answers what it is told to.
type fake struct {
	asked int
	chat  func(emit func(handlers.ModelDelta) error) (handlers.ModelReply, error)
}

func (f *fake) Name() string { return "fake" }

func (f *fake) Chat(_ context.Context, _ handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	f.asked++
	return f.chat(emit)
}

func says(text string, tokens int) func(func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	return func(emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		return handlers.ModelReply{Content: text, Usage: handlers.ModelUsage{Total: tokens}}, emit(handlers.ModelDelta{Content: text})
	}
}

func fails(e handlers.ModelError) func(func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	return func(func(handlers.ModelDelta) error) (handlers.ModelReply, error) { return handlers.ModelReply{}, &e }
}

// still is a clock that moves when it is told to.
type still struct {
	mu     sync.Mutex
	now    time.Time
	alarms []alarm
	set    chan time.Duration // each alarm that is set
}

type alarm struct {
	at time.Time
	f  func()
}

func (c *still) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *still) AfterFunc(d time.Duration, f func()) func() {
	c.mu.Lock()
	c.alarms = append(c.alarms, alarm{c.now.Add(d), f})
	c.mu.Unlock()
	c.set <- d
	return func() {}
}

func (c *still) move(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []func()
	kept := c.alarms[:0]
	for _, a := range c.alarms {
		if a.at.After(c.now) {
			kept = append(kept, a)
		} else {
			due = append(due, a.f)
		}
	}
	c.alarms = kept
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}

func newClock() *still {
	return &still{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), set: make(chan time.Duration, 10)}
}

func build(t *testing.T, c pool.Config) *pool.Pool {
	t.Helper()
	c.Name = "m"
	p, err := pool.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func chat(t *testing.T, p *pool.Pool) (string, error) {
	t.Helper()
	var said strings.Builder
	_, err := p.Chat(t.Context(), handlers.ModelRequest{}, func(d handlers.ModelDelta) error {
		said.WriteString(d.Content)
		return nil
	})
	return said.String(), err
}

func TestTurns(t *testing.T) {
	a, b := &fake{chat: says("a", 1)}, &fake{chat: says("b", 1)}
	p := build(t, pool.Config{Models: []handlers.Model{a, b}, Clock: newClock()})
	got := ""
	for range 4 {
		text, err := chat(t, p)
		if err != nil {
			t.Fatal(err)
		}
		got += text
	}
	if got != "abab" {
		t.Fatalf("endpoints in turn: %s", got)
	}
}

func TestNextEndpoint(t *testing.T) {
	for _, e := range []handlers.ModelError{{Code: "rate_limited", Transient: true, RetryAfter: 90 * time.Second}, {Code: "unauthorized"}, {Code: "connection", Transient: true}} {
		clock := newClock()
		a, b := &fake{chat: fails(e)}, &fake{chat: says("b", 1)}
		p := build(t, pool.Config{Models: []handlers.Model{a, b}, Clock: clock})
		for range 3 {
			if text, err := chat(t, p); err != nil || text != "b" {
				t.Fatalf("%s: %q, %v", e.Code, text, err)
			}
		}
		if a.asked != 1 {
			t.Errorf("%s: the failed endpoint was asked %d times while it rests", e.Code, a.asked)
		}
		a.chat = says("a", 1)
		clock.move(2 * time.Minute)
		for range 2 {
			if _, err := chat(t, p); err != nil {
				t.Fatal(err)
			}
		}
		if a.asked != 2 {
			t.Errorf("%s: the endpoint was asked %d times, want again after its rest", e.Code, a.asked)
		}
	}
}

func TestTheRequestsFault(t *testing.T) {
	a, b := &fake{chat: fails(handlers.ModelError{Code: "bad_request", Status: 400})}, &fake{chat: says("b", 1)}
	p := build(t, pool.Config{Models: []handlers.Model{a, b}, Clock: newClock()})
	var e *handlers.ModelError
	if _, err := chat(t, p); !errors.As(err, &e) || e.Code != "bad_request" || b.asked != 0 {
		t.Fatalf("%v, the other endpoint asked %d times", err, b.asked)
	}
}

func TestTextIsNotSaidTwice(t *testing.T) {
	a := &fake{chat: func(emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
		if err := emit(handlers.ModelDelta{Content: "half"}); err != nil {
			return handlers.ModelReply{}, err
		}
		return handlers.ModelReply{Content: "half"}, &handlers.ModelError{Code: "incomplete", Transient: true}
	}}
	b := &fake{chat: says("b", 1)}
	p := build(t, pool.Config{Models: []handlers.Model{a, b}, Clock: newClock()})
	if text, err := chat(t, p); err == nil || text != "half" || b.asked != 0 {
		t.Fatalf("%q, %v, the other endpoint asked %d times", text, err, b.asked)
	}
}

func TestAllFail(t *testing.T) {
	e := handlers.ModelError{Code: "overloaded", Transient: true}
	p := build(t, pool.Config{Models: []handlers.Model{&fake{chat: fails(e)}, &fake{chat: fails(e)}}, Clock: newClock()})
	var got *handlers.ModelError
	if _, err := chat(t, p); !errors.As(err, &got) || !got.Transient {
		t.Fatalf("%v, want the last failure, so that the run retries", err)
	}
}

// TestTokensInAMinute: a request waits before the limit is broken, and what was
// really used counts.
func TestTokensInAMinute(t *testing.T) {
	clock := newClock()
	a := &fake{chat: says("a", 600)}
	p := build(t, pool.Config{Models: []handlers.Model{a}, TokensPerMinute: 1200, Clock: clock})
	for range 2 { // 500 expected and 600 used, each
		if _, err := chat(t, p); err != nil {
			t.Fatal(err)
		}
		clock.move(10 * time.Second)
	}
	done := make(chan error, 1)
	go func() {
		_, err := chat(t, p)
		done <- err
	}()
	if wait := <-clock.set; wait != 40*time.Second {
		t.Errorf("waits %s, want until the first is a minute old", wait)
	}
	if a.asked != 2 {
		t.Fatal("the request did not wait")
	}
	clock.move(40 * time.Second)
	if err := <-done; err != nil || a.asked != 3 {
		t.Fatalf("%v after %d requests", err, a.asked)
	}
	// The wait ends with the caller.
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := p.Chat(ctx, handlers.ModelRequest{MaxTokens: 1000}, func(handlers.ModelDelta) error { return nil })
		done <- err
	}()
	<-clock.set
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestConfig(t *testing.T) {
	if _, err := pool.New(pool.Config{}); err == nil {
		t.Error("a pool of nothing")
	}
	if _, err := pool.New(pool.Config{Models: []handlers.Model{&fake{}}, TokensPerMinute: -1}); err == nil {
		t.Error("a negative limit")
	}
}
