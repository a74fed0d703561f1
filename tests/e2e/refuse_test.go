package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"refold/tests/scripted"
)

func decode(t testing.TB, body string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

// TestChatRefusals: what can't be asked is said before a stream begins, and
// leaves nothing behind.
func TestChatRefusals(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("Yes."))
	id := l.session(t)
	chat := "/api/v1/agent-chat/" + id
	for _, c := range []struct {
		body, reason, part string
	}{
		{``, "empty_query", "empty"},
		{`{}`, "empty_query", "empty"},
		{`{"query":""}`, "empty_query", "empty"},
		{`{"query":" \n\t　"}`, "empty_query", "empty"},
		{`{"query":null}`, "empty_query", "empty"},
		{`null`, "empty_query", "empty"},
		{`{"query":"q","agent_enabled":true}`, "bad_request", "agent_id is required"},
		{`{"query":"q","agent_enabled":true,"agent_id":""}`, "bad_request", "agent_id is required"},
		{`{"query":"q","agent_id":"nobody"}`, "agent_not_found", "no such agent"},
		{`{"query":`, "bad_request", "not valid JSON"},
		{`{"query":"q"}}`, "bad_request", "not valid JSON"},
		{`{"query":"q",}`, "bad_request", "at byte"},
		{`[1]`, "bad_request", "must be a JSON object, not array"},
		{`"q"`, "bad_request", "must be a JSON object, not string"},
		{`{"query":5}`, "bad_request", `\"query\" must be a string, not number`},
		{`{"query":"q","agent_enabled":"yes"}`, "bad_request", `\"agent_enabled\" must be true or false, not string`},
		{`{"query":"q","agent_id":{}}`, "bad_request", `\"agent_id\" must be a string, not object`},
		{"{\"query\":\"a\xffb\"}", "bad_request", "UTF-8"},
		{`{"query":"q","channel":"` + strings.Repeat("c", 65) + `"}`, "bad_request", "64"},
		{`{"query":"` + strings.Repeat("字", 100_001) + `"}`, "query_too_long", "100001"},
		{`{"query":"q","workspace":"relative"}`, "bad_request", "absolute"},
		{`{"query":"q","summary_model_id":"no-such-model"}`, "model_not_configured", "there are scripted, extractive"},
	} {
		a := l.do(t, "POST", chat, c.body)
		if len(c.body) > 200 {
			c.body = c.body[:200]
		}
		a.refused(t, 400, 1000, c.reason, c.part)
		if t.Failed() {
			t.Fatalf("the body was %s", c.body)
		}
	}
	l.do(t, "POST", chat, `{"query":"`+strings.Repeat("q", 4<<20)+`"}`).refused(t, 413, 1000, "", "4 MiB")
	l.do(t, "POST", "/api/v1/sessions", `{"title":"`+strings.Repeat("q", 1<<20)+`"}`).refused(t, 413, 1000, "", "1 MiB")
	l.do(t, "POST", "/api/v1/agent-chat/nope", `{"query":"q"}`).refused(t, 404, 1003, "session_not_found", "")
	if n := len(l.messages(t, id)); n != 0 || len(l.model.Requests()) != 0 {
		t.Errorf("the refusals left %d messages and %d model calls", n, len(l.model.Requests()))
	}
	// The largest question, unknown fields and nulls are taken.
	long := strings.Repeat("字", 100_000)
	if got := l.chatWith(t, id, map[string]any{"query": long, "knowledge_ids": nil, "images": nil, "no_such_field": 1}).rest(t); got[len(got)-1].Type != "complete" {
		t.Errorf("the longest question: %s", got[len(got)-1].raw)
	}
	if m := l.messages(t, id); m[0].Content != long {
		t.Error("the longest question is not what is stored")
	}
}

