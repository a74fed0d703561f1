package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"refold/api"
)

const operatorKey = "operator-key-0123456789"

// keyed starts a server that asks for keys and gives the operator's client.
func keyed(t testing.TB, change func(*settings)) (*lab, client) {
	t.Helper()
	l := newLab(t, func(s *settings) {
		s.Key = operatorKey
		if change != nil {
			change(s)
		}
	})
	return l, l.with("X-API-Key", operatorKey)
}

// newTenant makes a tenant and gives the operator's client for it.
func (c client) newTenant(t testing.TB, name string) client {
	t.Helper()
	var made struct{ ID int }
	c.do(t, "POST", "/api/v1/tenants", map[string]any{"name": name}).data(t, 201, &made)
	return c.with("X-Tenant-ID", fmt.Sprint(made.ID))
}

// newKey makes a key of the client's tenant and gives its number and token.
func (c client) newKey(t testing.TB, tenant int, body map[string]any) (int, string) {
	t.Helper()
	var made struct {
		ID    int
		Token string
	}
	c.do(t, "POST", fmt.Sprintf("/api/v1/tenants/%d/api-keys", tenant), body).data(t, 201, &made)
	if !strings.HasPrefix(made.Token, "sk-") {
		t.Fatalf("token %q", made.Token)
	}
	return made.ID, made.Token
}

