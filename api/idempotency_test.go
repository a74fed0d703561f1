package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"refold/commands"
	"refold/domain/agent"
	"refold/domain/event"
	"refold/domain/request"
	"refold/domain/session"
	"refold/domain/tool"
	"refold/infra/memory"
	"refold/projections"
)

// patience only ends tests that hang.
const patience = 30 * time.Second

type anyAgent struct{}

func (anyAgent) Agent(_ context.Context, _, id string) (agent.Agent, bool, error) {
	return agent.Agent{ID: id}, true, nil
}

func (anyAgent) Scope(context.Context, string, agent.Agent, *session.Sources, string, bool) (commands.Scope, error) {
	return commands.Scope{}, nil
}

func (anyAgent) Offer(context.Context, string, agent.Agent, commands.Means) ([]tool.Definition, error) {
	return nil, nil
}

// mortal is the store as one process sees it. It dies at the k-th append from
// now: before it is written, or after, with the answer lost.
type mortal struct {
	event.Store
	left  atomic.Int64
	after bool
	held  func(event.Stream) // called before each append
}

func (m *mortal) Append(ctx context.Context, s event.Stream, expect event.Expect, events ...event.New) (event.Appended, error) {
	if m.held != nil {
		m.held(s)
	}
	left := m.left.Add(-1)
	if left > 0 {
		return m.Store.Append(ctx, s, expect, events...)
	}
	if left == 0 && m.after {
		_, _ = m.Store.Append(ctx, s, expect, events...) // nobody hears of it
	}
	return event.Appended{}, fmt.Errorf("killed: %w", event.ErrUnavailable)
}

// site is a log with its read models, and the processes that serve it.
type site struct {
	t     *testing.T
	store *memory.Store
	docs  *memory.Documents
	ids   atomic.Int64
}

func newSite(t *testing.T) *site { return &site{t: t, store: memory.New(), docs: &memory.Documents{}} }

// process begins to serve; it ends with the test.
func (s *site) process(self string, sole bool, store event.Store, now func() time.Time) *httptest.Server {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	newID := func() string { return fmt.Sprintf("%s-%d", self, s.ids.Add(1)) }
	engine := &projections.Engine{Store: store, Documents: s.docs, Log: log, List: projections.All()}
	a := &API{Commands: commands.New(store, anyAgent{}, now, newID), Store: store, Documents: s.docs, Engine: engine,
		Tail: &Tail{Store: store, Log: log}, Log: log, Self: self, Sole: sole}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	var work sync.WaitGroup
	work.Go(func() { engine.Run(ctx) })
	work.Go(func() { a.Tail.Run(ctx, "") })
	server := httptest.NewServer(a.Handler())
	s.t.Cleanup(func() {
		server.CloseClientConnections()
		stop()
		work.Wait()
		server.Close()
	})
	return server
}

// said is an answer as far as repetitions must agree.
type said struct {
	status int
	text   string
}

