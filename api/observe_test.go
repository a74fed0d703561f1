package api

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTraceID(t *testing.T) {
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for header, want := range map[string]string{
		"00-" + id + "-" + span + "-01": id, "cc-" + id + "-" + span + "-01-more": id, "00-" + id + "-" + span + "-01-more": "", "ff-" + id + "-" + span + "-01": "",
		"00-" + strings.ToUpper(id) + "-" + span + "-01": "", "00-" + strings.Repeat("0", 32) + "-" + span + "-01": "",
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01": "", "00-" + id + "-" + span: "", "": "", "x": "", "00-" + id[1:] + "-" + span + "-01": "", "00-" + id + "-" + span + "-0g": "",
	} {
		if got := traceID(header); got != want {
			t.Errorf("%q: %q", header, got)
		}
	}
}

// One line for each answer, with the pattern of its route and nothing that the
// caller wrote into query, headers or path; and one count.
func TestObserve(t *testing.T) {
	var log bytes.Buffer
	var counted []Answered
	a := &API{Key: "0123456789abcdef", Log: slog.New(slog.NewJSONHandler(&log, nil)), Answered: func(x Answered) { counted = append(counted, x) }}
	h := a.Handler()
	for _, c := range []struct {
		method, path, route string
		status              int
	}{
		{"GET", "/api/v1/sessions/abc?keyword=secret", "/api/v1/sessions/{session}", 401}, {"GET", "/api/v1/secret", "", 401}, {"GET", "/secret", "", 404},
		{"BREW", "/docs", "/docs", 405}, {"GET", "/docs", "/docs", 200}, {"GET", "/metrics", "/metrics", 401},
	} {
		log.Reset()
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(`{"title":"secret"}`))
		r.Header.Set("X-API-Key", "sk-secret")
		r.Header.Set("X-Request-ID", "r-1")
		r.Header.Set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
		h.ServeHTTP(httptest.NewRecorder(), r)
		got := counted[len(counted)-1]
		if got.Method != c.method || got.Status != c.status || got.Route != c.route && c.status != 405 || got.Bytes == 0 || got.Streamed {
			t.Errorf("%s %s: %+v", c.method, c.path, got)
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("the log has what it must not: %s", log.String())
		}
		if c.path == "/metrics" { // asked all the time: at debug level
			if log.Len() > 0 {
				t.Error(log.String())
			}
			continue
		}
		var line struct {
			Msg, Request, Trace, Method, Route string
			Status, Bytes                      int
		}
		if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Msg != "answered" || line.Request != "r-1" || line.Trace != "4bf92f3577b34da6a3ce929d0e0e4736" ||
			line.Status != c.status || line.Bytes != got.Bytes || line.Route != got.Route {
			t.Errorf("%s %s: %v %s", c.method, c.path, err, log.String())
		}
	}
	if n, _ := a.Open(); n != 0 || len(counted) != 6 {
		t.Error(n, len(counted))
	}
}

// What no id can be is not there, whatever the store would say.
func TestNameable(t *testing.T) {
	a := &API{Key: "0123456789abcdef", Log: slog.New(slog.DiscardHandler)}
	h := a.Handler()
	for path, reason := range map[string]string{"/api/v1/sessions/a%00b": "session_not_found", "/api/v1/runs/" + strings.Repeat("x", 201): "run_not_found",
		"/api/v1/agent/tool-approvals/%0a": "", "/api/v1/agents/%ff": "not_found", "/api/v1/sessions/s/attachments/%7f": "attachment_not_found"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-API-Key", a.Key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if reason == "" { // no GET there
			if w.Code != 405 && w.Code != 404 {
				t.Error(path, w.Code)
			}
		} else if w.Code != 404 || !strings.Contains(w.Body.String(), `"`+reason+`"`) {
			t.Error(path, w.Code, w.Body.String())
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("PATCH", "/api/v1/sessions/s", nil)
	r.Header.Set("X-API-Key", a.Key)
	h.ServeHTTP(w, r)
	if w.Code != 405 || w.Header().Get("Allow") != "GET, PUT, DELETE" {
		t.Error(w.Code, w.Header())
	}
}