// TestTenants_SeeTheirOwnOnly asks, as another tenant, every route that the
// server has for what belongs to tenant 1: by the operator in that tenant, who
// may ask anything, and by a key with full access.
func TestTenants_SeeTheirOwnOnly(t *testing.T) {
	t.Parallel()
	l, one := keyed(t, nil)
	l.model.Push(mail(`{"to":"anvil@example.test"}`))
	l.model.Always(say("Yes."))
	two := one.newTenant(t, "Acme")
	oneKey, oneToken := one.newKey(t, 1, map[string]any{"name": "mine", "full_access": true})
	_, token := two.newKey(t, 2, map[string]any{"name": "theirs", "full_access": true})
	key := l.with("X-API-Key", token)

	id := one.session(t)
	r := one.chat(t, id, "the anvil question")
	approval, frames := asked(t, r)
	queued := one.chatWith(t, id, ask("the anvil message that waits", "enqueue"))
	message := queued.head.Get("X-Refold-Message")
	queued.close()
	var file attached
	one.upload(t, id, "anvil.txt", []byte("the anvil text")).data(t, 202, &file)
	k := one.stock(t)
	secrets := append([]string{id, r.run(), approval, message, file.ID, "anvil", oneToken[:15]}, k.secrets()...)
	before := snapshot(t, one, id, r.run()) + k.snapshot(t, one)

	fill := strings.NewReplacer("{document}", k.document, "{chunk}", k.chunk, "{entry}", fmt.Sprint(k.entry), "{tag}", k.tag, "{task}", k.task, "{session}", id, "{run}", r.run(), "{approval}", approval, "{message}", message, "{attachment}", file.ID, "{tenant}", "1", "{key}", fmt.Sprint(oneKey))
	bodies := map[string]any{
		"POST /api/v1/agent-chat/{session}":              ask("hello?", ""),
		"POST /api/v1/knowledge-chat/{session}":          ask("hello?", ""),
		"DELETE /api/v1/sessions/batch":                  map[string]any{"ids": []string{id}},
		"POST /api/v1/sessions/{session}/stop":           map[string]any{"message_id": r.run()},
		"POST /api/v1/sessions/{session}/generate_title": map[string]any{"messages": []any{map[string]any{"role": "user", "content": "hello"}}},
		"PUT /api/v1/sessions/{session}/queue/{message}": map[string]any{"query": "changed"},
		"POST /api/v1/messages/search":                   map[string]any{"query": "anvil"},
		"POST /api/v1/agent/tool-approvals/{approval}":   map[string]any{"decision": "approve"},
		"POST /api/v1/tenants/{tenant}/api-keys":         map[string]any{"name": "x", "full_access": true},
		"PUT /api/v1/tenants/{tenant}/api-keys/{key}":    map[string]any{"name": "x", "full_access": true},
	}
	maps.Copy(bodies, k.bodies())
	// What is answered to another tenant; a route without a line must be 404.
	want := map[string]int{
		"GET /api/v1/sessions": 200, "POST /api/v1/messages/search": 200, "GET /api/v1/messages/chat-history-stats": 200,
		"GET /api/v1/agent/tool-approvals": 200, "GET /api/v1/tool-log": 200, "GET /api/v1/runs": 200, "GET /api/v1/tenants": 200,
		"GET /api/v1/usage":           200,
		"GET /api/v1/knowledge-bases": 200, "GET /api/v1/knowledge/batch": 200, "GET /api/v1/knowledge/search": 200,
		"GET /api/v1/tenants/{tenant}": 403, "GET /api/v1/tenants/{tenant}/api-keys": 403, "POST /api/v1/tenants/{tenant}/api-keys": 403,
		"PUT /api/v1/tenants/{tenant}/api-keys/{key}": 403, "DELETE /api/v1/tenants/{tenant}/api-keys/{key}": 403,
	}
	// What belongs to no tenant, or to the one that asks.
	common := map[string]bool{"GET /api/v1/agents": true, "GET /api/v1/agents/{agent}": true, "GET /api/v1/tenants/all": true, "POST /api/v1/tenants": true,
		"POST /api/v1/knowledge-bases": true, "POST /api/v1/chunker/preview": true, "POST /api/v1/sessions": true, "GET /api/v1/views": true, "POST /api/v1/views/{view}/rebuild": true}
	asked := 0
	err := chi.Walk((&api.API{}).Handler().(chi.Routes), func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		route := method + " " + pattern
		if !strings.HasPrefix(pattern, "/api/v1/") || common[route] {
			return nil
		}
		asked++
		path := fill.Replace(strings.ReplaceAll(pattern, "{base}", k.baseOf(pattern)))
		if strings.Contains(path, "{") {
			t.Errorf("%s: this test knows no id for it", route)
			return nil
		}
		switch {
		case strings.Contains(pattern, "continue-stream"):
			path += "?message_id=" + r.run()
		case strings.HasSuffix(pattern, "/knowledge/batch"):
			path += "?ids=" + k.document
		case strings.HasSuffix(pattern, "/knowledge/search"):
			path += "?keyword=anvil"
		case strings.HasSuffix(pattern, "/files"):
			path += "?file_path=anvil.txt"
		}
		for who, c := range map[string]client{"operator": two, "key": key} {
			a := c.do(t, method, path, bodies[route])
			status := want[route]
			if status == 0 {
				status = 404
			}
			if closed := who == "key" && a.status == 403; a.status != status && !closed {
				t.Errorf("%s by the %s of another tenant: HTTP %d, want %d: %s", route, who, a.status, status, a.body)
			}
			for _, s := range secrets {
				if strings.Contains(a.body, s) {
					t.Errorf("%s by the %s of another tenant tells %q: %s", route, who, s, a.body)
				}
			}
			data, _ := decode(t, a.body)["data"].(map[string]any)
			for _, n := range []any{decode(t, a.body)["total"], data["total"], data["calls"], data["indexed_message_count"]} {
				if n != nil && n != 0.0 {
					t.Errorf("%s by the %s of another tenant counts %v: %s", route, who, n, a.body)
				}
			}
		}
		return nil
	})
	if err != nil || asked < 20 {
		t.Fatalf("%d routes were asked, %v", asked, err)
	}
	if after := snapshot(t, one, id, r.run()) + k.snapshot(t, one); after != before {
		t.Errorf("another tenant has changed something:\n%s\nwas\n%s", after, before)
	}

	// Ids of another tenant are none in what is our own.
	own := two.session(t)
	body := ask("q", "")
	body["attachment_ids"] = []string{file.ID}
	two.do(t, "POST", "/api/v1/agent-chat/"+own, body).refused(t, 400, 1000, "bad_request", "no attachment")
	k.noneOf(t, two)
	// Places of another tenant's streams are none of ours.
	mine := two.chat(t, own, "q").rest(t)
	for _, path := range []string{"/api/v1/sessions/" + own + "/events?follow=false", continued(own, two.messages(t, own)[1].ID)} {
		got := two.open(t, path, frames[len(frames)-1].id).rest(t)
		if len(got) == 0 || got[0].event != "resync" || wire(got[1:]) != wire(mine) {
			t.Errorf("%s from a place of another tenant:\n%s", path, wire(got))
		}
	}
	for path, tenant := range map[string]float64{"/api/v1/sessions/" + own: 2, "/api/v1/agents/builtin-smart-reasoning": 2} {
		data, _ := decode(t, key.do(t, "GET", path, nil).body)["data"].(map[string]any)
		if data["tenant_id"] != tenant {
			t.Errorf("%s: tenant_id %v", path, data["tenant_id"])
		}
	}
}

// snapshot is what tenant 1 sees of its own.
func snapshot(t testing.TB, c client, session, run string) string {
	t.Helper()
	var b strings.Builder
	for _, path := range []string{"/api/v1/sessions", "/api/v1/sessions/" + session, "/api/v1/sessions/" + session + "/queue", "/api/v1/sessions/" + session + "/attachments", "/api/v1/messages/" + session + "/load",
		"/api/v1/runs/" + run, "/api/v1/runs", "/api/v1/agent/tool-approvals", "/api/v1/tool-log", "/api/v1/tenants/1/api-keys"} {
		fmt.Fprintf(&b, "%s %s\n", path, c.do(t, "GET", path, nil).body)
	}
	return b.String()
}

