package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
)

// The document has every route of the router, and no other.
func TestDocument_HasTheRoutes(t *testing.T) {
	var routed, written []string
	err := chi.Walk((&API{}).Handler().(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routed = append(routed, method+" "+route)
		return nil
	})
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(Document, &doc); err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths {
		for method := range item {
			if method != "parameters" {
				written = append(written, strings.ToUpper(method)+" "+path)
			}
		}
	}
	if err != nil || len(routed) < 40 {
		t.Fatal(routed, err)
	}
	for _, route := range routed {
		if !slices.Contains(written, route) {
			t.Errorf("%s is not in openapi.json", route)
		}
	}
	for _, route := range written {
		if !slices.Contains(routed, route) {
			t.Errorf("%s is in openapi.json and no route", route)
		}
	}
}

// Every reference leads somewhere, every operation has an id of its own, and
// every one that changes something takes an Idempotency-Key.
func TestDocument_IsWhole(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(Document, &doc); err != nil {
		t.Fatal(err)
	}
	m, used := manual{doc}, map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			if to, ok := v["$ref"].(string); ok {
				if used[to] = true; m.follow(v) == nil {
					t.Errorf("%s leads nowhere", to)
				}
			}
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(doc)
	for kind, all := range m.at("components") {
		for name := range within(all) {
			if kind != "securitySchemes" && !used["#/components/"+kind+"/"+name] {
				t.Errorf("%s %s is not used", kind, name)
			}
		}
	}
	ids := map[string]bool{}
	for _, g := range m.groups() {
		for _, o := range g.Operations {
			if o.ID == "" || ids[o.ID] || o.Summary == "" {
				t.Errorf("%s %s: id %q, summary %q", o.Method, o.Path, o.ID, o.Summary)
			}
			ids[o.ID] = true
			has := func(name string) bool {
				return slices.ContainsFunc(o.Parameters, func(r manualRow) bool { return r.Name == name })
			}
			changes := o.Method != "GET" && strings.HasPrefix(o.Path, "/api/v1/")
			if has(IdempotencyHeader) != changes {
				t.Errorf("%s %s: %s", o.Method, o.Path, IdempotencyHeader)
			}
		}
	}
	if len(ids) < 40 {
		t.Error("not every operation has a tag")
	}
}

// The page shows what the document says as text, whatever it is.
func TestDocs(t *testing.T) {
	w := httptest.NewRecorder()
	(&API{Key: "0123456789abcdef"}).Handler().ServeHTTP(w, httptest.NewRequest("GET", "/docs", nil))
	page := w.Body.String()
	for _, part := range []string{"createSession", "/api/v1/agent-chat/{session}", "Idempotency-Key", "schema-FrameComplete"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	for _, bad := range []string{"<script", "src=", "http://", "https://", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error(w.Code, w.Header())
	}
	evil, err := renderDocs([]byte(strings.ReplaceAll(string(Document), `"Create a session"`, `"<img src=x onerror=alert(1)>"`)))
	if err != nil || strings.Contains(string(evil), "<img") || !strings.Contains(string(evil), "&lt;img src=x") {
		t.Error("what is shown is not escaped", err)
	}
}
