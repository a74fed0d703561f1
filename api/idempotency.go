package api

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"refold/commands"
	"refold/domain/request"
)

// IdempotencyHeader names a request, so that it can be sent again without being
// done again. ReplayedHeader is on answers that were given before.
const (
	IdempotencyHeader = "Idempotency-Key"
	ReplayedHeader    = "Idempotency-Replayed"
)

const (
	// flightWait bounds how long a repetition waits for the first request.
	flightWait = 30 * time.Second
	// takeover is when a repetition does what another process has reserved and not
	// answered. Doing it twice is harmless; it is waited so that it is rare.
	takeover = 10 * time.Second
)

// flights are the keys that this process works on.
type flights struct {
	mu   sync.Mutex
	open map[string]chan struct{} // closed at the end
}

// enter gives leave if nobody works on the key; else what to wait for.
func (f *flights) enter(id string) (leave func(), busy <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.open[id]; ok {
		return nil, c
	}
	if f.open == nil {
		f.open = map[string]chan struct{}{}
	}
	done := make(chan struct{})
	f.open[id] = done
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, id)
		close(done)
	}), nil
}

// reading are the routes that change nothing although they are asked with POST: a
// key reserves nothing there, and no answer is recorded.
var reading = map[string]bool{"POST /api/v1/messages/search": true, "POST /api/v1/knowledge-search": true, "POST /api/v1/chunker/preview": true,
	"POST /api/v1/knowledge-bases/{base}/hybrid-search": true, "POST /api/v1/knowledge-bases/{base}/faq/search": true}

// idempotent does a request that names an Idempotency-Key once: it reserves the
// key by an append, which decides between processes, and records the answer.
// What the request mints derives from the reservation, and what follows from it
// names it, so whoever repeats it after a crash, at whatever moment, finds what
// was done and answers the same.
func (a *API) idempotent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys := r.Header.Values(IdempotencyHeader)
		p := asking(r)
		if len(keys) == 0 || r.Method == http.MethodGet || r.Method == http.MethodHead || p.route == "" {
			next.ServeHTTP(w, r)
			return
		}
		err := request.CheckKey(keys[0])
		if len(keys) > 1 {
			err = request.ErrBadKey
		}
		if err == nil && reading[p.route] {
			next.ServeHTTP(w, r)
			return
		}
		fingerprint, done := "", func() {}
		if err == nil {
			fingerprint, done, err = fingerprintOf(w, r)
		}
		defer done()
		if err != nil {
			a.fail(w, r, err)
			return
		}
		once := &once{api: a, next: next, key: keys[0], fingerprint: fingerprint, by: commands.Caller{Tenant: p.tenant, Principal: p.name, Request: requestID(r), Trace: trace(r)}}
		if err := once.serve(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

// once is one request with a key.
type once struct {
	api         *API
	next        http.Handler
	by          commands.Caller
	key         string
	fingerprint string
}

// serve answers with what is on the record, or does the request. An error comes
// before anything was done or written.
func (o *once) serve(w http.ResponseWriter, r *http.Request) error {
	wait, cancel := context.WithTimeout(r.Context(), flightWait)
	defer cancel()
	for {
		leave, busy := o.api.flights.enter(o.by.Tenant + " " + request.StreamID(o.by.Principal, o.key))
		if busy != nil {
			select {
			case <-busy:
				continue
			case <-wait.Done():
				return request.ErrBusy
			}
		}
		res, err := o.api.Commands.Reserve(wait, o.by, o.key, o.fingerprint, o.api.Self)
		if err == nil && res.Answer == nil && !res.New {
			res, err = o.elsewhere(wait, res)
		}
		switch {
		case err != nil:
			leave()
			return err
		case res.Reserved == nil: // refused elsewhere: the key is free
			leave()
			continue
		case res.Answer != nil:
			leave()
			o.replay(w, r, res.Answer)
			return nil
		}
		o.do(w, r, res, leave)
		return nil
	}
}

// elsewhere waits for the process that reserved the request, if that may still
// be at it.
func (o *once) elsewhere(ctx context.Context, res commands.Reservation) (commands.Reservation, error) {
	a := o.api
	if a.Sole || res.Reserved.Owner == a.Self {
		return res, nil // it is gone, or failed here: the outcome is not known
	}
	left := min(takeover, res.Reserved.At.Add(takeover).Sub(a.Commands.Now()))
	ctx, cancel := context.WithTimeout(ctx, max(left, 0))
	defer cancel()
	for {
		head, err := a.Store.Head(ctx)
		var now commands.Reservation
		if err == nil {
			now, err = a.Commands.LookRequest(ctx, o.by.Tenant, res.Stream)
		}
		if err == nil && now.Version != res.Version {
			return now, nil
		}
		if err == nil {
			err = a.Store.Wait(ctx, head)
		}
		if ctx.Err() != nil {
			return res, nil
		}
		if err != nil {
			return res, err
		}
	}
}

// do lets the request be handled and records what it was answered with.
func (o *once) do(w http.ResponseWriter, r *http.Request, res commands.Reservation, leave func()) {
	rec := &recorder{ResponseWriter: w, once: o, request: r, stream: res.Stream, reservation: res.Reserved.Reservation, leave: leave}
	defer leave() // also if the handler panics: then the outcome is not known
	o.next.ServeHTTP(rec, withIdem(r, idem{reservation: res.Reserved.Reservation, recorder: rec}))
	rec.finish()
}

// replay gives a recorded answer again. That of a run is its stream, from its
// start.
func (o *once) replay(w http.ResponseWriter, r *http.Request, answer *request.RequestAnswered) {
	for name, value := range answer.Head {
		w.Header().Set(name, value)
	}
	w.Header().Set(ReplayedHeader, "true")
	if answer.Run != "" {
		o.next.ServeHTTP(w, withIdem(r, idem{replay: answer.Run}))
		return
	}
	w.WriteHeader(answer.Status)
	_, _ = io.WriteString(w, answer.Body) // the client may be gone
}

func withIdem(r *http.Request, i idem) *http.Request {
	p := *asking(r)
	p.idem = i
	return r.WithContext(context.WithValue(r.Context(), principalKey, &p))
}

// replayed gives the run whose stream a repeated request is answered with.
func replayed(r *http.Request) string {
	if p := asking(r); p != nil {
		return p.idem.replay
	}
	return ""
}

// keepInstead says what is kept of the answer in place of what is sent, because
// that holds a secret.
func keepInstead(r *http.Request, v any) {
	if p := asking(r); p != nil && p.idem.recorder != nil {
		p.idem.recorder.instead = v
	}
}
