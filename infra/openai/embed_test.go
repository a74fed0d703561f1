package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"refold/handlers"
)

// taskServer answers requests with a function of their fields.
type taskServer struct {
	*httptest.Server
	mu   sync.Mutex
	seen []map[string]any
}

func newTaskServer(t *testing.T, path string, answer func(fields map[string]any, w http.ResponseWriter)) *taskServer {
	t.Helper()
	s := &taskServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var fields map[string]any
		if r.URL.Path != "/v1/"+path || r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&fields) != nil {
			http.Error(w, "wrong request", http.StatusTeapot)
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, fields)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		answer(fields, w)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *taskServer) requests() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// says answers with the same each time.
func says(body string) func(map[string]any, http.ResponseWriter) {
	return func(_ map[string]any, w http.ResponseWriter) { io.WriteString(w, body) }
}

func embedderOf(t *testing.T, s *taskServer, o EmbedOptions) *Embedder {
	t.Helper()
	e, err := NewEmbedder(Config{BaseURL: s.URL + "/v1/embeddings", APIKey: "sk-secret-1234", Model: "m"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// lengths embeds each text as its length and its place, in another order.
func lengths(fields map[string]any, w http.ResponseWriter) {
	var data []map[string]any
	for i, t := range fields["input"].([]any) {
		data = append([]map[string]any{{"index": i, "embedding": []int{len(t.(string)), 1}}}, data...)
	}
	json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "model": "m", "usage": map[string]int{"prompt_tokens": 1}})
}

func TestEmbed(t *testing.T) {
	s := newTaskServer(t, "embeddings", lengths)
	e := embedderOf(t, s, EmbedOptions{})
	got, err := e.Embed(t.Context(), []string{"a", "bbb", "", "cc"})
	if want := [][]float32{{1, 1}, {3, 1}, {1, 1}, {2, 1}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if e.Name() != "m" || s.requests()[0]["model"] != "m" || s.requests()[0]["encoding_format"] != "float" {
		t.Errorf("asked %v", s.requests()[0])
	}
	if got, err := e.Embed(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("nothing: %v, %v", got, err)
	}
	e = embedderOf(t, s, EmbedOptions{Batch: 3, Dimensions: 2})
	many := make([]string, 8)
	for i := range many {
		many[i] = strings.Repeat("x", i+1)
	}
	got, err = e.Embed(t.Context(), many)
	if err != nil || len(got) != 8 || got[7][0] != 8 || e.Name() != "m@2" || len(s.requests()) != 4 || s.requests()[1]["dimensions"] != 2.0 {
		t.Errorf("in parts: %v, %v, %d requests", got, err, len(s.requests()))
	}
}

func TestEmbed_Forms(t *testing.T) {
	raw := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5)), math.Float32bits(-2))
	nan := binary.LittleEndian.AppendUint32(raw[:4:4], math.Float32bits(float32(math.NaN())))
	b64 := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		body string
		want [][]float32 // nil: it can't be used
	}{
		"in order":           {`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[3,4]}]}`, [][]float32{{1, 2}, {3, 4}}},
		"shuffled":           {`{"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}]}`, [][]float32{{1, 2}, {3, 4}}},
		"without index":      {`{"data":[{"embedding":[1,2]},{"embedding":[3,4]}]}`, [][]float32{{1, 2}, {3, 4}}},
		"index always 0":     {`{"data":[{"index":0,"embedding":[1,2]},{"index":0,"embedding":[3,4]}]}`, [][]float32{{1, 2}, {3, 4}}},
		"base64":             {fmt.Sprintf(`{"data":[{"index":0,"embedding":%q},{"index":1,"embedding":[3,4]}]}`, b64(raw)), [][]float32{{0.5, -2}, {3, 4}}},
		"bare lists":         {`{"embeddings":[[1,2],[3,4]]}`, [][]float32{{1, 2}, {3, 4}}},
		"fewer":              {`{"data":[{"index":0,"embedding":[1,2]}]}`, nil},
		"more":               {`{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]},{"index":2,"embedding":[1]}]}`, nil},
		"none":               {`{"data":[]}`, nil},
		"an index twice":     {`{"data":[{"index":1,"embedding":[1,2]},{"index":1,"embedding":[3,4]}]}`, nil},
		"an index too large": {`{"data":[{"index":0,"embedding":[1,2]},{"index":7,"embedding":[3,4]}]}`, nil},
		"some with index":    {`{"data":[{"index":1,"embedding":[1,2]},{"embedding":[3,4]}]}`, nil},
		"two lengths":        {`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[3]}]}`, nil},
		"empty vector":       {`{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`, nil},
		"null vector":        {`{"data":[{"index":0,"embedding":null},{"index":1,"embedding":[1]}]}`, nil},
		"null component":     {`{"data":[{"index":0,"embedding":[1,null]},{"index":1,"embedding":[1,2]}]}`, nil},
		"NaN":                {fmt.Sprintf(`{"data":[{"index":0,"embedding":%q},{"index":1,"embedding":[3,4]}]}`, b64(nan)), nil},
		"infinite":           {`{"data":[{"index":0,"embedding":[1e300,1]},{"index":1,"embedding":[3,4]}]}`, nil},
		"NaN as a word":      {`{"data":[{"index":0,"embedding":[NaN]},{"index":1,"embedding":[3]}]}`, nil},
		"half a number":      {fmt.Sprintf(`{"data":[{"index":0,"embedding":%q},{"index":1,"embedding":[3]}]}`, b64(raw[:3])), nil},
		"words":              {`{"data":[{"index":0,"embedding":["a"]},{"index":1,"embedding":[3]}]}`, nil},
		"another thing":      {`{"choices":[]}`, nil},
		"a page":             {`<html>login</html>`, nil},
		"a list":             {`[1,2]`, nil},
		"null":               {`null`, nil},
	} {
		e := embedderOf(t, newTaskServer(t, "embeddings", says(c.body)), EmbedOptions{})
		got, err := e.Embed(t.Context(), []string{"a", "b"})
		if c.want != nil && (err != nil || !reflect.DeepEqual(got, c.want)) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if c.want == nil && (err == nil || typed(t, err).Code != "bad_response") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	e := embedderOf(t, newTaskServer(t, "embeddings", says(`{"data":[{"index":0,"embedding":[1,2]}]}`)), EmbedOptions{Dimensions: 3})
	if _, err := e.Embed(t.Context(), []string{"a"}); err == nil || typed(t, err).Code != "bad_response" {
		t.Errorf("another length than asked for: %v", err)
	}
}

