package sqlstore

import "sync"

// Signal wakes everybody who waits for news. Telling costs nothing while nobody
// waits.
type Signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// Wait gives a channel that the next Tell closes.
func (s *Signal) Wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Tell wakes them.
func (s *Signal) Tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
