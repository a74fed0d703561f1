package openapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"refold/api"
)

// The check must see what it is there for.
func TestChecker_SeesWhatDoesNotFit(t *testing.T) {
	const page = `{"success":true,"data":[],"total":0,"page":1,"page_size":20}`
	frame := func(data string) string {
		return "retry: 2000\n\nid:1.0\nevent:message\ndata:" + data + "\n\n: ping\n\n"
	}
	const query = `{"id":"r","response_type":"agent_query","content":"","done":true,"session_id":"s","assistant_message_id":"m","data":{"session_id":"s","assistant_message_id":"m"}}`
	for _, c := range []struct {
		name, method, path, sent string
		status                   int
		kind, body               string
		problem                  string // part of the only problem, "" = none
	}{
		{"fits", "GET", "/api/v1/sessions?page=2", "", 200, "application/json", page, ""},
		{"unknown route", "GET", "/api/v1/nothing", "", 404, "application/json", `{}`, ""},
		{"undocumented route", "GET", "/api/v1/nothing", "", 200, "application/json", `{}`, "no path"},
		{"undocumented method", "PATCH", "/api/v1/sessions", "", 200, "application/json", `{}`, "no such method"},
		{"undocumented status", "GET", "/api/v1/sessions", "", 418, "application/json", `{}`, "status"},
		{"undocumented type", "GET", "/api/v1/sessions", "", 200, "text/html", page, "content type"},
		{"missing member", "GET", "/api/v1/sessions", "", 200, "application/json", `{"success":true,"data":[],"total":0,"page":1}`, "page_size"},
		{"wrong type", "GET", "/api/v1/sessions", "", 200, "application/json", strings.Replace(page, "20", `"20"`, 1), "page_size"},
		{"member too many", "GET", "/api/v1/sessions", "", 200, "application/json", strings.Replace(page, "{", `{"more":1,`, 1), "more"},
		{"bad query", "GET", "/api/v1/sessions?page=x", "", 200, "application/json", page, "page"},
		{"unknown query", "GET", "/api/v1/sessions?nothing=1", "", 200, "application/json", page, "nothing"},
		{"bad query, refused", "GET", "/api/v1/sessions?page=x", "", 400, "application/json", `{"success":false,"error":{"code":1000,"message":"m","details":null}}`, ""},
		{"bad body", "PUT", "/api/v1/sessions/s/queue/m", `{"query":7}`, 200, "application/json", `{"success":true}`, "query"},
		{"no body", "PUT", "/api/v1/sessions/s/queue/m", ``, 200, "application/json", `{"success":true}`, "required"},
		{"no error body", "GET", "/api/v1/sessions/s", "", 404, "application/json", `{"error":"bare"}`, "success"},
		{"a frame", "GET", "/api/v1/sessions/s/events", "", 200, "text/event-stream", frame(query), ""},
		{"a bad frame", "GET", "/api/v1/sessions/s/events", "", 200, "text/event-stream", frame(strings.Replace(query, "agent_query", "other", 1)), "a frame"},
		{"a resync", "GET", "/api/v1/sessions/s/events", "", 200, "text/event-stream", "event:resync\ndata:{}\n\n", "reason"},
		{"an unknown event", "GET", "/api/v1/sessions/s/events", "", 200, "text/event-stream", "event:other\ndata:{}\n\n", "other"},
	} {
		checker, err := New(api.Document)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.Header().Set("X-Request-ID", "r")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		req, err := http.NewRequest(c.method, s.URL+c.path, strings.NewReader(c.sent))
		if err != nil {
			t.Fatal(err)
		}
		res, err := checker.Transport(http.DefaultTransport).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err := io.ReadAll(res.Body); err != nil || string(raw) != c.body {
			t.Errorf("%s: the body came as %q, %v", c.name, raw, err)
		}
		res.Body.Close()
		s.Close()
		got := checker.Problems()
		switch {
		case c.problem == "" && len(got) > 0, c.problem != "" && (len(got) != 1 || !strings.Contains(got[0], c.problem) || !strings.Contains(got[0], c.path[:strings.IndexByte(c.path+"?", '?')])):
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// Every schema of the document compiles.
func TestChecker_Compiles(t *testing.T) {
	c, err := New(api.Document)
	if err != nil {
		t.Fatal(err)
	}
	for name := range object(object(c.doc["components"])["schemas"]) {
		if _, err := c.schema(pointer("components", "schemas", name)); err != nil {
			t.Error(err)
		}
	}
	for _, r := range c.routes {
		for method := range r.item {
			for status := range object(object(r.item[method])["responses"]) {
				place, answer := c.resolve(pointer("responses", status), pointer("paths", r.path, method), object(r.item[method]))
				for kind := range object(answer["content"]) {
					if _, err := c.schema(place + pointer("content", kind, "schema")); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}