// TestTenants_HeaderAndRestart: X-Tenant-ID chooses, a key does not choose, and
// the open runs of every tenant go on after a restart.
func TestTenants_HeaderAndRestart(t *testing.T) {
	t.Parallel()
	l, one := keyed(t, nil)
	l.model.Push(mail(`{"to":"a@example.test"}`))
	l.model.Always(say("Done."))
	two := one.newTenant(t, "Acme")
	one.do(t, "POST", "/api/v1/tenants", map[string]any{"name": "Acme"}).refused(t, 409, 2001, "tenant_exists", "another name")
	_, token := two.newKey(t, 2, map[string]any{"name": "k", "full_access": true})
	for _, c := range []struct {
		key, header string
		status      int
	}{{operatorKey, "0", 400}, {operatorKey, "-1", 400}, {operatorKey, "x", 400}, {operatorKey, "02", 400}, {operatorKey, "9", 403}, {operatorKey, "1", 200},
		{operatorKey, "2", 200}, {token, "1", 403}, {token, "9", 403}, {token, "2", 200}, {token, "", 200}} {
		a := l.with("X-API-Key", c.key).with("X-Tenant-ID", c.header).do(t, "GET", "/api/v1/sessions", nil)
		if a.status != c.status || a.status != 200 && !strings.Contains(a.body, `{"error":"`) {
			t.Errorf("tenant %q: HTTP %d %s", c.header, a.status, a.body)
		}
	}
	var all struct {
		Items []struct {
			ID   int
			Name string
		}
		Total int
	}
	one.do(t, "GET", "/api/v1/tenants/all", nil).data(t, 200, &all)
	if all.Total != 2 || len(all.Items) != 2 || all.Items[0].Name != "Default" || all.Items[1].ID != 2 {
		t.Errorf("%+v", all)
	}
	if a := l.with("X-API-Key", token).do(t, "GET", "/api/v1/tenants/all", nil); a.status != 403 {
		t.Errorf("a key sees all tenants: %d %s", a.status, a.body)
	}
	id := two.session(t)
	approval, _ := asked(t, two.chat(t, id, "q"))
	l.p.kill(t)
	l.up(t)
	one = l.with("X-API-Key", operatorKey)
	two = one.with("X-Tenant-ID", "2")
	if a := one.do(t, "POST", resolvePath(approval), map[string]any{"decision": "approve"}); a.status != 404 {
		t.Errorf("tenant 1 answers for tenant 2: %d %s", a.status, a.body)
	}
	two.do(t, "POST", resolvePath(approval), map[string]any{"decision": "approve"}).same(t, 200, `{"success":true}`)
	run := two.messages(t, id)[1].ID
	if got := shown(two.watch(t, id, run, "").rest(t), "answer"); got != "Done." {
		t.Errorf("the run of tenant 2 after the restart: %q", got)
	}
	if out := refold(t, "--data", l.s.Data, "--tenant", "2", "--json", "replay", run); out.code != 0 || !strings.Contains(out.stdout, "RunCompleted") {
		t.Errorf("replay: %d %s %s", out.code, out.stdout, out.stderr)
	}
	if out := refold(t, "--data", l.s.Data, "replay", run); out.code != 1 || !strings.Contains(out.stderr, "tenant 1 has no run") {
		t.Errorf("replay in another tenant: %d %s", out.code, out.stderr)
	}
}

// TestTenants_Workspaces: a root is for one tenant.
func TestTenants_Workspaces(t *testing.T) {
	t.Parallel()
	dirs := [3]string{"", t.TempDir(), t.TempDir()}
	for n := 1; n <= 2; n++ {
		if err := os.Mkdir(filepath.Join(dirs[n], "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l, one := keyed(t, func(s *settings) { s.Roots = []string{dirs[1], "2=" + dirs[2]} })
	l.model.Always(say("Yes."))
	two := one.newTenant(t, "Acme")
	for n, c := range map[int]client{1: one, 2: two} {
		for of := 1; of <= 2; of++ {
			body := ask("q", "")
			body["workspace"] = filepath.Join(dirs[of], "sub")
			res, err := c.send(guarded(t), "POST", "/api/v1/agent-chat/"+c.session(t), body, nil)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if want := map[bool]int{true: 200, false: 403}[n == of]; res.StatusCode != want {
				t.Errorf("tenant %d opens the folder of tenant %d: HTTP %d", n, of, res.StatusCode)
			}
		}
	}
}
