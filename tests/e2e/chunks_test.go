package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// piece is a chunk as far as tests look at it.
type piece struct {
	ID, Content string
	Edition     int    `json:"content_revision"`
	Enabled     bool   `json:"is_enabled"`
	State       string `json:"index_status"`
	Index       int    `json:"chunk_index"`
	Kind        string `json:"chunk_type"`
	Previous    string `json:"pre_chunk_id"`
	Next        string `json:"next_chunk_id"`
}

func (c client) pieces(t testing.TB, document, query string) []piece {
	t.Helper()
	var out []piece
	c.do(t, "GET", "/api/v1/chunks/"+document+query, nil).data(t, 200, &out)
	return out
}

// passage is something that a search found.
type passage struct {
	ID, Content string
	Document    string  `json:"knowledge_id"`
	Title       string  `json:"knowledge_title"`
	Base        string  `json:"knowledge_base_id"`
	File        string  `json:"knowledge_filename"`
	Match       int     `json:"match_type"`
	Score       float64 `json:"score"`
}

func (c client) search(t testing.TB, query string, scope map[string]any) []passage {
	t.Helper()
	scope["query"] = query
	var out []passage
	c.do(t, "POST", "/api/v1/knowledge-search", scope).data(t, 200, &out)
	return out
}

// finds asks until a search finds so many passages: the index learns of a change
// a moment later.
func (c client) finds(t testing.TB, base, query string, want int) []passage {
	t.Helper()
	ctx := guarded(t)
	for {
		out := c.search(t, query, map[string]any{"knowledge_base_ids": []string{base}})
		if len(out) == want {
			return out
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%q finds %d passages, not %d", query, len(out), want)
		}
	}
}

