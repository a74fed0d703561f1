package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// idem sends a request with an Idempotency-Key.
func (c client) idem(key string) client { return c.with("Idempotency-Key", key) }

// runs counts the runs of a session.
func (c client) runs(t testing.TB, session string) int {
	t.Helper()
	total, _ := decode(t, c.do(t, "GET", "/api/v1/runs?session="+session, nil).body)["total"].(float64)
	return int(total)
}

// TestIdempotency_FiftyPosts: fifty identical posts at the same time make one
// run, whose stream each of them gets from its start; so does one after the
// run, and one after a restart.
func TestIdempotency_FiftyPosts(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, nil, held(gate, []string{"One "}, []string{"answer."}), say("Another."))
	id := l.session(t)
	const many = 50
	var begun, fresh atomic.Int64
	streams := make([]string, many)
	runs := make([]string, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			r := l.idem("fifty").chat(t, id, "q")
			if r.head.Get("Idempotency-Replayed") == "" {
				fresh.Add(1)
			}
			frames := r.until(t, isAnswer("One "))
			if begun.Add(1) == many {
				close(gate)
			}
			runs[i] = r.run()
			streams[i] = wire(append(frames, r.rest(t)...))
		})
	}
	wg.Wait()
	if fresh.Load() != 1 {
		t.Errorf("%d of the posts were taken for the first", fresh.Load())
	}
	check := func(when string) {
		t.Helper()
		r := l.idem("fifty").chat(t, id, "q")
		runs, streams = append(runs, r.run()), append(streams, wire(r.rest(t)))
		for i := range runs {
			if runs[i] != runs[0] || streams[i] != streams[0] || runs[i] == "" {
				t.Fatalf("%s: post %d got run %q with\n%s\nthe first got %q with\n%s", when, i, runs[i], streams[i], runs[0], streams[0])
			}
		}
		if n := l.runs(t, id); n != 1 || len(l.messages(t, id)) != 2 {
			t.Errorf("%s: %d runs", when, n)
		}
		if n := len(l.model.Requests()); n != 1 {
			t.Errorf("%s: the model was asked %d times", when, n)
		}
	}
	check("after the run")
	l.p.kill(t)
	l.up(t)
	check("after a restart")
	chat := "/api/v1/agent-chat/" + id
	l.idem("fifty").do(t, "POST", chat, ask("other", "")).refused(t, 409, 1005, "idempotency_key_reused", "new key")
	l.idem("fifty").do(t, "POST", "/api/v1/sessions", ask("q", "")).refused(t, 409, 1005, "idempotency_key_reused", "new key")
	if got := shown(l.idem("another").chat(t, id, "q").rest(t), "answer"); got != "Another." || l.runs(t, id) != 2 {
		t.Errorf("another key: %q", got)
	}
}

// TestIdempotency_EveryKindOfCall: the first answer again, byte for byte, also
// where doing it again would be refused or would undo what came after it.
func TestIdempotency_EveryKindOfCall(t *testing.T) {
	t.Parallel()
	l, c := keyed(t, nil)
	l.model.Always(say("Yes."))
	id := c.session(t)
	session := "/api/v1/sessions/" + id
	gone := c.session(t)
	bytesOf := map[string]string{}
	calls := []struct {
		key, method, path string
		body              any
	}{
		{"1", "POST", "/api/v1/sessions", map[string]any{"title": "made once"}},
		{"2", "PUT", session, map[string]any{"title": "first"}},
		{"3", "DELETE", "/api/v1/sessions/" + gone, nil},
		{"4", "POST", session + "/pin", nil},
		{"5", "DELETE", session + "/pin", nil},
		{"6", "POST", "/api/v1/tenants", map[string]any{"name": "Acme"}},
		{"7", "POST", "/api/v1/tenants/1/api-keys", map[string]any{"name": "k", "full_access": true}},
		{"8", "PUT", "/api/v1/tenants/1/api-keys/1", map[string]any{"name": "k2", "full_access": true}},
		{"9", "DELETE", "/api/v1/tenants/1/api-keys/1", nil},
	}
	for round := range 3 {
		for _, call := range calls {
			a := c.idem(call.key).do(t, call.method, call.path, call.body)
			if replayed := a.head.Get("Idempotency-Replayed") == "true"; a.status/100 != 2 || replayed != (round > 0) {
				t.Fatalf("round %d: %s %s: HTTP %d, replayed %v: %s", round, call.method, call.path, a.status, replayed, a.body)
			}
			if token, rest, found := strings.Cut(a.body, `,"token":"`); found {
				if round > 0 {
					t.Errorf("a token was kept: %s", a.body)
				}
				noSecret(t, l.s.Data, rest[:47])
				a.body = token + "}}" // shown once
			}
			text := fmt.Sprint(a.status, " ", strings.TrimSpace(a.body), a.head.Get("ETag"), a.head.Get("X-Refold-Position"), a.head.Get("Content-Type"))
			if call.key == "7" {
				text = fmt.Sprint(a.status, decode(t, strings.TrimSpace(a.body))["data"].(map[string]any)["id"])
			}
			if round == 0 {
				bytesOf[call.key] = text
			} else if text != bytesOf[call.key] {
				t.Errorf("round %d: %s %s:\n%s\nwas\n%s", round, call.method, call.path, text, bytesOf[call.key])
			}
		}
		if round == 0 {
			c.do(t, "PUT", session, map[string]any{"title": "later"})
		}
		if round == 1 {
			l.p.kill(t)
			l.up(t)
			c = l.with("X-API-Key", operatorKey)
		}
	}
	var s struct{ Title string }
	c.do(t, "GET", session, nil).data(t, 200, &s)
	if s.Title != "later" {
		t.Errorf("a repetition has undone what came after it: %q", s.Title)
	}
	if total := decode(t, c.do(t, "GET", "/api/v1/sessions", nil).body)["total"]; total != 2.0 {
		t.Errorf("%v sessions", total)
	}
}