// TestOneRunAtATime: a message while a run is in progress is refused and names
// that run, whoever sends it.
func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	l := newLab(t, nil, held(gate, []string{"One"}, nil), say("Two"))
	id := l.session(t)
	r := l.chat(t, id, "q")
	l.do(t, "POST", "/api/v1/agent-chat/"+id, `{"query":"again"}`).same(t, 409, `{"success":false,"error":{"code":1005,"message":"<text>",
		"details":{"reason":"run_in_progress","run_id":"`+r.run()+`","message_id":"`+r.run()+`"}}}`)
	close(gate)
	r.rest(t)
	if next := l.chat(t, id, "again").rest(t); shown(next, "answer") != "Two" {
		t.Errorf("after the end: %s", wire(next))
	}
	if n := len(l.messages(t, id)); n != 4 {
		t.Errorf("%d messages", n)
	}
}

// TestStopRefusals: the stop route's errors are bare.
func TestStopRefusals(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("Yes."))
	a, b := l.session(t), l.session(t)
	ra, rb := l.chat(t, a, "q"), l.chat(t, b, "q")
	ra.rest(t)
	rb.rest(t)
	stop := "/api/v1/sessions/" + a + "/stop"
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{stop, ``, 400}, {stop, `{}`, 400}, {stop, `{"message_id":""}`, 400}, {stop, `{"message_id":7}`, 400}, {stop, `{"message`, 400},
		{stop, `{"message_id":"nope"}`, 404}, {stop, `{"message_id":"` + rb.run() + `"}`, 403},
		{"/api/v1/sessions/nope/stop", `{"message_id":"` + ra.run() + `"}`, 404},
	} {
		l.do(t, "POST", c.path, c.body).same(t, c.status, `{"error":"<text>"}`)
	}
	l.do(t, "POST", stop, `{"message_id":"`+ra.run()+`"}`).same(t, 200, `{"success":true,"message":"Message already completed"}`)
	if m := l.message(t, a, ra.run()); m.Outcome != "completed" || m.Content != "Yes." {
		t.Errorf("a stop after the end has changed the message: %+v", m)
	}
}

// TestRouteRefusals: unknown routes, methods and streams.
func TestRouteRefusals(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("Yes."))
	id := l.session(t)
	l.chat(t, l.session(t), "q").rest(t)
	foreign := l.chat(t, l.session(t), "q")
	foreign.rest(t)
	for _, path := range []string{"/api/v1", "/api/v1/nope", "/api/v2/sessions", "/api/v1/sessions/" + id + "/nope"} {
		l.do(t, "GET", path, nil).refused(t, 404, 1003, "not_found", "no such route")
	}
	l.do(t, "PATCH", "/api/v1/sessions/"+id, nil).refused(t, 405, 1004, "", "PATCH")
	l.do(t, "DELETE", "/api/v1/agents", nil).refused(t, 405, 1004, "", "DELETE")
	l.do(t, "GET", "/api/v1/sessions/continue-stream/"+id, nil).refused(t, 400, 1000, "bad_request", "message_id is required")
	for _, run := range []string{"nope", foreign.run(), strings.Repeat("x", 2000)} {
		l.do(t, "GET", continued(id, run), nil).refused(t, 404, 1003, "not_found", "no such message")
		l.do(t, "GET", "/api/v1/sessions/"+id+"/events?message_id="+run, nil).refused(t, 404, 1003, "not_found", "no such message")
	}
	for _, value := range []string{"no", "banana", "True", "2", "%20"} {
		l.do(t, "GET", "/api/v1/sessions/"+id+"/events?follow="+value, nil).refused(t, 400, 1000, "bad_request", "follow must be true or false")
		l.do(t, "GET", "/api/v1/knowledge/search?recent="+value, nil).refused(t, 400, 1000, "bad_request", "recent must be true or false")
	}
	l.do(t, "GET", continued("nope", foreign.run()), nil).refused(t, 404, 1003, "session_not_found", "")
	l.do(t, "GET", "/api/v1/sessions/nope/events", nil).refused(t, 404, 1003, "session_not_found", "")
}