func (s *site) send(server *httptest.Server, method, path, key, body string) (said, bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set(IdempotencyHeader, key)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	replayed := res.Header.Get(ReplayedHeader) != ""
	if run := res.Header.Get("X-Refold-Run"); run != "" && res.StatusCode == 200 {
		return said{200, run}, replayed // its stream has no end here: nobody moves the run
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return said{res.StatusCode, string(raw)}, replayed
}

// facts counts the facts of the tenant that are not about requests.
func (s *site) facts() (n int) {
	s.t.Helper()
	batch, _, err := s.store.Scan(s.t.Context(), "", event.Filter{}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, raw := range batch {
		if raw.Stream.Category != request.Category {
			n++
		}
	}
	return n
}

func stands() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// Whatever append a process dies at, before it is written or after, the same
// request to the next process is answered as if nothing had happened, and has
// its effect once.
func TestIdempotent_DiesAtEveryAppend(t *testing.T) {
	for _, c := range []struct {
		name, method, path, body string
		status, facts            int
	}{
		{"create", "POST", "/api/v1/sessions", `{"title":"t"}`, 201, 1},
		{"update", "PUT", "/api/v1/sessions/SESSION", `{"title":"t"}`, 200, 1},
		{"pin", "POST", "/api/v1/sessions/SESSION/pin", ``, 200, 1},
		{"delete", "DELETE", "/api/v1/sessions/SESSION", ``, 200, 1},
		{"batch", "DELETE", "/api/v1/sessions/batch", `{"ids":["SESSION"]}`, 200, 1},
		{"chat", "POST", "/api/v1/agent-chat/SESSION", `{"query":"q"}`, 200, 1},
		{"tenant", "POST", "/api/v1/tenants", `{"name":"Acme"}`, 201, 1},
		{"key", "POST", "/api/v1/tenants/1/api-keys", `{"name":"k","full_access":true}`, 201, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := 0 // tries that nobody died in
			for k := int64(1); whole < 2; k++ {
				if k > 20 {
					t.Fatal("the request does not come to an end")
				}
				for _, after := range []bool{false, true} {
					s := newSite(t)
					first := &mortal{Store: s.store, after: after}
					first.left.Store(1000)
					one := s.process("one", true, first, stands)
					made, _ := s.send(one, "POST", "/api/v1/sessions", "", `{"title":"old"}`)
					var old struct{ Data struct{ ID string } }
					if err := json.Unmarshal([]byte(made.text), &old); err != nil || old.Data.ID == "" {
						t.Fatal(made, err)
					}
					place := strings.NewReplacer("SESSION", old.Data.ID)
					path, body := place.Replace(c.path), place.Replace(c.body)
					before := s.facts()
					first.left.Store(k)
					got, _ := s.send(one, c.method, path, "key", body)
					survived := first.left.Load() > 0
					if survived {
						whole++
					}
					two := s.process("two", true, s.store, stands)
					again, _ := s.send(two, c.method, path, "key", body)
					third, replayed := s.send(two, c.method, path, "key", body)
					if again.status != c.status || third.status != c.status || !replayed {
						t.Fatalf("dead at append %d (written: %v): then HTTP %d, then %d, replayed %v: %s", k, after, again.status, third.status, replayed, again.text)
					}
					if c.name != "key" && (third != again || survived && got != again) {
						t.Errorf("dead at append %d (written: %v): %+v, then %+v, then %+v", k, after, got, again, third)
					}
					if n := s.facts() - before; n != c.facts {
						t.Errorf("dead at append %d (written: %v): %d facts, want %d", k, after, n, c.facts)
					}
				}
			}
		})
	}
}

// Of two processes one waits for the other, and gives its answer.
func TestIdempotent_WaitsForAnotherProcess(t *testing.T) {
	s := newSite(t)
	inside, gate := make(chan struct{}), make(chan struct{})
	slow := &mortal{Store: s.store, held: func(st event.Stream) {
		if st.Category == session.Category {
			close(inside)
			<-gate
		}
	}}
	slow.left.Store(1000)
	one, two := s.process("one", false, slow, stands), s.process("two", false, s.store, stands)
	var first, second said
	var replayed bool
	var wg sync.WaitGroup
	wg.Go(func() { first, _ = s.send(one, "POST", "/api/v1/sessions", "key", `{}`) })
	<-inside
	if other, _ := s.send(two, "POST", "/api/v1/sessions", "key", `{"title":"other"}`); other.status != 409 {
		t.Errorf("another body: %+v", other)
	}
	wg.Go(func() { second, replayed = s.send(two, "POST", "/api/v1/sessions", "key", `{}`) })
	close(gate)
	wg.Wait()
	if first.status != 201 || second != first || !replayed || s.facts() != 1 {
		t.Fatalf("%+v, then %+v (replayed %v), %d facts", first, second, replayed, s.facts())
	}
}

// A process that has reserved and not answered for too long is not waited for.
// Should it live after all, both find the same.
func TestIdempotent_TakesOver(t *testing.T) {
	s := newSite(t)
	inside, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := &mortal{Store: s.store, held: func(st event.Stream) {
		if st.Category == session.Category {
			once.Do(func() {
				close(inside)
				<-gate
			})
		}
	}}
	slow.left.Store(1000)
	later := func() time.Time { return stands().Add(takeover) }
	one, two := s.process("one", false, slow, stands), s.process("two", false, s.store, later)
	var first said
	var wg sync.WaitGroup
	wg.Go(func() { first, _ = s.send(one, "POST", "/api/v1/sessions", "key", `{}`) })
	<-inside
	second, _ := s.send(two, "POST", "/api/v1/sessions", "key", `{}`)
	close(gate)
	wg.Wait()
	if second.status != 201 || first != second || s.facts() != 1 {
		t.Fatalf("%+v, then %+v, %d facts", second, first, s.facts())
	}
}

// What a key leaves behind are the facts of its own stream; no read model has
// anything of it, and a search nothing at all.
func TestIdempotent_LeavesFactsOnly(t *testing.T) {
	s := newSite(t)
	server := s.process("p", true, s.store, time.Now)
	made, _ := s.send(server, http.MethodPost, "/api/v1/sessions", "", `{}`)
	var session struct{ Data struct{ ID string } }
	if err := json.Unmarshal([]byte(made.text), &session); err != nil {
		t.Fatal(err)
	}
	documents := func() string {
		var all []string
		for _, p := range projections.All() {
			for _, tenant := range []string{"1", "system"} {
				page, err := s.docs.Find(t.Context(), projections.Query{Collection: p.ID(), Tenant: tenant, Limit: 1000})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range page.Documents {
					all = append(all, d.Collection+" "+d.ID)
				}
			}
		}
		return strings.Join(all, "\n")
	}
	read := func() { // brings the read models up to date
		if got, _ := s.send(server, http.MethodGet, "/api/v1/sessions", "", ""); got.status != 200 {
			t.Fatalf("%+v", got)
		}
	}
	read()
	before := documents()
	for i := range 100 {
		if got, again := s.send(server, http.MethodPost, "/api/v1/sessions/"+session.Data.ID+"/pin", fmt.Sprintf("key-%d", i), ""); got.status != 200 || again {
			t.Fatalf("%+v", got)
		}
		if got, again := s.send(server, http.MethodPost, "/api/v1/messages/search", "one key", fmt.Sprintf(`{"query":"word %d"}`, i)); got.status != 200 || again {
			t.Fatalf("%+v", got)
		}
	}
	read()
	if after := documents(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	raw, _, err := s.store.Scan(t.Context(), "", event.Filter{Categories: []string{request.Category}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, r := range raw {
		size += len(r.Data)
	}
	if len(raw) != 200 || size > 200*1000 {
		t.Errorf("%d facts of %d bytes", len(raw), size)
	}
}
