package analysis

import (
	"context"
	"errors"
	"time"

	"refold/handlers"
)

// take gives the session of a run and a file, locked; it makes one where there
// is none, and room for it, by ending the one that was idle longest.
func (e *Engine) take(ctx context.Context, k key) (*session, error) {
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return nil, &handlers.QueryError{Code: "unavailable", Message: "The server is stopping."}
		}
		s, known := e.sessions[k]
		if !known && len(e.sessions) >= e.o.Alive {
			e.evict()
		}
		if !known && len(e.sessions) < e.o.Alive {
			s = &session{mu: make(chan struct{}, 1), key: k, used: time.Now()}
			e.sessions[k] = s
		}
		changed := e.changed
		e.mu.Unlock()
		if s == nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, e.explain(ctx, ctx.Err())
			}
		}
		select {
		case s.mu <- struct{}{}:
		case <-ctx.Done():
			return nil, e.explain(ctx, ctx.Err())
		}
		if !s.gone {
			return s, nil
		}
		<-s.mu
	}
}

// evict ends the session that was idle longest, if any is idle. e.mu is held.
func (e *Engine) evict() {
	var oldest *session
	for _, s := range e.sessions {
		if len(s.mu) == 0 && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	if oldest == nil {
		return
	}
	select {
	case oldest.mu <- struct{}{}:
		e.remove(oldest)
		<-oldest.mu
	default:
	}
}

// remove forgets a session and ends its process. e.mu and the session are held.
func (e *Engine) remove(s *session) {
	s.gone = true
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
	if e.sessions[s.key] == s {
		delete(e.sessions, s.key)
	}
}

// attach gives a session that is held its process, and gives back the one before.
// A session that was ended meanwhile has no use for one.
func (e *Engine) attach(s *session, p *process) (before *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, s.process = s.process, p
	if s.gone && p != nil {
		p.kill()
	}
	return before
}

// drop forgets a session that is held.
func (e *Engine) drop(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(s)
}

// put lets a session go.
func (e *Engine) put(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.used = time.Now()
	<-s.mu
	close(e.changed)
	e.changed = make(chan struct{})
}

// Forget implements handlers.Analyst: queries in progress are ended.
func (e *Engine) Forget(_ context.Context, run string) error {
	return e.end(func(k key) bool { return k.run == run })
}

// Close ends all processes and waits until they are gone.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	return e.end(func(key) bool { return true })
}

func (e *Engine) end(which func(key) bool) error {
	e.mu.Lock()
	var going []*process
	for k, s := range e.sessions {
		if !which(k) {
			continue
		}
		s.gone = true
		delete(e.sessions, k)
		if p := s.process; p != nil {
			p.kill()
			going = append(going, p)
		}
	}
	close(e.changed)
	e.changed = make(chan struct{})
	e.mu.Unlock()
	var errs []error
	for _, p := range going {
		select {
		case <-p.done:
		case <-time.After(grace):
			errs = append(errs, errors.New("an analysis process does not end"))
		}
	}
	return errors.Join(errs...)
}
