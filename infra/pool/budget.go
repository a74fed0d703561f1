package pool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"refold/handlers"
)

// window is what "in a minute" means.
const window = time.Minute

// budget is a limit on tokens in a sliding minute. A request reserves what it
// is expected to cost, and what it really cost takes the place of that.
type budget struct {
	limit int
	clock handlers.Clock

	mu    sync.Mutex
	spent []*spending // oldest first
}

type spending struct {
	at     time.Time
	tokens int
}

// expected guesses the tokens of a request, on the safe side: a token for three
// bytes of text, and the completion's limit or a typical one.
func expected(req handlers.ModelRequest) int {
	n := 0
	for _, m := range req.Messages {
		n += 4 + (len(m.Content)+len(m.Reasoning))/3
		for _, c := range m.Calls {
			n += 8 + (len(c.Name)+len(c.Arguments))/3
		}
		n += 1000 * len(m.Images)
	}
	for _, t := range req.Tools {
		n += 8 + (len(t.Description)+len(t.Schema))/3
	}
	if req.MaxTokens > 0 {
		return n + req.MaxTokens
	}
	return n + 500
}

// reserve waits until the request fits into the minute, or ctx ends. A request
// larger than the whole limit goes through alone.
func (b *budget) reserve(ctx context.Context, req handlers.ModelRequest) (*spending, error) {
	if b == nil {
		return nil, nil
	}
	want := min(expected(req), b.limit)
	for {
		s, wait := b.try(want)
		if s != nil {
			return s, nil
		}
		done := make(chan struct{})
		stop := b.clock.AfterFunc(wait, func() { close(done) })
		select {
		case <-done:
		case <-ctx.Done():
			stop()
			return nil, fmt.Errorf("wait for the limit of %d tokens in a minute: %w", b.limit, ctx.Err())
		}
	}
}

// try reserves, or says how long to wait until something is free again.
func (b *budget) try(want int) (*spending, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	for len(b.spent) > 0 && !b.spent[0].at.Add(window).After(now) {
		b.spent = b.spent[1:]
	}
	sum := 0
	for _, s := range b.spent {
		sum += s.tokens
	}
	if sum+want <= b.limit {
		s := &spending{now, want}
		b.spent = append(b.spent, s)
		return s, 0
	}
	// Wait for the oldest that make enough room.
	for _, s := range b.spent {
		if sum -= s.tokens; sum+want <= b.limit {
			return nil, s.at.Add(window).Sub(now)
		}
	}
	return nil, window
}

// settle replaces what was reserved by what was used; an unknown use keeps the
// reservation.
func (b *budget) settle(s *spending, used int) {
	if b == nil || s == nil || used == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.tokens = used
}
