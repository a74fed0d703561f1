package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// stock is knowledge of one tenant, for tests of what another one sees of it.
type stock struct {
	base, faq, tag, document, chunk, task string
	entry                                 int64
}

// stock makes one of everything.
func (c client) stock(t testing.TB) stock {
	t.Helper()
	k := stock{base: c.newBase(t, "The anvil shop", ""), faq: c.newBase(t, "Questions about anvils", "faq"), task: "anvil-import"}
	var tag struct{ ID string }
	c.do(t, "POST", "/api/v1/knowledge-bases/"+k.base+"/tags", map[string]any{"name": "anvil tag"}).data(t, 200, &tag)
	k.tag = tag.ID
	k.document = c.added(t, k.base, "anvils.md", "# Anvils\n\nThe anvil weighs a ton.", "tag_ids", tag.ID).ID
	k.chunk = c.pieces(t, k.document, "")[0].ID
	var e faqEntry
	c.do(t, "POST", "/api/v1/knowledge-bases/"+k.faq+"/faq/entry", map[string]any{"standard_question": "What is an anvil?", "answers": []string{"Iron."}}).data(t, 200, &e)
	k.entry = e.ID
	c.do(t, "POST", "/api/v1/knowledge-bases/"+k.faq+"/faq/entries", map[string]any{"mode": "append", "task_id": k.task,
		"entries": []map[string]any{{"standard_question": "Where is the anvil?", "answers": []string{"Here."}}}})
	c.imported(t, k.task)
	for _, d := range c.entries(t, k.faq) {
		c.settled(t, d.Document)
	}
	return k
}

func (c client) entries(t testing.TB, base string) []faqEntry {
	t.Helper()
	var page struct{ Data []faqEntry }
	c.do(t, "GET", "/api/v1/knowledge-bases/"+base+"/faq/entries?page_size=1000", nil).data(t, 200, &page)
	return page.Data
}

func (k stock) secrets() []string {
	return []string{k.base, k.faq, k.tag, k.document, k.chunk, fmt.Sprint(k.entry)}
}

// baseOf is the base that a route is about.
func (k stock) baseOf(pattern string) string {
	if strings.Contains(pattern, "/faq/") {
		return k.faq
	}
	return k.base
}

// bodies are what the routes about knowledge are sent: each would do something, if
// it were one's own.
func (k stock) bodies() map[string]any {
	const b, f, d = "/api/v1/knowledge-bases/{base}", "/api/v1/knowledge-bases/{base}/faq", "/api/v1/knowledge/"
	entry := map[string]any{"standard_question": "Changed?", "answers": []string{"Yes."}}
	number := fmt.Sprint(k.entry)
	return map[string]any{
		"PUT " + b: map[string]any{"name": "changed"}, "POST " + b + "/hybrid-search": map[string]any{"query_text": "anvil"}, "GET " + b + "/hybrid-search": map[string]any{"query_text": "anvil"},
		"POST /api/v1/knowledge-search": map[string]any{"query": "anvil", "knowledge_base_ids": []string{k.base}, "knowledge_ids": []string{k.document}},
		"POST " + b + "/knowledge/url":  map[string]any{"url": "https://example.com/"}, "POST " + b + "/knowledge/manual": map[string]any{"content": "changed"},
		"PUT " + b + "/knowledge/folders": map[string]any{"from": "a", "to": "b"}, "PUT " + d + "tags": map[string]any{"updates": map[string]any{k.document: []string{}}},
		"POST " + d + "folder":              map[string]any{"kb_id": k.base, "knowledge_ids": []string{k.document}, "folder_path": "x"},
		"POST " + d + "move":                map[string]any{"knowledge_ids": []string{k.document}, "source_kb_id": k.base, "target_kb_id": k.faq, "mode": "reparse"},
		"POST /api/v1/knowledge-bases/copy": map[string]any{"source_id": k.base},
		"POST " + d + "batch-delete":        map[string]any{"kb_id": k.base, "ids": []string{k.document}}, "POST " + d + "batch-reparse": map[string]any{"kb_id": k.base, "ids": []string{k.document}},
		"PUT " + d + "manual/{document}": map[string]any{"content": "changed"}, "PUT " + d + "{document}": map[string]any{"title": "changed"},
		"PUT /api/v1/chunks/{document}/{chunk}": map[string]any{"content": "changed"}, "POST /api/v1/chunks/{document}/{chunk}/revert": map[string]any{"revision": 0},
		"POST " + f + "/entries": map[string]any{"entries": []any{entry}, "mode": "replace"}, "DELETE " + f + "/entries": map[string]any{"ids": []int64{k.entry}},
		"PUT " + f + "/entries/fields": map[string]any{"by_id": map[string]any{number: map[string]any{"is_enabled": false}}}, "PUT " + f + "/entries/tags": map[string]any{"updates": map[string]any{number: nil}},
		"PUT " + f + "/entries/{entry}": entry, "POST " + f + "/entries/{entry}/similar-questions": map[string]any{"similar_questions": []string{"changed"}}, "POST " + f + "/entry": entry,
		"POST " + f + "/search": map[string]any{"query_text": "anvil"}, "PUT " + f + "/import/last-result/display": map[string]any{"display_status": "close"},
		"POST " + b + "/tags": map[string]any{"name": "changed"}, "PUT " + b + "/tags/{tag}": map[string]any{"name": "changed"},
	}
}

