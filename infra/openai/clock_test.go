package openai

import (
	"sync"
	"time"
)

// fakeClock is a clock that a test turns on.
type fakeClock struct {
	mu     sync.Mutex
	change *sync.Cond
	now    time.Time
	timers map[*fakeTimer]bool
}

type fakeTimer struct {
	at time.Time
	f  func()
}

func newFakeClock() *fakeClock {
	c := &fakeClock{now: time.Date(2026, 10, 21, 7, 27, 0, 0, time.UTC), timers: map[*fakeTimer]bool{}}
	c.change = sync.NewCond(&c.mu)
	return c
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{c.now.Add(d), f}
	c.timers[t] = true
	c.change.Broadcast()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		running := c.timers[t]
		delete(c.timers, t)
		return running
	}
}

// await waits until n timers run.
func (c *fakeClock) await(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.timers) != n {
		c.change.Wait()
	}
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []func()
	for t := range c.timers {
		if !t.at.After(c.now) {
			due = append(due, t.f)
			delete(c.timers, t)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}
