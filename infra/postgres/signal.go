package postgres

import "sync"

// signal wakes everybody who waits for news. Telling costs nothing while nobody
// waits.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait gives a channel that the next tell closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