// snapshot is what the tenant sees of its knowledge.
func (k stock) snapshot(t testing.TB, c client) string {
	t.Helper()
	var out strings.Builder
	for _, path := range []string{"knowledge-bases", "knowledge-bases/" + k.base + "/knowledge", "knowledge-bases/" + k.base + "/tags", "chunks/" + k.document, "knowledge/" + k.document,
		"knowledge-bases/" + k.faq + "/faq/entries", "faq/import/progress/" + k.task} {
		fmt.Fprintf(&out, "%s %s\n", path, c.do(t, "GET", "/api/v1/"+path, nil).body)
	}
	return out.String()
}

// noneOf checks that ids of the stock name nothing in what belongs to another
// tenant.
func (k stock) noneOf(t testing.TB, c client) {
	t.Helper()
	own := c.newBase(t, "Own", "")
	path := "/api/v1/knowledge-bases/" + own
	c.do(t, "POST", path+"/hybrid-search", map[string]any{"query_text": "anvil", "knowledge_ids": []string{k.document}}).refused(t, 404, 1003, "knowledge_not_found", "")
	c.do(t, "POST", path+"/hybrid-search", map[string]any{"query_text": "anvil", "knowledge_base_ids": []string{k.base}}).refused(t, 404, 1003, "knowledge_base_not_found", "")
	c.do(t, "POST", path+"/hybrid-search", map[string]any{"query_text": "anvil", "tag_ids": []string{k.tag}}).refused(t, 404, 1003, "tag_not_found", "")
	c.do(t, "POST", "/api/v1/knowledge/batch-delete", map[string]any{"kb_id": own, "ids": []string{k.document}}).same(t, 200, `{"success":true,"data":{"task_id":"<text>","deleted_count":0}}`)
	c.do(t, "POST", path+"/knowledge/manual", map[string]any{"content": "c", "tag_ids": []string{k.tag}}).refused(t, 404, 1003, "tag_not_found", "")
	mine := c.added(t, own, "anvils.md", "# Anvils\n\nThe anvil weighs a ton.") // the same bytes are another document
	if mine.ID == k.document {
		t.Error("two tenants share a document")
	}
	c.do(t, "PUT", "/api/v1/chunks/"+mine.ID+"/"+k.chunk, map[string]any{"content": "changed"}).refused(t, 404, 1003, "chunk_not_found", "")
	for _, in := range []map[string]any{{"source_id": k.base, "target_id": own}, {"source_id": own, "target_id": k.base}} {
		c.do(t, "POST", "/api/v1/knowledge-bases/copy", in).refused(t, 404, 1003, "knowledge_base_not_found", "")
		in["source_kb_id"], in["target_kb_id"], in["mode"], in["knowledge_ids"] = in["source_id"], in["target_id"], "reuse_vectors", []string{mine.ID}
		c.do(t, "POST", "/api/v1/knowledge/move", in).refused(t, 404, 1003, "knowledge_base_not_found", "")
	}
	another := c.newBase(t, "Another", "")
	c.do(t, "POST", "/api/v1/knowledge/move", map[string]any{"source_kb_id": own, "target_kb_id": another, "mode": "reparse", "knowledge_ids": []string{mine.ID, k.document}}).refused(t, 404, 1003, "knowledge_not_found", "")
	if got := c.finds(t, own, "anvil", 1); got[0].Document != mine.ID {
		t.Errorf("%+v", got)
	}
}
