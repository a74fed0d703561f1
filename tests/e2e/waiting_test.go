package e2e

import (
	"strings"
	"testing"
	"time"

	"refold/tests/scripted"
)

// waitsFor asks until a run waits, or does not any more, and gives for what.
func (c client) waitsFor(t testing.TB, run string, part string) string {
	t.Helper()
	ctx := guarded(t)
	for {
		var row struct {
			WaitsFor string `json:"waits_for"`
		}
		c.do(t, "GET", "/api/v1/runs/"+run, nil).data(t, 200, &row)
		if strings.Contains(row.WaitsFor, part) && row.WaitsFor != "" {
			return row.WaitsFor
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("run %s waits for %q", run, row.WaitsFor)
		}
	}
}

// TestModelGoneAfterRestart: a run whose model the next server does not have
// waits, and every place where one looks says so; the server after that goes on.
func TestModelGoneAfterRestart(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, held(gate, []string{"One "}, nil), say("All of it."))
	id := l.session(t)
	r := l.chat(t, id, "q")
	r.until(t, isAnswer("One "))
	l.p.kill(t)
	url := l.s.ModelURL
	l.s.ModelURL = ""
	l.up(t)
	if why := l.waitsFor(t, r.run(), ""); !strings.Contains(why, `the model "scripted" is not configured on this server; there are extractive; the run waits until it is`) {
		t.Errorf("waits for %q", why)
	}
	if a := l.do(t, "GET", "/readyz", nil); a.status != 200 || !strings.Contains(a.body, `runs that wait: 1, since the model \"scripted\" is not configured`) {
		t.Errorf("readyz: HTTP %d %s", a.status, a.body)
	}
	if !strings.Contains(l.p.log.String(), "a run waits for its model") {
		t.Error("the log does not say it")
	}
	if a := l.do(t, "POST", "/api/v1/agent-chat/"+id, map[string]any{"query": "meanwhile"}); a.status != 409 {
		t.Errorf("a message meanwhile: HTTP %d %s", a.status, a.body)
	}
	l.p.kill(t)
	l.s.ModelURL = url
	l.up(t)
	frames := l.watch(t, id, r.run(), "").rest(t)
	checkFeed(t, frames)
	if shown(frames, "answer") != "All of it." {
		t.Errorf("feed:\n%s", wire(frames))
	}
	if a := l.do(t, "GET", "/readyz", nil); a.body != "{\"status\":\"ready\"}\n" {
		t.Errorf("readyz after it: %s", a.body)
	}
}

// TestRetryAfterIsShown (P37): who asks learns that the provider wants a pause,
// and until when.
func TestRetryAfterIsShown(t *testing.T) {
	t.Parallel()
	slow := scripted.Respond(429, map[string]string{"Retry-After": "4", "Content-Type": "application/json"}, `{"error":{"message":"slow down, please"}}`)
	l := newLab(t, nil, slow, say("Now."), slow, say("Now."))
	id := l.session(t)
	r := l.chat(t, id, "q")
	if why := l.waitsFor(t, r.run(), "slow down, please"); !strings.Contains(why, "; asked again at ") {
		t.Errorf("waits for %q", why)
	}
	r.rest(t)
	var row map[string]any
	if l.do(t, "GET", "/api/v1/runs/"+r.run(), nil).data(t, 200, &row); row["waits_for"] != nil || row["failed_attempts"] != 1.0 {
		t.Errorf("after the end: %v", row)
	}
	out := refold(t, "--data", l.s.Data, "ask", "q")
	if out.code != 0 || out.stdout != "Now.\n" || strings.Count(out.stderr, "Waiting: ") != 1 || !strings.Contains(out.stderr, "slow down, please") {
		t.Errorf("ask: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}
