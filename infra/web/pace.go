package web

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
)

const (
	defaultRate = 2 // requests a second to one host
	burst       = 6
	maxPaced    = 1000 // hosts remembered
)

// pace keeps requests to one host apart. Safe for concurrent use.
type pace struct {
	limit rate.Limit

	mu    sync.Mutex
	hosts map[string]*rate.Limiter
}

func newPace(perSecond float64) *pace {
	switch {
	case perSecond < 0:
		return &pace{limit: rate.Inf}
	case perSecond == 0:
		perSecond = defaultRate
	}
	return &pace{limit: rate.Limit(perSecond)}
}

// wait waits until the host may be asked again, or ctx ends.
func (p *pace) wait(ctx context.Context, host string) error {
	p.mu.Lock()
	l := p.hosts[host]
	if l == nil {
		if p.hosts == nil || len(p.hosts) >= maxPaced {
			p.hosts = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(p.limit, burst)
		p.hosts[host] = l
	}
	p.mu.Unlock()
	if err := l.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return context.DeadlineExceeded // it would come too late
	}
	return nil
}