// TestChunks: list, read, edit, go back, delete.
func TestChunks(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	b := l.newBase(t, "B", "")
	var text strings.Builder
	for i := range 30 {
		fmt.Fprintf(&text, "## Part %d\n\nThe word of this part is sesame%d, and nothing else stands here but these words.\n\n", i, i)
	}
	d := l.added(t, b, "parts.md", text.String(), "process_config", `{"chunking_config":{"chunk_size":32,"chunk_overlap":0}}`)
	all := l.pieces(t, d.ID, "?page_size=100")
	if len(all) < 20 || len(all) != d.Chunks {
		t.Fatalf("%d pieces of %d", len(all), d.Chunks)
	}
	first := l.do(t, "GET", "/api/v1/chunks/"+d.ID, nil)
	if len(l.pieces(t, d.ID, "")) != 10 || !strings.Contains(first.body, fmt.Sprintf(`"total":%d`, len(all))) {
		t.Errorf("%s", first.body)
	}
	if a := l.do(t, "GET", "/api/v1/chunks/"+d.ID+"?page_size=1000", nil); a.status != 200 || !strings.Contains(a.body, `"page_size":100`) {
		t.Errorf("%d %.200s", a.status, a.body)
	}
	l.do(t, "GET", "/api/v1/chunks/"+d.ID+"?page_size=1001", nil).refused(t, 400, 1000, "bad_request", "page_size")
	if got := l.pieces(t, d.ID, "?page=2&page_size=5"); len(got) != 5 || got[0].ID != all[5].ID {
		t.Errorf("%+v", got)
	}
	if got := l.pieces(t, d.ID, "?chunk_type=summary"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	c := all[3]
	var one piece
	l.do(t, "GET", "/api/v1/chunks/by-id/"+c.ID, nil).data(t, 200, &one)
	if one.Content != c.Content || one.Previous != all[2].ID || one.Next != all[4].ID {
		t.Errorf("%+v", one)
	}
	path := "/api/v1/chunks/" + d.ID + "/" + c.ID
	l.do(t, "PUT", path, map[string]any{"content": "Open pumpkin.", "expected_revision": 0}).data(t, 200, &one)
	if one.Content != "Open pumpkin." || one.Edition != 1 || one.State != "pending" {
		t.Errorf("%+v", one)
	}
	if got := l.finds(t, b, "pumpkin", 1); got[0].ID != c.ID || got[0].Content != "Open pumpkin." {
		t.Errorf("%+v", got)
	}
	if a := l.do(t, "PUT", path, map[string]any{"content": "Late.", "expected_revision": 0}); a.status != 409 || !strings.Contains(a.body, "chunk_revision_conflict") {
		t.Errorf("%d %s", a.status, a.body)
	}
	l.do(t, "PUT", path, map[string]any{"content": " "}).refused(t, 400, 1000, "bad_request", "must hold a text")
	l.do(t, "PUT", path, map[string]any{"is_enabled": false}).data(t, 200, &one)
	l.finds(t, b, "pumpkin", 0)
	var words []struct {
		Revision int
		Content  string
		Source   string `json:"edit_source"`
	}
	l.do(t, "GET", path+"/revisions", nil).data(t, 200, &words)
	if len(words) != 3 || words[2].Revision != 0 || words[2].Content != c.Content || words[2].Source != "parse" || words[0].Revision != 2 {
		t.Errorf("%+v", words)
	}
	l.do(t, "POST", path+"/revert", map[string]any{"revision": 9}).refused(t, 404, 1003, "chunk_revision_not_found", "")
	l.do(t, "POST", path+"/revert", map[string]any{}).refused(t, 400, 1000, "bad_request", "revision is required")
	l.do(t, "POST", path+"/revert", map[string]any{"revision": 0}).data(t, 200, &one)
	l.do(t, "PUT", path, map[string]any{"is_enabled": true}).data(t, 200, &one)
	if one.Content != c.Content || one.Edition != 4 || !one.Enabled {
		t.Errorf("%+v", one)
	}
	l.do(t, "DELETE", path, nil).same(t, 200, `{"success":true,"message":"Chunk deleted"}`)
	if got := l.pieces(t, d.ID, "?page_size=100"); len(got) != len(all)-1 || got[3].ID != all[4].ID {
		t.Errorf("%d pieces are left", len(got))
	}
	// Pages go on as if what was deleted had never been.
	left := slices.Delete(slices.Clone(all), 3, 4)
	for _, n := range []int{0, 0, 5, 9, 10, 18} {
		l.do(t, "DELETE", "/api/v1/chunks/"+d.ID+"/"+left[n].ID, nil).same(t, 200, `{"success":true,"message":"Chunk deleted"}`)
		left = slices.Delete(left, n, n+1)
	}
	for _, size := range []int{1, 4, 7, 100} {
		var ids []string
		for page := 1; ; page++ {
			a := l.do(t, "GET", fmt.Sprintf("/api/v1/chunks/%s?page=%d&page_size=%d", d.ID, page, size), nil)
			if !strings.Contains(a.body, fmt.Sprintf(`"total":%d`, len(left))) {
				t.Fatalf("%s", a.body)
			}
			got := l.pieces(t, d.ID, fmt.Sprintf("?page=%d&page_size=%d", page, size))
			for _, p := range got {
				ids = append(ids, p.ID)
			}
			if len(got) < size {
				break
			}
		}
		for i, p := range left {
			if i >= len(ids) || ids[i] != p.ID || len(ids) != len(left) {
				t.Fatalf("pages of %d: %d pieces, the one at %d is another", size, len(ids), i)
			}
		}
	}
	for _, p := range []string{path, "/api/v1/chunks/" + d.ID + "/nope"} {
		l.do(t, "DELETE", p, nil).refused(t, 404, 1003, "chunk_not_found", "")
	}
	l.do(t, "GET", "/api/v1/chunks/by-id/"+c.ID, nil).refused(t, 404, 1003, "chunk_not_found", "")
	other := l.added(t, b, "other.md", "Something else.")
	l.do(t, "PUT", "/api/v1/chunks/"+other.ID+"/"+all[0].ID, map[string]any{"content": "x"}).refused(t, 404, 1003, "chunk_not_found", "")
	l.do(t, "DELETE", "/api/v1/chunks/"+d.ID, nil).same(t, 200, `{"success":true,"message":"<text>"}`)
	if got := l.pieces(t, d.ID, ""); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	l.finds(t, b, "sesame7", 0)
}

// TestChunkPreview: how a text would be cut.
func TestChunkPreview(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	var p struct {
		Tier   string `json:"selected_tier"`
		Chunks []struct{ Content string }
		Stats  struct{ Count int }
	}
	l.do(t, "POST", "/api/v1/chunker/preview", map[string]any{"text": handbook, "chunking_config": map[string]any{"chunk_size": 32}}).data(t, 200, &p)
	if p.Tier != "heading" || len(p.Chunks) < 2 || p.Stats.Count != len(p.Chunks) {
		t.Errorf("%+v", p)
	}
	l.do(t, "POST", "/api/v1/chunker/preview", map[string]any{"text": ""}).refused(t, 400, 1000, "bad_request", "text is required")
	if a := l.do(t, "POST", "/api/v1/chunker/preview", map[string]any{"text": strings.Repeat("x", 65537)}); a.status != 413 {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestKnowledgeSearch: words of both languages, in what the request names and
// nowhere else.
func TestKnowledgeSearch(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	b, other := l.newBase(t, "Shop", ""), l.newBase(t, "Other", "")
	var tag struct{ ID string }
	l.do(t, "POST", "/api/v1/knowledge-bases/"+b+"/tags", map[string]any{"name": "T"}).data(t, 200, &tag)
	d := l.added(t, b, "handbook.md", handbook)
	tagged := l.added(t, b, "tagged.md", "Refunds for anvils are paid in gold.", "tag_ids", tag.ID)
	l.added(t, other, "elsewhere.md", "Refunds elsewhere.")
	in := func(names ...string) map[string]any { return map[string]any{"knowledge_base_ids": names} }
	if got := l.search(t, "refunds", in(b)); len(got) != 2 || got[0].Base != b || got[0].Match != 1 {
		t.Errorf("%+v", got)
	}
	if got := l.search(t, "退款", in(b)); len(got) != 1 || got[0].Document != d.ID || got[0].File != "handbook.md" {
		t.Errorf("%+v", got)
	}
	for want, scope := range []map[string]any{in(), {"knowledge_ids": []string{d.ID}}, in(b), in(b, other)} {
		if want == 0 {
			l.do(t, "POST", "/api/v1/knowledge-search", map[string]any{"query": "refunds"}).refused(t, 400, 1000, "no_scope", "name what to search")
		} else if got := l.search(t, "refunds", scope); len(got) != want {
			t.Errorf("%v: %+v", scope, got)
		}
	}
	if got := l.search(t, "refunds", map[string]any{"knowledge_base_id": b, "tag_ids": []string{tag.ID}}); len(got) != 1 || got[0].Document != tagged.ID {
		t.Errorf("%+v", got)
	}
	// There is no embedding model, which every search says.
	faq := l.newBase(t, "Q", "faq")
	for path, query := range map[string]string{"/api/v1/knowledge-search": "query", "/api/v1/knowledge-bases/" + b + "/hybrid-search": "query_text", "/api/v1/knowledge-bases/" + faq + "/faq/search": "query_text"} {
		a := l.do(t, "POST", path, map[string]any{query: "refunds", "knowledge_base_ids": []string{b}})
		if a.status != 200 || !strings.Contains(a.body, `"notes":["searched by words only: no embedding model is configured"]`) {
			t.Errorf("%s: HTTP %d %s", path, a.status, a.body)
		}
	}
	for reason, body := range map[string]map[string]any{"knowledge_base_not_found": in(b, "nope"), "knowledge_not_found": {"knowledge_ids": []string{"nope"}},
		"tag_not_found": {"knowledge_base_ids": []string{b}, "tag_ids": []string{"nope"}}} {
		body["query"] = "q"
		l.do(t, "POST", "/api/v1/knowledge-search", body).refused(t, 404, 1003, reason, "")
	}
	for _, body := range []map[string]any{{"query": " ", "knowledge_base_ids": []string{b}}, {"query": strings.Repeat("x", 4001), "knowledge_base_ids": []string{b}},
		{"query": "q", "knowledge_base_ids": []string{b, other}, "tag_ids": []string{tag.ID}}} {
		l.do(t, "POST", "/api/v1/knowledge-search", body).refused(t, 400, 1000, "bad_request", "")
	}
	for _, method := range []string{"GET", "POST"} {
		var got []passage
		l.do(t, method, "/api/v1/knowledge-bases/"+b+"/hybrid-search", map[string]any{"query_text": "refunds", "match_count": 1}).data(t, 200, &got)
		if len(got) != 1 || got[0].Score <= 0 {
			t.Errorf("%+v", got)
		}
	}
	l.do(t, "POST", "/api/v1/knowledge-bases/"+b+"/hybrid-search", map[string]any{"query_text": "q", "match_count": 201}).refused(t, 400, 1000, "bad_request", "200")
	l.do(t, "POST", "/api/v1/knowledge-bases/nope/hybrid-search", map[string]any{"query_text": "q"}).refused(t, 404, 1003, "knowledge_base_not_found", "")
	// What is deleted is not found.
	l.do(t, "DELETE", "/api/v1/knowledge/"+tagged.ID, nil)
	if got := l.search(t, "refunds", in(b)); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}
