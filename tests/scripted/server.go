package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server answers each chat request with the next step of its script. Safe for
// concurrent use.
type Server struct {
	// URL is the base address, up to and including /v1.
	URL string

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when a request arrives
	steps    []Step
	always   Step
	rules    Rules
	models   []string
	requests []Request
	faults   []string
	report   func(format string, args ...any)
	http     *http.Server
	quit     chan struct{}
}

// Request is one chat request as it arrived.
type Request struct {
	Number int // from 0, in order of arrival
	Header http.Header
	Body   []byte // exactly as sent
	Chat          // the same, decoded

	// Gone is closed when the exchange is over: answered to the end, or left by
	// the client before.
	Gone <-chan struct{}
}

// New starts a server for a test, on a free port of the loopback, with the
// script given. It is closed with the test, which fails if the script ran out or
// a request broke the rules.
func New(t testing.TB, steps ...Step) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0", steps...)
	if err != nil {
		t.Fatalf("start the scripted model: %v", err)
	}
	s.mu.Lock()
	s.report = t.Errorf
	s.mu.Unlock()
	t.Cleanup(func() { s.Close() })
	return s
}

// Start starts a server on addr ("127.0.0.1:0" for a free port). The caller
// closes it.
func Start(addr string, steps ...Step) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	s := &Server{
		URL: "http://" + l.Addr().String() + "/v1", steps: steps, models: []string{"scripted"},
		changed: make(chan struct{}), quit: make(chan struct{}), report: func(string, ...any) {},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", s.serveModels)
	mux.HandleFunc("POST /v1/chat/completions", s.serveChat)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go s.http.Serve(l)
	return s, nil
}

// Close ends every exchange, also those that hang, and the server.
func (s *Server) Close() error {
	s.mu.Lock()
	s.report = func(string, ...any) {}
	select {
	case <-s.quit:
	default:
		close(s.quit)
	}
	s.mu.Unlock()
	return s.http.Close()
}

// Push adds steps to the end of the script.
func (s *Server) Push(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, steps...)
}

// Always sets the step for every request once the script has run out.
func (s *Server) Always(step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = step
}

// Play sets what the server is strict about.
func (s *Server) Play(r Rules) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = r
}

// Models sets the names that /models lists; none makes it answer 404.
func (s *Server) Models(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = names
}

// Requests gives the chat requests so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Faults gives the breaches of the rules so far, one line each.
func (s *Server) Faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

// Await waits until n chat requests have arrived and gives them; an error when
// ctx ends before.
func (s *Server) Await(ctx context.Context, n int) ([]Request, error) {
	for {
		s.mu.Lock()
		got, changed := slices.Clone(s.requests), s.changed
		s.mu.Unlock()
		if len(got) >= n {
			return got, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return got, fmt.Errorf("wait for %d requests, %d came: %w", n, len(got), ctx.Err())
		}
	}
}

func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	names := slices.Clone(s.models)
	s.mu.Unlock()
	if len(names) == 0 {
		http.NotFound(w, nil)
		return
	}
	list := make([]any, len(names))
	for i, n := range names {
		list[i] = map[string]any{"id": n, "object": "model"}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": list})
}

func (s *Server) serveChat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	gone := make(chan struct{})
	defer close(gone)
	req := Request{Header: r.Header.Clone(), Body: body, Gone: gone}
	decodeFault := json.Unmarshal(body, &req.Chat)

	s.mu.Lock()
	req.Number = len(s.requests)
	s.requests = append(s.requests, req)
	close(s.changed)
	s.changed = make(chan struct{})
	faults := s.rules.Check(body)
	if decodeFault != nil {
		faults = append(faults, "not a chat request: "+decodeFault.Error())
	}
	for _, f := range faults {
		s.faults = append(s.faults, fmt.Sprintf("request %d: %s", req.Number, f))
	}
	var step Step
	switch {
	case len(faults) > 0:
		step = Fail(http.StatusBadRequest, strings.Join(faults, "; "))
	case len(s.steps) > 0:
		step, s.steps = s.steps[0], s.steps[1:]
	case s.always != nil:
		step = s.always
	}
	tolerant, report := s.rules.Tolerant, s.report
	s.mu.Unlock()

	if len(faults) > 0 && !tolerant {
		report("scripted model: request %d breaks the rules: %s\n%s", req.Number, strings.Join(faults, "; "), body)
	}
	if step == nil {
		report("scripted model: the script has no step for request %d:\n%s", req.Number, body)
		step = Fail(http.StatusInternalServerError, "the script has run out")
	}
	step(req).serve(w, r, s.quit)
}