// TestKey: a server with a key answers nobody without it, and everybody's
// browser with it.
func TestKey(t *testing.T) {
	t.Parallel()
	const key = "a-key-of-sixteen-or-more"
	l := newLab(t, func(s *settings) { s.Key = key })
	for _, c := range []client{l.client, l.with("X-API-Key", "wrong"), l.with("X-API-Key", key+"x"), l.with("Authorization", "Bearer wrong"), l.with("Authorization", key),
		l.with("X-Refold-Local", "guess"), l.with("X-Refold-Local", "")} {
		want := "an API key is needed"
		if c.head["X-API-Key"] != "" || strings.HasPrefix(c.head["Authorization"], "Bearer ") {
			want = "this API key is wrong"
		}
		for _, path := range []string{"/api/v1/sessions", "/api/v1/sessions/x/events", "/api/v1/runs"} {
			a := c.do(t, "GET", path, nil)
			if a.same(t, 401, `{"error":"<text>"}`); !strings.Contains(a.body, want) {
				t.Errorf("%v: %s, want %q", c.head, a.body, want)
			}
		}
		c.do(t, "POST", "/api/v1/sessions", `{}`).same(t, 401, `{"error":"<text>"}`)
	}
	for _, c := range []client{l.with("X-API-Key", key), l.with("Authorization", "Bearer "+key)} {
		a := c.with("Origin", "https://app.example").with("Host", "refold.example").do(t, "GET", "/api/v1/sessions", nil)
		if a.status != 200 || a.head.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("with the key: HTTP %d, CORS %q", a.status, a.head.Get("Access-Control-Allow-Origin"))
		}
	}
	if a := l.with("Origin", "https://app.example").do(t, "OPTIONS", "/api/v1/sessions", nil); a.status != 204 || a.head.Get("Access-Control-Allow-Methods") == "" {
		t.Errorf("preflight: HTTP %d", a.status)
	}
	l.do(t, "GET", "/health", nil).same(t, 200, `{"status":"ok","version":"e2e"}`)
	raw, err := os.ReadFile(filepath.Join(l.s.Data, "server.json"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(l.s.Data, "server.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the local key is readable for others: %v %v", info.Mode(), err)
	}
	local, _ := decode(t, string(raw))["local_key"].(string)
	if strings.Contains(string(raw), key) || local == "" {
		t.Errorf("server.json: %s", raw)
	}
	if a := l.with("X-Refold-Local", local).do(t, "GET", "/api/v1/sessions", nil); a.status != 200 {
		t.Errorf("with the local key: HTTP %d", a.status)
	}
}

// TestGuard: without a key only this machine is answered, and no web page of
// another host can make a browser ask.
func TestGuard(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	for _, good := range []client{l.client, l.with("Host", "localhost:1"), l.with("Host", "[::1]:80"), l.with("Host", "127.0.0.2"),
		l.with("Origin", "http://localhost:3000"), l.with("Origin", "http://127.0.0.1")} {
		if a := good.do(t, "GET", "/api/v1/sessions", nil); a.status != 200 {
			t.Errorf("%v: HTTP %d", good.head, a.status)
		}
	}
	for _, bad := range []client{l.with("Host", "evil.example"), l.with("Host", "localhost.evil.example"), l.with("Host", "127.0.0.1.evil.example:80"),
		l.with("Origin", "https://evil.example"), l.with("Origin", "null"), l.with("Origin", "http://localhost.evil.example"), l.with("Origin", "localhost"),
		l.with("Origin", "http://localhost@evil.example")} {
		for _, path := range []string{"/api/v1/sessions", "/health", "/nope"} {
			bad.do(t, "GET", path, nil).refused(t, 403, 1002, "", "localhost")
		}
		bad.do(t, "POST", "/api/v1/sessions", `{}`).refused(t, 403, 1002, "", "localhost")
	}
	if a := l.do(t, "GET", "/health", nil); a.head.Get("Access-Control-Allow-Origin") != "" {
		t.Error("CORS without a key")
	}
}

