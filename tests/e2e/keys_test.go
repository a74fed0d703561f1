package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKeys: a token is shown once, opens what it is given, is listed by its
// prefix, and opens nothing any more when it is revoked.
func TestKeys(t *testing.T) {
	t.Parallel()
	l, operator := keyed(t, nil)
	l.model.Always(say("Yes."))
	const keys = "/api/v1/tenants/1/api-keys"
	end := time.Now().Add(24 * time.Hour).Unix()
	a := operator.do(t, "POST", keys, map[string]any{"name": " chat only ", "capabilities": []string{"chat"}, "expires_at_unix": end, "unknown": 1})
	a.same(t, 201, `{"success":true,"data":{"id":1,"scope_type":"tenant","name":"chat only","api_key":"<text>","full_access":false,"knowledge_base_ids":[],
		"capabilities":["chat"],"expires_at":"<time>","created_at":"<time>","token":"<text>"}}`)
	var made struct {
		Token string
		Shown string `json:"api_key"`
	}
	a.data(t, 201, &made)
	if len(made.Token) != 47 || made.Shown != made.Token[:15]+"..." {
		t.Fatalf("%+v", made)
	}
	_, reader := operator.newKey(t, 1, map[string]any{"name": "reader", "capabilities": []string{"read_agents", "message_history"}})
	_, full := operator.newKey(t, 1, map[string]any{"name": "full", "full_access": true})
	chat := l.with("X-API-Key", made.Token)
	id := chat.session(t)
	if got := shown(chat.chat(t, id, "q").rest(t), "answer"); got != "Yes." {
		t.Errorf("answer %q", got)
	}
	for route, allowed := range map[string]string{
		"GET /api/v1/sessions":                "chat full",
		"GET /api/v1/sessions/" + id:          "chat full",
		"GET /api/v1/runs":                    "reader full",
		"GET /api/v1/tool-log":                "reader full",
		"GET /api/v1/agents":                  "reader full",
		"GET /api/v1/tenants":                 "chat reader full",
		"GET /api/v1/tenants/1":               "chat reader full",
		"GET " + keys:                         "",
		"POST " + keys:                        "",
		"DELETE " + keys + "/1":               "",
		"POST /api/v1/tenants":                "",
		"GET /api/v1/agent/tool-approvals":    "",
		"POST /api/v1/agent/tool-approvals/x": "",
	} {
		method, path, _ := strings.Cut(route, " ")
		for who, token := range map[string]string{"chat": made.Token, "reader": reader, "full": full} {
			got := l.with("Authorization", "Bearer "+token).do(t, method, path, nil)
			if want := map[bool]int{true: 200, false: 403}[strings.Contains(allowed, who)]; got.status != want {
				t.Errorf("%s with the key %s: HTTP %d, want %d: %s", route, who, got.status, want, got.body)
			}
		}
	}
	var rows []map[string]any
	operator.do(t, "GET", keys, nil).data(t, 200, &rows)
	if len(rows) != 3 || rows[0]["api_key"] != made.Shown || rows[0]["last_used_at"] == nil || rows[0]["token"] != nil {
		t.Errorf("the list: %v", rows)
	}
	operator.do(t, "PUT", keys+"/1", map[string]any{"name": "less", "capabilities": []string{"read_agents"}}).same(t, 200,
		`{"success":true,"data":{"id":1,"scope_type":"tenant","name":"less","api_key":"<text>","full_access":false,"knowledge_base_ids":[],
		"capabilities":["read_agents"],"last_used_at":"<time>","created_at":"<time>"}}`)
	if got := chat.do(t, "GET", "/api/v1/sessions", nil); got.status != 403 || !strings.Contains(got.body, "capability chat") {
		t.Errorf("after the update: %d %s", got.status, got.body)
	}
	operator.do(t, "DELETE", keys+"/1", nil).same(t, 200, `{"success":true,"message":"API key revoked"}`)
	operator.do(t, "DELETE", keys+"/1", nil).refused(t, 404, 1003, "key_not_found", "no such API key")
	for restart := range 2 {
		got := chat.do(t, "GET", "/api/v1/agents", nil)
		got.same(t, 401, `{"error":"this API key is not known here, or was revoked"}`)
		if got := l.with("X-API-Key", full).do(t, "GET", "/api/v1/agents", nil); got.status != 200 {
			t.Errorf("restart %d: the other key: %d %s", restart, got.status, got.body)
		}
		l.p.kill(t)
		l.up(t)
		chat = l.with("X-API-Key", made.Token)
	}
	for _, bad := range []string{"", "sk-", full[:46] + strings.Trim("xy", full[46:])[:1], "sk-" + strings.Repeat("A", 44), "' OR 1=1", strings.Repeat("k", 10_000)} {
		if got := l.with("X-API-Key", bad).do(t, "GET", "/api/v1/sessions", nil); got.status != 401 {
			t.Errorf("%.20q: HTTP %d %s", bad, got.status, got.body)
		}
	}
	noSecret(t, l.s.Data, made.Token, full, reader)
}

// noSecret looks for tokens in every file of the record.
func noSecret(t testing.TB, dir string, tokens ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range tokens {
			if strings.Contains(string(raw), token[15:]) {
				t.Errorf("%s holds a token", file)
			}
		}
	}
}

