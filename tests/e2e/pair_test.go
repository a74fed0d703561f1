package e2e

import (
	"path/filepath"
	"sync"
	"testing"

	"refold/tests/services"
)

// TestIdempotency_TwoProcesses: fifty identical posts to two processes on one
// PostgreSQL make one run; so does one to the survivor when the other is killed.
// Keys and tenants made by one are known to the other.
func TestIdempotency_TwoProcesses(t *testing.T) {
	t.Parallel()
	dsn := services.Postgres(t, "15")
	l, one := keyed(t, func(s *settings) { s.Store = dsn })
	l.model.Always(say("One ", "answer."))
	s := l.s
	s.Data = filepath.Join(t.TempDir(), "data")
	other := start(t, s)
	operator := other.client().with("X-API-Key", operatorKey)

	one.newTenant(t, "Acme")
	two := operator.with("X-Tenant-ID", "2")
	_, token := two.newKey(t, 2, map[string]any{"name": "k", "full_access": true})
	here, there := l.with("X-API-Key", token), other.client().with("X-API-Key", token)
	id := here.session(t)

	const many = 50
	runs, streams := make([]string, many), make([]string, many)
	var wg sync.WaitGroup
	for i := range many {
		c := []client{here, there}[i%2]
		wg.Go(func() {
			r := c.idem("fifty").chat(t, id, "q")
			runs[i], streams[i] = r.run(), wire(r.rest(t))
		})
	}
	wg.Wait()
	l.p.kill(t)
	r := there.idem("fifty").chat(t, id, "q")
	runs, streams = append(runs, r.run()), append(streams, wire(r.rest(t)))
	for i := range runs {
		if runs[i] != runs[0] || streams[i] != streams[0] || runs[i] == "" {
			t.Fatalf("post %d got run %q with\n%s\nthe first got %q with\n%s", i, runs[i], streams[i], runs[0], streams[0])
		}
	}
	if n := there.runs(t, id); n != 1 || len(there.messages(t, id)) != 2 {
		t.Errorf("%d runs", n)
	}
	there.idem("fifty").do(t, "POST", "/api/v1/agent-chat/"+id, ask("other", "")).refused(t, 409, 1005, "idempotency_key_reused", "new key")

	l.up(t)
	here = l.with("X-API-Key", token)
	if a := here.do(t, "GET", "/api/v1/sessions", nil); a.status != 200 {
		t.Errorf("HTTP %d %s", a.status, a.body)
	}
	two.do(t, "DELETE", "/api/v1/tenants/2/api-keys/1", nil).same(t, 200, `{"success":true,"message":"API key revoked"}`)
	if a := here.do(t, "GET", "/api/v1/sessions", nil); a.status != 401 {
		t.Errorf("a key that the other process has revoked: HTTP %d %s", a.status, a.body)
	}
}
