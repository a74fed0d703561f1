package e2e

import (
	"strconv"
	"strings"
	"testing"
)

// TestRates: who asks too much is told when to ask again; others are not
// affected, nor are health checks and the command line of the machine's user.
func TestRates(t *testing.T) {
	l, operator := keyed(t, func(s *settings) { s.Rate, s.ChatRate = "120/m", "1/h" })
	l.model.Always(say("Yes."))
	for range 2 {
		if out := refold(t, "--data", l.s.Data, "keys", "create", "k", "--full"); out.code != 0 {
			t.Fatal(out.stderr)
		}
	}
	id := operator.session(t)
	operator.chat(t, id, "q").rest(t)
	a := operator.do(t, "POST", "/api/v1/agent-chat/"+id, ask("again", ""))
	a.same(t, 429, `{"success":false,"error":{"code":1006,"message":"<text>","details":{"reason":"rate_limited","retry_after":"<number>"}}}`)
	if s, err := strconv.Atoi(a.head.Get("Retry-After")); err != nil || s < 1 || s > 3600 {
		t.Errorf("Retry-After %q", a.head.Get("Retry-After"))
	}
	refused := false
	for range 100 { // ten at once; two a second more
		if a := operator.do(t, "GET", "/api/v1/agents", nil); a.status == 429 {
			refused = true
			break
		}
	}
	if !refused {
		t.Error("a hundred requests were taken")
	}
	if a := operator.do(t, "GET", "/healthz", nil); a.status != 200 {
		t.Errorf("health: HTTP %d", a.status)
	}
	out := refold(t, "--data", l.s.Data, "--json", "keys", "create", "another", "--full")
	rows := jsonLines(t, out.stdout)
	if out.code != 0 || len(rows) != 1 {
		t.Fatalf("the command line is limited: %s", out.stderr)
	}
	other := l.with("X-API-Key", rows[0]["token"].(string))
	if a := other.do(t, "GET", "/api/v1/agents", nil); a.status != 200 {
		t.Errorf("another key: HTTP %d %s", a.status, a.body)
	}
	if out := refold(t, "--data", t.TempDir(), "serve", "--rate", "fast"); out.code != 2 || !strings.Contains(out.stderr, "20/s") {
		t.Errorf("a bad rate: exit %d %s", out.code, out.stderr)
	}
}