func TestEmbed_Failures(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   handlers.ModelError
	}{
		{429, `{"error":{"message":"slow down"}}`, handlers.ModelError{Code: "rate_limited", Status: 429, Transient: true, RetryAfter: 7 * time.Second}},
		{401, `{"error":{"message":"wrong key sk-secret-1234"}}`, handlers.ModelError{Code: "unauthorized", Status: 401, RetryAfter: 7 * time.Second}},
		{503, `busy`, handlers.ModelError{Code: "overloaded", Status: 503, Transient: true, RetryAfter: 7 * time.Second}},
		{404, `{"detail":"no such model"}`, handlers.ModelError{Code: "not_found", Status: 404, RetryAfter: 7 * time.Second}},
		{200, `{"error":{"message":"quota exceeded","code":429}}`, handlers.ModelError{Code: "rate_limited", Status: 429, Transient: true}},
	} {
		e := embedderOf(t, newTaskServer(t, "embeddings", func(_ map[string]any, w http.ResponseWriter) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		}), EmbedOptions{})
		_, err := e.Embed(t.Context(), []string{"a"})
		if err == nil {
			t.Fatalf("%d: no error", c.status)
		}
		got := *typed(t, err)
		if strings.Contains(got.Message, "secret") {
			t.Errorf("%d: the key is in %q", c.status, got.Message)
		}
		if got.Message = ""; got != c.want {
			t.Errorf("%d: %+v, want %+v", c.status, got, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := embedderOf(t, newTaskServer(t, "embeddings", lengths), EmbedOptions{})
	if _, err := e.Embed(ctx, []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	hung := newTaskServer(t, "embeddings", func(_ map[string]any, w http.ResponseWriter) { w.(http.Flusher).Flush(); panic(http.ErrAbortHandler) })
	if _, err := embedderOf(t, hung, EmbedOptions{}).Embed(t.Context(), []string{"a"}); err == nil || !typed(t, err).Transient {
		t.Errorf("a broken connection: %v", err)
	}
	for name, c := range map[string]Config{"no model": {BaseURL: "http://x/v1"}, "bad address": {BaseURL: "ftp://x", Model: "m"}, "reserved": {BaseURL: "http://x/v1", Model: "m", ExtraBody: map[string]any{"input": "x"}}} {
		if _, err := NewEmbedder(c, EmbedOptions{}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// A server that takes fewer texts at once, or shorter ones, gets them so.
func TestEmbed_Smaller(t *testing.T) {
	s := newTaskServer(t, "embeddings", func(fields map[string]any, w http.ResponseWriter) {
		input := fields["input"].([]any)
		if len(input) > 10 {
			w.WriteHeader(400)
			io.WriteString(w, `{"error":{"message":"batch size is invalid, it should not be larger than 10"}}`)
			return
		}
		for _, t := range input {
			if len(t.(string)) > 100 {
				w.WriteHeader(400)
				io.WriteString(w, `{"error":{"message":"maximum context length is 512 tokens"}}`)
				return
			}
		}
		lengths(fields, w)
	})
	e := embedderOf(t, s, EmbedOptions{})
	texts := make([]string, 40)
	for i := range texts {
		texts[i] = strings.Repeat("y", i+1)
	}
	got, err := e.Embed(t.Context(), texts)
	if err != nil || len(got) != 40 || got[39][0] != 40 {
		t.Fatalf("got %d, %v", len(got), err)
	}
	n := len(s.requests())
	if _, err := e.Embed(t.Context(), texts[:10]); err != nil || len(s.requests()) != n+1 {
		t.Errorf("the size was not remembered: %d requests more, %v", len(s.requests())-n, err)
	}
	got, err = e.Embed(t.Context(), []string{strings.Repeat("长", 120), "short"})
	if err != nil || got[0][0] != 90 || got[1][0] != 5 {
		t.Errorf("a long text: %v, %v", got, err)
	}
	always := newTaskServer(t, "embeddings", func(_ map[string]any, w http.ResponseWriter) {
		w.WriteHeader(400)
		io.WriteString(w, `{"error":{"message":"no"}}`)
	})
	if _, err := embedderOf(t, always, EmbedOptions{}).Embed(t.Context(), texts); err == nil || typed(t, err).Code != "bad_request" || len(always.requests()) > 5 {
		t.Errorf("what is always refused: %v after %d requests", err, len(always.requests()))
	}
}
