package openai

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
)

func rerankerOf(t *testing.T, s *taskServer) *Reranker {
	t.Helper()
	r, err := NewReranker(Config{BaseURL: s.URL + "/v1", Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRerank(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for name, c := range map[string]struct {
		body string
		want []float64 // nil: it can't be used
	}{
		"Jina":              {`{"model":"m","results":[{"index":2,"relevance_score":0.9,"document":{"text":"c"}},{"index":0,"relevance_score":0.4},{"index":1,"relevance_score":0.1}]}`, []float64{0.4, 0.1, 0.9}},
		"Cohere":            {`{"id":"x","results":[{"index":1,"relevance_score":1},{"index":0,"relevance_score":0},{"index":2,"relevance_score":0.5}],"meta":{}}`, []float64{0, 1, 0.5}},
		"a bare list":       {`[{"index":2,"score":0.9},{"index":0,"score":0.4},{"index":1,"score":0.1}]`, []float64{0.4, 0.1, 0.9}},
		"data":              {`{"object":"list","data":[{"index":0,"relevance_score":0.4},{"index":1,"relevance_score":0.1},{"index":2,"relevance_score":0.2}]}`, []float64{0.4, 0.1, 0.2}},
		"output":            {`{"output":{"results":[{"index":0,"relevance_score":0.4},{"index":1,"relevance_score":0.1},{"index":2,"relevance_score":0.2}]}}`, []float64{0.4, 0.1, 0.2}},
		"scores":            {`{"scores":[0.1,0.2,0.3]}`, []float64{0.1, 0.2, 0.3}},
		"fewer":             {`{"results":[{"index":2,"relevance_score":0.9}]}`, []float64{0, 0, 0.9}},
		"logits":            {`{"results":[{"index":0,"relevance_score":-3},{"index":1,"relevance_score":4.5}]}`, []float64{sigmoid(-3), sigmoid(4.5), 0}},
		"no index":          {`{"results":[{"relevance_score":0.9},{"relevance_score":0.4},{"relevance_score":0.1}]}`, nil},
		"an index twice":    {`{"results":[{"index":1,"relevance_score":0.9},{"index":1,"relevance_score":0.4}]}`, nil},
		"an unknown index":  {`{"results":[{"index":3,"relevance_score":0.9}]}`, nil},
		"a negative index":  {`{"results":[{"index":-1,"relevance_score":0.9}]}`, nil},
		"null":              {`{"results":[{"index":1,"relevance_score":null}]}`, nil},
		"NaN":               {`{"results":[{"index":1,"relevance_score":NaN}]}`, nil},
		"a word":            {`{"results":[{"index":1,"relevance_score":"high"}]}`, nil},
		"none":              {`{"results":[]}`, nil},
		"too few scores":    {`{"scores":[0.1]}`, nil},
		"a null score":      {`{"scores":[0.1,null,0.2]}`, nil},
		"another thing":     {`{"choices":[{"message":{"content":"hi"}}]}`, nil},
		"a number":          {`7`, nil},
		"nothing":           {``, nil},
		"a list of numbers": {`[0.1,0.2,0.3]`, nil},
	} {
		s := newTaskServer(t, "rerank", says(c.body))
		got, err := rerankerOf(t, s).Rerank(t.Context(), "q", []string{"a", "b", "c"})
		if c.want == nil {
			if err == nil || typed(t, err).Code != "bad_response" {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			continue
		}
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s: %v, want %v", name, got, c.want)
				break
			}
		}
	}
}

func TestRerank_Request(t *testing.T) {
	s := newTaskServer(t, "rerank", says(`{"results":[{"index":0,"relevance_score":0.5}]}`))
	r := rerankerOf(t, s)
	if _, err := r.Rerank(t.Context(), strings.Repeat("问", 10_000), []string{strings.Repeat("答", 20_000), "bad \xff"}); err != nil {
		t.Fatal(err)
	}
	got := s.requests()[0]
	documents := got["documents"].([]any)
	if got["model"] != "m" || r.Name() != "m" || got["top_n"] != 2.0 || len([]rune(got["query"].(string))) > maxRerankQuery || len([]rune(documents[0].(string))) > maxRerankPassage || documents[1] != "bad \ufffd" {
		t.Errorf("asked %.300v", got)
	}
	if got, err := r.Rerank(t.Context(), "q", nil); err != nil || len(got) != 0 || len(s.requests()) != 1 {
		t.Errorf("nothing to judge: %v, %v", got, err)
	}
	slow := newTaskServer(t, "rerank", func(_ map[string]any, w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(429)
		io.WriteString(w, `{"detail":"too many"}`)
	})
	if _, err := rerankerOf(t, slow).Rerank(t.Context(), "q", []string{"a"}); err == nil || typed(t, err).Code != "rate_limited" || typed(t, err).RetryAfter.Seconds() != 3 {
		t.Errorf("got %v", err)
	}
}
