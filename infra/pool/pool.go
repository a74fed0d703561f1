// Package pool makes one model of several endpoints of the same model: keys and
// URLs that stand in for each other, and a limit on tokens in a minute that is
// respected before it is broken. It may import domain and handlers. Start
// reading at Pool.Chat; budget.go holds the limit.
package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"refold/handlers"
)

// cooldown is how long an endpoint that has failed is not asked first, unless
// its server names another time.
const cooldown = 30 * time.Second

// Pool is a handlers.Model over endpoints. Safe for concurrent use.
type Pool struct {
	name   string
	clock  handlers.Clock
	budget *budget // nil = no limit

	mu        sync.Mutex
	endpoints []*endpoint
	next      int
}

type endpoint struct {
	model handlers.Model
	until time.Time // resting after a failure
}

var _ handlers.Model = (*Pool)(nil)

// Config says what a pool is made of.
type Config struct {
	Name            string
	Models          []handlers.Model // at least one; they are asked in turn
	TokensPerMinute int              // of prompts and completions together; 0 = no limit
	Clock           handlers.Clock   // nil = the real one
}

// New makes a pool.
func New(c Config) (*Pool, error) {
	if len(c.Models) == 0 {
		return nil, errors.New("a model pool needs at least one endpoint")
	}
	if c.TokensPerMinute < 0 {
		return nil, errors.New("tokens_per_minute must not be negative")
	}
	if c.Clock == nil {
		c.Clock = handlers.SystemClock{}
	}
	p := &Pool{name: c.Name, clock: c.Clock}
	for _, m := range c.Models {
		p.endpoints = append(p.endpoints, &endpoint{model: m})
	}
	if c.TokensPerMinute > 0 {
		p.budget = &budget{limit: c.TokensPerMinute, clock: c.Clock}
	}
	return p, nil
}

// Name implements handlers.Model.
func (p *Pool) Name() string { return p.name }

// Chat implements handlers.Model. An endpoint that refuses or fails before it
// has said anything is followed by the next, at once; the last failure is the
// pool's. Once something was emitted, a failure is the attempt's: text is never
// said twice.
func (p *Pool) Chat(ctx context.Context, req handlers.ModelRequest, emit func(handlers.ModelDelta) error) (handlers.ModelReply, error) {
	reserved, err := p.budget.reserve(ctx, req)
	if err != nil {
		return handlers.ModelReply{}, err
	}
	used := 0
	defer func() { p.budget.settle(reserved, used) }()
	var reply handlers.ModelReply
	for _, e := range p.order() {
		said := false
		reply, err = e.model.Chat(ctx, req, func(d handlers.ModelDelta) error {
			said = true
			return emit(d)
		})
		used += reply.Usage.Total
		if err == nil {
			p.rest(e, time.Time{})
			return reply, nil
		}
		var failed *handlers.ModelError
		if said || ctx.Err() != nil || !errors.As(err, &failed) || !elsewhere(failed) {
			return reply, err
		}
		pause := cooldown
		if failed.RetryAfter > 0 {
			pause = failed.RetryAfter
		}
		p.rest(e, p.clock.Now().Add(pause))
	}
	return reply, fmt.Errorf("every endpoint of %s: %w", p.name, err)
}

// elsewhere tells whether another endpoint may do what this one did not: the
// request itself is not at fault.
func elsewhere(e *handlers.ModelError) bool {
	return e.Transient || e.Code == "unauthorized" || e.Code == "not_found" || e.Code == "not_configured"
}

// order lists the endpoints in the order in which to ask them: in turn, those
// that rest last.
func (p *Pool) order() []*endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	var awake, resting []*endpoint
	for i := range p.endpoints {
		e := p.endpoints[(p.next+i)%len(p.endpoints)]
		if now.Before(e.until) {
			resting = append(resting, e)
		} else {
			awake = append(awake, e)
		}
	}
	p.next = (p.next + 1) % len(p.endpoints)
	return append(awake, resting...)
}

func (p *Pool) rest(e *endpoint, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.until = until
}
