package api

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are requests a second that one principal may make; 0 = no limit. Five
// seconds' worth of them, and at least one, may come at once.
type Limits struct {
	Rate float64 // all requests under /api/v1 but those of Chat
	Chat float64 // messages to agents
	// Open tells to count also who needs no key, on a server without one.
	Open bool
}

// chatRoutes are what Limits.Chat counts.
var chatRoutes = []string{"POST /api/v1/agent-chat/{session}", "POST /api/v1/knowledge-chat/{session}"}

// maxBuckets bounds the buckets that are remembered. Full ones, which say
// nothing, are forgotten first.
const maxBuckets = 10_000

// limiter holds a bucket for each principal.
type limiter struct {
	mu      sync.Mutex
	buckets map[bucket]*rate.Limiter
}

type bucket struct {
	who  string
	chat bool
}

// take takes a token; if there is none it gives the time until there is.
func (l *limiter) take(who string, chat bool, perSecond float64, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := bucket{who, chat}
	lim := l.buckets[b]
	if lim == nil {
		l.sweep(now)
		lim = rate.NewLimiter(rate.Limit(perSecond), max(1, int(math.Ceil(5*perSecond))))
		l.buckets[b] = lim
	}
	r := lim.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

func (l *limiter) sweep(now time.Time) {
	if l.buckets == nil {
		l.buckets = map[bucket]*rate.Limiter{}
	}
	if len(l.buckets) < maxBuckets {
		return
	}
	for b, lim := range l.buckets {
		if lim.TokensAt(now) >= float64(lim.Burst()) {
			delete(l.buckets, b)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets)
	}
}

// limit slows down who asks too much. The command line of this machine's own
// user is exempt.
func (a *API) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := asking(r)
		perSecond, chat := a.Limits.Rate, slices.Contains(chatRoutes, p.route)
		if chat {
			perSecond = a.Limits.Chat
		}
		if perSecond > 0 && !p.proved && (a.Limits.Open || !p.local) {
			if wait := a.limiter.take(p.tenant+" "+p.name, chat, perSecond, a.Commands.Now()); wait > 0 {
				seconds := int(math.Ceil(wait.Seconds()))
				w.Header().Set("Retry-After", strconv.Itoa(seconds))
				respond(w, http.StatusTooManyRequests, errorBody(1006, fmt.Sprintf("too many requests: %s a second are taken from one key; ask again in %d s",
					strconv.FormatFloat(perSecond, 'g', 4, 64), seconds), map[string]any{"reason": "rate_limited", "retry_after": seconds}))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