// TestIdempotency_Upload: a form is the same whatever boundary it is sent with.
func TestIdempotency_Upload(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	id := l.session(t)
	large := []byte(strings.Repeat("A line of text.\n", 100_000))
	first := l.idem("u").upload(t, id, "a.txt", large)
	again := l.idem("u").upload(t, id, "a.txt", large)
	if first.status != 202 || again.status != 202 || again.body != first.body || again.head.Get("Idempotency-Replayed") != "true" {
		t.Errorf("HTTP %d %s, then %d %s", first.status, first.body, again.status, again.body)
	}
	l.idem("u").upload(t, id, "a.txt", large[1:]).refused(t, 409, 1005, "idempotency_key_reused", "new key")
	var list []map[string]any
	l.do(t, "GET", "/api/v1/sessions/"+id+"/attachments", nil).data(t, 200, &list)
	if len(list) != 1 {
		t.Errorf("%d attachments", len(list))
	}
}

// TestIdempotency_Refusals: bad keys are refused; what is refused frees its key;
// other principals and tenants have keys of their own; a read ignores them.
func TestIdempotency_Refusals(t *testing.T) {
	t.Parallel()
	l, c := keyed(t, nil)
	l.model.Always(say("Yes."))
	for _, bad := range []string{"", strings.Repeat("k", 256), strings.Repeat("k", 10_000), "schlüssel"} {
		c.idem(bad).do(t, "POST", "/api/v1/sessions", nil).refused(t, 400, 1000, "bad_idempotency_key", "255")
	}
	if a := c.idem(strings.Repeat("k", 255)).do(t, "POST", "/api/v1/sessions", nil); a.status != 201 {
		t.Errorf("a key of 255 bytes: HTTP %d %s", a.status, a.body)
	}
	id := c.session(t)
	c.idem("k").do(t, "PUT", "/api/v1/sessions/"+id, map[string]any{"title": strings.Repeat("t", 501)}).refused(t, 400, 1000, "title_too_long", "500")
	if a := c.idem("k").do(t, "PUT", "/api/v1/sessions/"+id, map[string]any{"title": "short"}); a.status != 200 {
		t.Errorf("after a refusal: HTTP %d %s", a.status, a.body)
	}
	two := c.newTenant(t, "Acme")
	_, token := c.newKey(t, 1, map[string]any{"name": "k", "full_access": true})
	for who, other := range map[string]client{"tenant": two, "key": l.with("X-API-Key", token)} {
		if a := other.idem("k").do(t, "POST", "/api/v1/sessions", map[string]any{"title": who}); a.status != 201 {
			t.Errorf("the same key of another %s: HTTP %d %s", who, a.status, a.body)
		}
	}
	for range 2 {
		if a := c.idem("k").do(t, "GET", "/api/v1/sessions/"+id, nil); a.status != 200 || a.head.Get("Idempotency-Replayed") != "" {
			t.Errorf("a read: HTTP %d", a.status)
		}
	}
	if a := c.idem("k").do(t, "POST", "/api/v1/nothing", nil); a.status != 404 {
		t.Errorf("no route: HTTP %d", a.status)
	}
	big := map[string]any{"query": strings.Repeat("q", 5<<20)}
	if a := c.idem("big").do(t, "POST", "/api/v1/agent-chat/"+id, big); a.status != 413 {
		t.Errorf("a large body: HTTP %d %s", a.status, a.body)
	}
}

// TestIdempotency_Kills: the server is killed at random moments while a client
// posts the same message with the same key until it has the whole answer. There
// is exactly one run, and its stream is the same for everybody.
func TestIdempotency_Kills(t *testing.T) {
	t.Parallel()
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	l := newLab(t, nil)
	l.model.Always(say("One ", "answer."))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds {
		id := l.session(t)
		key := fmt.Sprintf("round %d", round)
		kills := 1 + random.IntN(3)
		for range kills {
			ctx, stop := context.WithCancel(guarded(t))
			sent := make(chan struct{})
			var wg sync.WaitGroup
			for range 2 {
				c := l.idem(key)
				wg.Go(func() {
					select {
					case sent <- struct{}{}:
					case <-ctx.Done():
					}
					r, err := c.stream(ctx, http.MethodPost, "/api/v1/agent-chat/"+id, ask("q", ""), "")
					if err != nil {
						return // killed before it answered
					}
					defer r.close()
					for {
						if _, err := r.next(); err != nil {
							return
						}
					}
				})
			}
			<-sent
			for range random.IntN(40_000) {
				runtime.Gosched()
			}
			l.p.kill(t)
			stop()
			wg.Wait()
			l.up(t)
		}
		r := l.idem(key).chatWith(t, id, ask("q", ""))
		frames := r.rest(t)
		checkFeed(t, frames)
		if got := shown(frames, "answer"); got != "One answer." {
			t.Errorf("round %d: answer %q", round, got)
		}
		if n := l.runs(t, id); n != 1 || len(l.messages(t, id)) != 2 {
			t.Fatalf("round %d after %d kills: %d runs, %d messages", round, kills, n, len(l.messages(t, id)))
		}
		if again := l.idem(key).chatWith(t, id, ask("q", "")); again.run() != r.run() || wire(again.rest(t)) != wire(frames) {
			t.Errorf("round %d: the repetition got another stream", round)
		}
	}
}