func TestKeys_Refusals(t *testing.T) {
	t.Parallel()
	_, operator := keyed(t, nil)
	const keys = "/api/v1/tenants/1/api-keys"
	for _, c := range []struct{ body, reason, part string }{
		{`{}`, "name_required", "name"},
		{`{"name":"` + strings.Repeat("n", 129) + `","full_access":true}`, "bad_name", "128"},
		{`{"name":"n"}`, "capabilities_required", "chat"},
		{`{"name":"n","capabilities":["root"]}`, "unknown_capability", "root"},
		{`{"name":"n","full_access":true,"expires_at_unix":1}`, "expires_in_the_past", "past"},
		{`{"name":"n","full_access":true,"expires_at_unix":-1}`, "bad_request", "expires_at_unix"},
		{`{"name":"n","full_access":true,"expires_at_unix":9223372036854775807}`, "bad_request", "expires_at_unix"},
		{`{"name":"n","full_access":"yes"}`, "bad_request", "full_access"},
		{`{"name":5}`, "bad_request", "name"},
	} {
		operator.do(t, "POST", keys, c.body).refused(t, 400, 1000, c.reason, c.part)
	}
	operator.do(t, "PUT", keys+"/x", `{"name":"n","full_access":true}`).refused(t, 400, 1000, "bad_request", "number")
	operator.do(t, "PUT", keys+"/99999999999999999999", `{"name":"n","full_access":true}`).refused(t, 404, 1003, "key_not_found", "no such")
	operator.do(t, "GET", "/api/v1/tenants/2/api-keys", nil).refused(t, 403, 1002, "another_tenant", "X-Tenant-ID")
	operator.do(t, "GET", keys, nil).same(t, 200, `{"success":true,"data":[]}`)
}

// TestKeysCommand: with and without a running server.
func TestKeysCommand(t *testing.T) {
	t.Parallel()
	l, _ := keyed(t, nil)
	data := l.s.Data
	run := func(args ...string) result {
		t.Helper()
		out := refold(t, append([]string{"--data", data}, args...)...)
		if out.code != 0 {
			t.Fatalf("refold %v: exit %d\n%s%s", args, out.code, out.stdout, out.stderr)
		}
		return out
	}
	for n, when := range []string{"beside the server", "without one"} {
		name := fmt.Sprintf("Tenant %d", n)
		tenant := fmt.Sprint(n + 2)
		if out := run("tenants", "create", name); strings.TrimSpace(out.stdout) != tenant+"  "+name {
			t.Errorf("%s: %q", when, out.stdout)
		}
		token := strings.TrimSpace(run("keys", "create", "for tests", "--can", "chat", "--tenant", tenant).stdout)
		if len(token) != 47 {
			t.Fatalf("%s: %q", when, token)
		}
		if out := run("keys", "--tenant", tenant); !strings.Contains(out.stdout, token[:15]+"...") || strings.Contains(out.stdout, token) {
			t.Errorf("%s: %s", when, out.stdout)
		}
		if n == 1 {
			l.up(t)
		}
		c := l.with("X-API-Key", token)
		if a := c.do(t, "GET", "/api/v1/sessions", nil); a.status != 200 {
			t.Errorf("%s: HTTP %d %s", when, a.status, a.body)
		}
		if rows := jsonLines(t, run("--json", "keys", "list", "--tenant", tenant).stdout); len(rows) != 1 || rows[0]["last_used_at"] == nil {
			t.Errorf("%s: %v", when, rows)
		}
		run("keys", "revoke", "1", "--tenant", tenant)
		if a := c.do(t, "GET", "/api/v1/sessions", nil); a.status != 401 {
			t.Errorf("%s: revoked: HTTP %d %s", when, a.status, a.body)
		}
		if out := refold(t, "--data", data, "keys", "revoke", "1", "--tenant", tenant); out.code != 1 || !strings.Contains(out.stderr, "no such API key") {
			t.Errorf("%s: exit %d %s", when, out.code, out.stderr)
		}
		l.p.kill(t)
	}
	if rows := jsonLines(t, run("--json", "tenants").stdout); len(rows) != 3 || rows[2]["name"] != "Tenant 1" {
		t.Errorf("%v", rows)
	}
}

// On a server without a key of its own a stored key still means what it says.
func TestKeys_OnAnOpenServer(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	_, token := l.newKey(t, 1, map[string]any{"name": "k", "capabilities": []string{"read_agents"}})
	c := l.with("X-API-Key", token)
	if a := c.do(t, "GET", "/api/v1/sessions", nil); a.status != 403 {
		t.Errorf("HTTP %d %s", a.status, a.body)
	}
	l.do(t, "DELETE", "/api/v1/tenants/1/api-keys/1", nil)
	if a := c.do(t, "GET", "/api/v1/agents", nil); a.status != 401 {
		t.Errorf("a revoked key: HTTP %d %s", a.status, a.body)
	}
	if a := l.with("X-API-Key", "whatever").do(t, "GET", "/api/v1/sessions", nil); a.status != 200 {
		t.Errorf("a key that is none of ours: HTTP %d %s", a.status, a.body)
	}
}