// TestRequestID: the caller's id comes back, unless it is of no use.
func TestRequestID(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	for _, good := range []string{"x", "req-1", strings.Repeat("a", 128)} {
		if got := l.with("X-Request-ID", good).do(t, "GET", "/health", nil).head.Get("X-Request-ID"); got != good {
			t.Errorf("%q came back as %q", good, got)
		}
	}
	for _, bad := range []string{"", strings.Repeat("a", 129), "a b", "é"} {
		if got := l.with("X-Request-ID", bad).do(t, "GET", "/nope", nil).head.Get("X-Request-ID"); !uuidForm.MatchString(got) {
			t.Errorf("for %q came %q", bad, got)
		}
	}
}

// TestWorkspace: a request may open folders below a root, and no others.
func TestWorkspace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, outside := filepath.Join(dir, "root"), filepath.Join(dir, "outside")
	for _, d := range []string{filepath.Join(root, "docs"), outside, root + "-twin"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "docs", "a.md"), []byte("The key is under the mat.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "nope"), filepath.Join(root, "dangling")); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, func(s *settings) { s.Roots = []string{root} }, scripted.Say(call("c", "read_file", `{"path":"a.md"}`)), say("Under the mat."), say("No files."))
	id := l.session(t)
	for _, bad := range []string{outside, "/", dir, filepath.Join(root, ".."), root + "-twin", filepath.Join(root, "link"), filepath.Join(root, "link", "nope"),
		filepath.Join(root, "dangling"), filepath.Join(outside, "nope"), filepath.Join(root, "nope", "..", "..", "nope"), filepath.Join(root, "docs", "..", "..", "outside")} {
		l.do(t, "POST", "/api/v1/agent-chat/"+id, map[string]any{"query": "q", "workspace": bad}).refused(t, 403, 1002, "workspace_not_allowed", "--root")
	}
	for _, gone := range []string{filepath.Join(root, "nope"), filepath.Join(root, "docs", "nope", "nope"), filepath.Join(root, "docs", "a.md")} {
		l.do(t, "POST", "/api/v1/agent-chat/"+id, map[string]any{"query": "q", "workspace": gone}).refused(t, 400, 1000, "bad_request", "a folder that exists")
	}
	l.chatWith(t, id, map[string]any{"query": "q", "workspace": filepath.Join(root, "docs")}).rest(t)
	l.chatWith(t, id, map[string]any{"query": "q"}).rest(t)
	reqs := l.model.Requests()
	if got := reqs[1].Last("tool"); !strings.Contains(got, "under the mat") {
		t.Errorf("the file tool read %q", got)
	}
	for i, want := range []bool{true, true, false} {
		offered := false
		for _, d := range reqs[i].Tools {
			offered = offered || d.Function.Name == "read_file"
		}
		if offered != want {
			t.Errorf("request %d: file tools offered: %v", i, offered)
		}
	}
}

// TestStartRefusals: what can't be served safely is not served.
func TestStartRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		s    settings
		part string
	}{
		{settings{Addr: "0.0.0.0:0"}, "refusing to listen"}, {settings{Addr: ":0"}, "refusing to listen"}, {settings{Addr: "[::]:0"}, "refusing to listen"},
		{settings{Addr: "example.com:80"}, "refusing to listen"}, {settings{Addr: "127.0.0.1"}, "want host:port"},
		{settings{Key: "short"}, "too short"}, {settings{Roots: []string{"/no/such/folder"}}, "no folder"},
	} {
		c.s.Data = filepath.Join(dir, "data")
		p, err := launch(c.s)
		if err == nil {
			p.kill(t)
			t.Errorf("%+v was served", c.s)
			continue
		}
		if !strings.Contains(err.Error(), c.part) {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
	p := start(t, settings{Data: filepath.Join(dir, "open"), Addr: "0.0.0.0:0", Key: "a-key-of-sixteen-or-more"})
	_, port, _ := strings.Cut(strings.ReplaceAll(p.addr, "[::]", "any"), ":")
	c := client{base: "http://127.0.0.1:" + port}
	c.do(t, "GET", "/api/v1/sessions", nil).same(t, 401, `{"error":"<text>"}`)
}
