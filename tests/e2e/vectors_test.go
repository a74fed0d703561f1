package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"refold/tests/services"
)

// ideas are words that the embedding model of these tests takes for the same.
var ideas = [][]string{{"annual leave", "vacation"}, {"refund", "money back"}, {"anvil", "forge"}}

// vectorServer is an embedding model and a reranker, as OpenAI-compatible servers
// and those of the common /rerank offer them. What the reranker likes is the text
// that says "gold".
func vectorServer(t testing.TB) (url string, embedded, reranked *atomic.Int64) {
	embedded, reranked = new(atomic.Int64), new(atomic.Int64)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Model string
			Input []string
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Model != "ideas" {
			t.Errorf("embeddings: %v %+v", err, in)
		}
		type row struct {
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		}
		rows := []row{}
		for i, text := range in.Input {
			vector := []float64{0.05, 0, 0, 0}
			for k, words := range ideas {
				for _, word := range words {
					if strings.Contains(strings.ToLower(text), word) {
						vector[k+1] = 1
					}
				}
			}
			rows = append(rows, row{i, vector})
		}
		embedded.Add(int64(len(rows)))
		json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": in.Model, "data": rows, "usage": map[string]int{"prompt_tokens": 1, "total_tokens": 1}})
	})
	mux.HandleFunc("POST /v1/rerank", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Documents []string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Errorf("rerank: %v", err)
		}
		results := []map[string]any{}
		for i, text := range in.Documents {
			score := 0.5
			if strings.Contains(text, "gold") {
				score = 0.9
			}
			results = append(results, map[string]any{"index": i, "relevance_score": score})
		}
		reranked.Add(1)
		json.NewEncoder(w).Encode(map[string]any{"results": results})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/v1", embedded, reranked
}

// TestVectors: with an embedding model and a reranker configured, on the embedded
// store and on PostgreSQL with pgvector, what means the same is found though no
// word is the same, the reranker orders it, and a page is read from an address in
// a range that --allow-net opens, and from no other.
func TestVectors(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(testing.TB) string{
		"sqlite":     func(testing.TB) string { return "" },
		"postgresql": func(t testing.TB) string { return services.Postgres(t, "18") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := store(t)
			url, embedded, reranked := vectorServer(t)
			page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				fmt.Fprint(w, `<html><head><title>Refunds</title></head><body><article><h1>Refunds</h1><p>Every refund is paid within fourteen days, in full, to the account that the payment came from.</p></article></body></html>`)
			}))
			t.Cleanup(page.Close)
			config := filepath.Join(t.TempDir(), "refold.json")
			// One is configured by the file, the other by flags, which win over the file.
			models, flags := map[string]any{"base_url": url, "model": "ideas"}, []string(nil)
			if dsn == "" {
				models = map[string]any{"base_url": "http://127.0.0.1:9/v1", "model": "nobody"}
				flags = []string{"--embedding-model", "ideas", "--embedding-url", url, "--rerank-model", "judge", "--rerank-url", url}
			}
			raw, err := json.Marshal(map[string]any{"store": dsn, "embeddings": []any{models}, "rerankers": []any{models}})
			if err == nil {
				err = os.WriteFile(config, raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			data := t.TempDir()
			serve := func(args ...string) (*product, client) {
				args = append(args, flags...)
				p := served(t, nil, append([]string{"--config", config, "--data", data, "serve", "--addr", "127.0.0.1:0"}, args...)...)
				return p, client{base: "http://" + p.hello["addr"].(string)}
			}
			p, c := serve()
			base := c.newBase(t, "Handbook", "")
			c.added(t, base, "leave.md", "# Leave\n\nEverybody has ten days of annual leave.\n")
			c.added(t, base, "gold.md", "# Reward\n\nTen more days of annual leave are a reward in gold.\n")
			c.added(t, base, "anvil.md", "# Anvils\n\nAn anvil weighs ninety kilograms.\n")
			hits := c.finds(t, base, "vacation", 3) // the routes have no threshold
			if hits[0].File != "gold.md" || hits[1].File != "leave.md" || hits[0].Match != 0 {
				t.Errorf("%+v", hits)
			}
			if a := c.do(t, "POST", "/api/v1/knowledge-search", map[string]any{"query": "vacation", "knowledge_base_id": base}); a.status != 200 || strings.Contains(a.body, `"notes"`) {
				t.Errorf("HTTP %d %s", a.status, a.body)
			}
			if embedded.Load() == 0 || reranked.Load() == 0 {
				t.Errorf("%d texts embedded, reranked %d times", embedded.Load(), reranked.Load())
			}
			if dsn != "" {
				if n := number(t, dsn, "SELECT count(*) FROM knowledge_half"); n == 0 {
					t.Error("no vector is in pgvector")
				}
			}
			// The same bytes in another base cost no embedding.
			before := embedded.Load()
			c.added(t, c.newBase(t, "Other", ""), "leave.md", "# Leave\n\nEverybody has ten days of annual leave.\n")
			if n := embedded.Load() - before; n != 0 {
				t.Errorf("%d texts embedded again", n)
			}
			c.do(t, "POST", "/api/v1/knowledge-bases/"+base+"/knowledge/url", map[string]any{"url": page.URL + "/faq.html"}).refused(t, 400, 1000, "ssrf_rejected", "--allow-net")
			p.interrupt(t)

			_, c = serve("--allow-net", "127.0.0.0/8:"+page.Listener.Addr().String()[len("127.0.0.1:"):])
			var d doc
			c.do(t, "POST", "/api/v1/knowledge-bases/"+base+"/knowledge/url", map[string]any{"url": page.URL + "/faq.html"}).data(t, 201, &d)
			if d = c.settled(t, d.ID); d.Status != "completed" || d.Title != "Refunds" {
				t.Errorf("%+v", d)
			}
			if hits = c.finds(t, base, "money back", 4); !strings.Contains(hits[1].Content, "fourteen days") || hits[1].Document != d.ID { // after what the reranker loves
				t.Errorf("%+v", hits)
			}
		})
	}
}
