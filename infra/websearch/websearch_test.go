package websearch

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"refold/handlers"
)

const key = "key-7f3a"

// Each engine is asked in its own way and gives the same results.
func TestSearch_EveryEngine(t *testing.T) {
	for provider, c := range map[string]struct {
		want  func(r *http.Request, body map[string]any) bool
		reply string
		first handlers.WebResult
	}{
		"searxng": {func(r *http.Request, _ map[string]any) bool {
			return r.Method == "GET" && r.URL.Path == "/sub/search" && r.FormValue("q") == "go 语言" && r.FormValue("format") == "json"
		}, `{"query":"x","number_of_results":0,"results":[{"url":"https://go.dev/","title":"Go","content":"An open <b>language</b>","engine":"bing","engines":["bing"],"publishedDate":"2026-01-02T00:00:00","score":1.5}],"answers":[],"infoboxes":[]}`,
			handlers.WebResult{Title: "Go", URL: "https://go.dev/", Snippet: "An open language", Source: "bing", Published: "2026-01-02T00:00:00"}},
		"tavily": {func(r *http.Request, b map[string]any) bool {
			return r.Method == "POST" && r.URL.Path == "/sub/search" && r.Header.Get("Authorization") == "Bearer "+key && b["query"] == "go 语言" && b["max_results"] == 3.0
		}, `{"query":"x","answer":null,"results":[{"title":"Go","url":"https://go.dev/","content":"An open language","score":0.9,"raw_content":null}],"response_time":1.2}`,
			handlers.WebResult{Title: "Go", URL: "https://go.dev/", Snippet: "An open language", Source: "tavily"}},
		"brave": {func(r *http.Request, _ map[string]any) bool {
			return r.URL.Path == "/sub/res/v1/web/search" && r.Header.Get("X-Subscription-Token") == key && r.FormValue("count") == "3"
		}, `{"type":"search","web":{"results":[{"title":"Go","url":"https://go.dev/","description":"An <strong>open</strong> language &amp; more","page_age":"2026-01-02","extra_snippets":["a","b"]}]}}`,
			handlers.WebResult{Title: "Go", URL: "https://go.dev/", Snippet: "An open language & more", Content: "a\nb", Source: "brave", Published: "2026-01-02"}},
		"google": {func(r *http.Request, _ map[string]any) bool {
			return r.URL.Path == "/sub/customsearch/v1" && r.FormValue("key") == key && r.FormValue("cx") == "engine" && r.FormValue("num") == "3"
		}, `{"kind":"customsearch#search","items":[{"title":"Go","link":"https://go.dev/","snippet":"An open language","displayLink":"go.dev"}]}`,
			handlers.WebResult{Title: "Go", URL: "https://go.dev/", Snippet: "An open language", Source: "google"}},
		"exa": {func(r *http.Request, b map[string]any) bool {
			return r.URL.Path == "/sub/search" && r.Header.Get("x-api-key") == key && b["numResults"] == 3.0
		}, `{"requestId":"1","results":[{"id":"x","title":"Go","url":"https://go.dev/","publishedDate":"2026-01-02T00:00:00Z","text":"An open language"}]}`,
			handlers.WebResult{Title: "Go", URL: "https://go.dev/", Snippet: "An open language", Source: "exa", Published: "2026-01-02T00:00:00Z"}},
		"ollama": {func(r *http.Request, b map[string]any) bool {
			return r.URL.Path == "/sub/api/web_search" && r.Header.Get("Authorization") == "Bearer "+key && b["max_results"] == 3.0
		}, `{"results":[{"title":"Go","url":"https://go.dev/","content":"An open language"}]}`,
			handlers.WebResult{Title: "Go", URL: "https://go.dev/", Snippet: "An open language", Source: "ollama"}},
	} {
		reply, status := c.reply, 200
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var body map[string]any
			raw, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(raw, &body)
			if !c.want(r, body) {
				t.Errorf("%s: %s %s %s %v", provider, r.Method, r.URL, raw, r.Header)
			}
			w.WriteHeader(status)
			io.WriteString(w, reply)
		}))
		s, err := New(Config{Provider: provider, BaseURL: server.URL + "/sub/", APIKey: key, EngineID: "engine"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Search(t.Context(), " go\n语言 ", 3)
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], c.first) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", provider, err, got, c.first)
		}
		reply = strings.NewReplacer("[{", `[{"url":"javascript:alert(1)","link":"x:y"},{`, "https://go.dev/", "https://go.dev/a").Replace(reply)
		if got, err := s.Search(t.Context(), "go 语言", 3); err != nil || len(got) != 1 {
			t.Errorf("%s: a result without an address: %+v %v", provider, got, err)
		}
		for _, bad := range []string{"<html>", "{}", "[]", `{"results":7,"items":7,"web":7}`} {
			reply = bad
			if got, err := s.Search(t.Context(), "go 语言", 3); code(err) != "bad_response" {
				t.Errorf("%s answers %s: %v %v", provider, bad, got, err)
			}
		}
		for _, status = range []int{401, 429, 500, 302, 404} {
			_, err := s.Search(t.Context(), "go 语言", 3)
			if want := map[int]string{401: "unauthorized", 429: "http_429", 500: "http_5xx", 302: "http_status", 404: "http_status"}[status]; code(err) != want || strings.Contains(err.Error(), key) {
				t.Errorf("%s: status %d: %v", provider, status, err)
			}
		}
		server.Close()
		if _, err := s.Search(t.Context(), "go", 3); code(err) != "connection_failed" || strings.Contains(err.Error(), key) {
			t.Errorf("%s is gone: %v", provider, err)
		}
	}
}

func code(err error) string {
	var e *handlers.WebError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestNew_SaysWhatIsMissing(t *testing.T) {
	for _, c := range []Config{{}, {Provider: "bing"}, {Provider: "searxng"}, {Provider: "tavily"}, {Provider: "google", APIKey: "x"}, {Provider: "searxng", BaseURL: "file:///x"}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

type scripted struct {
	results []handlers.WebResult
	err     error
}

func (s scripted) Name() string { return "scripted" }
func (s scripted) Search(context.Context, string, int) ([]handlers.WebResult, error) {
	return s.results, s.err
}

func TestFirst(t *testing.T) {
	down := scripted{err: &handlers.WebError{Code: "http_5xx", Message: "down"}}
	if got, err := (First{down, scripted{results: []handlers.WebResult{{Title: "a"}}}}).Search(t.Context(), "q", 1); err != nil || len(got) != 1 {
		t.Errorf("%v %v", got, err)
	}
	if _, err := (First{down, down}).Search(t.Context(), "q", 1); code(err) != "http_5xx" {
		t.Error(err)
	}
	if _, err := (First{}).Search(t.Context(), "q", 1); code(err) != "not_configured" {
		t.Error(err)
	}
}
