package e2e

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

// addFile uploads a file to a base. fields are names and values by turns.
func (c client) addFile(t testing.TB, base, name string, content []byte, fields ...string) answer {
	t.Helper()
	out, err := c.sendFile(guarded(t), "/api/v1/knowledge-bases/"+base+"/knowledge/file", name, content, fields...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// doc is a document as far as tests look at it.
type doc struct {
	ID, Title, Type string
	Description     string
	Base            string `json:"knowledge_base_id"`
	BaseName        string `json:"knowledge_base_name"`
	Status          string `json:"parse_status"`
	Enabled         string `json:"enable_status"`
	FileName        string `json:"file_name"`
	FileType        string `json:"file_type"`
	Folder          string `json:"folder_path"`
	Size            int64  `json:"file_size"`
	Progress        int
	Chunks          int    `json:"chunk_count"`
	Error           string `json:"error_message"`
	ErrorCode       string `json:"error_code"`
	Tags            []struct{ ID, Name string }
	Processed       *time.Time `json:"processed_at"`
}

// settled asks for a document until nothing more is done for it.
func (c client) settled(t testing.TB, id string) doc {
	t.Helper()
	ctx := guarded(t)
	for {
		var d doc
		c.do(t, "GET", "/api/v1/knowledge/"+id, nil).data(t, 200, &d)
		switch d.Status {
		case "completed", "failed", "cancelled", "draft":
			return d
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("document %s stays %s", id, d.Status)
		}
	}
}

// added uploads a file and gives it when it can be found.
func (c client) added(t testing.TB, base, name, content string, fields ...string) doc {
	t.Helper()
	var d doc
	c.addFile(t, base, name, []byte(content), fields...).data(t, 200, &d)
	if d = c.settled(t, d.ID); d.Status != "completed" {
		t.Fatalf("%s: %+v", name, d)
	}
	return d
}

const handbook = `# Handbook

## Opening hours

The anvil shop opens at nine in the morning and closes at five.

## Refunds

Refunds are paid within fourteen days. 退款在十四天内支付。
`

// TestDocuments: a file on its way from the upload to a search, and all that can
// be done with it.
func TestDocuments(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	b := l.newBase(t, "Shop", "")
	path := "/api/v1/knowledge-bases/" + b + "/knowledge"
	first := l.addFile(t, b, "handbook.md", []byte(handbook), "metadata", `{"author":"A"}`, "channel", "web")
	form := fmt.Sprintf(`{"id":"<uuid>","tenant_id":1,"knowledge_base_id":%q,"tags":[],"type":"file","title":"handbook.md","description":"","source":"","channel":"web",
		"parse_status":"<text>","pending_subtasks_count":0,"summary_status":"none","enable_status":"enabled","embedding_model_id":"","file_name":"handbook.md","folder_path":"",
		"file_type":"md","file_size":%d,"storage_size":"<number>","file_hash":"<text>","file_path":"","metadata":{"author":"A"},"custom_metadata":null,"last_faq_import_result":null,
		"created_at":"<time>","updated_at":"<time>","processed_at":null,"error_message":"","deleted_at":null,"knowledge_base_name":"Shop","progress":"<number>","chunk_count":0}`, b, len(handbook))
	var d doc
	first.data(t, 200, &d)
	if d.Status == "pending" {
		first.same(t, 200, `{"success":true,"data":`+form+`}`)
	}
	d = l.settled(t, d.ID)
	if d.Status != "completed" || d.Progress != 100 || d.Chunks == 0 || d.Processed == nil || d.Title == "" {
		t.Fatalf("%+v", d)
	}
	same := l.addFile(t, b, "handbook.md", []byte(handbook))
	if same.status != 409 || !strings.Contains(same.body, `"code":"duplicate_file"`) || !strings.Contains(same.body, `"id":"`+d.ID+`"`) || !strings.HasPrefix(same.body, `{"code"`) && !strings.Contains(same.body, `"success":false`) {
		t.Errorf("the same file again: %d %s", same.status, same.body)
	}
	other := l.added(t, b, "hours.csv", "day,opens\nMonday,9\nSunday,closed\n", "fileName", "tables/2026/hours.csv")
	if other.Folder != "tables/2026" || other.FileType != "csv" || other.FileName != "hours.csv" {
		t.Errorf("%+v", other)
	}

	var bases []struct {
		Count  int `json:"knowledge_count"`
		Chunks int `json:"chunk_count"`
	}
	l.do(t, "GET", "/api/v1/knowledge-bases", nil).data(t, 200, &bases)
	if bases[0].Count != 2 || bases[0].Chunks != d.Chunks+other.Chunks {
		t.Errorf("counts %+v", bases)
	}
	for query, want := range map[string]int{"": 2, "?keyword=HAND": 1, "?file_type=csv": 1, "?parse_status=completed": 2, "?parse_status=failed": 0, "?source=file": 2, "?source=web": 1,
		"?source=url": 0, "?folder_path=": 1, "?folder_path=tables": 0, "?folder_path=tables&folder_recursive=true": 1, "?folder_path=tables/2026": 1, "?start_time=2000-01-01": 2,
		"?end_time=2000-01-01": 0, "?start_time=" + url.QueryEscape("2000-01-01 08:00:00"): 2, "?tag_ids=nope": 0, "?page_size=1": 1, "?page=3": 0} {
		var rows []doc
		l.do(t, "GET", path+query, nil).data(t, 200, &rows)
		if len(rows) != want {
			t.Errorf("%q: %d documents, want %d", query, len(rows), want)
		}
	}
	for _, bad := range []string{"?page_size=1001", "?start_time=x", "?folder_path=a/../b", "?keyword=" + strings.Repeat("x", 201)} {
		if a := l.do(t, "GET", path+bad, nil); a.status != 400 {
			t.Errorf("%s: HTTP %d", bad, a.status)
		}
	}
	l.do(t, "GET", path+"/folders", nil).same(t, 200, `{"success":true,"data":{"root_document_count":1,"total_document_count":2,"folders":[
		{"path":"tables","name":"tables","document_count":0,"total_count":1,"children":[{"path":"tables/2026","name":"2026","document_count":1,"total_count":1}]}]}}`)
	l.do(t, "PUT", path+"/folders", map[string]any{"from": "tables", "to": "old/tables"}).same(t, 200, `{"success":true,"data":{"moved_count":1,"folder_path":"old/tables"}}`)
	l.do(t, "PUT", path+"/folders", map[string]any{"from": "old", "to": "old/x"}).refused(t, 400, 1000, "bad_request", "itself")
	l.do(t, "POST", "/api/v1/knowledge/folder", map[string]any{"kb_id": b, "knowledge_ids": []string{d.ID, "nope"}, "folder_path": "texts"}).same(t, 200, `{"success":true,"data":{"moved_count":1,"folder_path":"texts"}}`)

	changed := l.do(t, "PUT", "/api/v1/knowledge/"+d.ID, map[string]any{"title": "The handbook", "description": "All of it", "custom_metadata": map[string]any{"v": 1}, "file_name": "ignored"})
	var now doc
	changed.data(t, 200, &now)
	if now.Title != "The handbook" || now.Description != "All of it" || now.FileName != "handbook.md" || now.Folder != "texts" || !strings.Contains(changed.body, `"custom_metadata":{"v":1}`) || !strings.Contains(changed.body, `"message":`) {
		t.Errorf("%s", changed.body)
	}
	var rows []doc
	l.do(t, "GET", "/api/v1/knowledge/batch?ids="+other.ID+"&ids="+d.ID+"&ids=nope", nil).data(t, 200, &rows)
	if len(rows) != 2 || rows[0].ID != other.ID {
		t.Errorf("%+v", rows)
	}
	l.do(t, "GET", "/api/v1/knowledge/batch", nil).refused(t, 400, 1000, "bad_request", "ids is required")
	found := l.do(t, "GET", "/api/v1/knowledge/search?keyword=the+hand", nil)
	if found.data(t, 200, &rows); len(rows) != 1 || !strings.Contains(found.body, `"has_more":false`) || !strings.Contains(found.body, `"total":1`) {
		t.Errorf("%s", found.body)
	}
	if found = l.do(t, "GET", "/api/v1/knowledge/search?recent=true&limit=1", nil); !strings.Contains(found.body, `"has_more":true`) {
		t.Errorf("%s", found.body)
	}
	l.do(t, "GET", "/api/v1/knowledge/search", nil).refused(t, 400, 1000, "bad_request", "keyword")

	got := l.do(t, "GET", "/api/v1/knowledge/"+d.ID+"/download", nil)
	if got.body != handbook || got.head.Get("Content-Type") != "application/octet-stream" || !strings.Contains(got.head.Get("Content-Disposition"), "attachment; filename=handbook.md") {
		t.Errorf("download: %v %q", got.head, got.body)
	}
	if got = l.do(t, "GET", "/api/v1/knowledge/"+other.ID+"/preview", nil); !strings.HasPrefix(got.head.Get("Content-Type"), "text/csv") || !strings.Contains(got.body, "Sunday") {
		t.Errorf("preview: %v %q", got.head, got.body)
	}
	for _, name := range []string{"spans", "stages"} {
		var s struct {
			Attempt int
			Latest  int    `json:"latest_attempt"`
			Status  string `json:"parse_status"`
			Trace   struct {
				Name, Status string
				Children     []struct{ Name, Status string }
			}
		}
		a := l.do(t, "GET", "/api/v1/knowledge/"+d.ID+"/"+name, nil)
		a.data(t, 200, &s)
		if s.Attempt != 1 || s.Latest != 1 || s.Trace.Name != "knowledge_processing" || s.Trace.Status != "done" || fmt.Sprint(s.Trace.Children) != "[{docreader done} {chunking done} {embedding skipped} {multimodal skipped} {postprocess done}]" {
			t.Errorf("%s", a.body)
		}
	}
	l.do(t, "POST", "/api/v1/knowledge/"+d.ID+"/cancel-parse", nil).refused(t, 409, 1005, "not_processing", "nothing to cancel")
	l.do(t, "POST", "/api/v1/knowledge/"+d.ID+"/reparse", nil).data(t, 200, &now) // what would come out the same is not made again
	if now.Status != "completed" {
		t.Errorf("%+v", now)
	}
	l.do(t, "POST", "/api/v1/knowledge/"+d.ID+"/reparse", map[string]any{"process_config": map[string]any{"chunking_config": map[string]any{"chunk_size": 32, "chunk_overlap": 0}}}).data(t, 200, &now)
	if now = l.settled(t, d.ID); now.Status != "completed" || now.Chunks <= d.Chunks {
		t.Errorf("smaller pieces: %+v", now)
	}
	l.do(t, "POST", "/api/v1/knowledge/batch-reparse", map[string]any{"kb_id": b, "ids": []string{d.ID, other.ID, "nope"}}).same(t, 200, `{"success":true,"data":{"task_id":"<text>","reparse_count":2}}`)

	l.do(t, "DELETE", "/api/v1/knowledge/"+d.ID, nil).same(t, 200, `{"success":true,"data":{"task_id":"<uuid>"},"message":"Knowledge deleted"}`)
	for _, r := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"PUT", ""}, {"GET", "/spans"}, {"GET", "/download"}, {"GET", "/preview"}, {"POST", "/reparse"}, {"POST", "/cancel-parse"}} {
		l.do(t, r[0], "/api/v1/knowledge/"+d.ID+r[1], nil).refused(t, 404, 1003, "knowledge_not_found", "no such document")
	}
	again := l.added(t, b, "handbook.md", handbook) // there is room for it again
	if again.ID == d.ID {
		t.Error("a deleted document came back under its id")
	}
	l.do(t, "POST", "/api/v1/knowledge/batch-delete", map[string]any{"kb_id": b, "ids": []string{again.ID, "nope"}}).same(t, 200, `{"success":true,"data":{"task_id":"<text>","deleted_count":1}}`)
	l.do(t, "POST", "/api/v1/knowledge/batch-delete", map[string]any{"kb_id": b, "ids": []string{}}).refused(t, 400, 1000, "bad_request", "ids is required")
	l.do(t, "DELETE", path, nil).same(t, 200, `{"success":true,"data":{"deleted_count":1},"message":"<text>"}`)
	l.do(t, "GET", path, nil).same(t, 200, `{"success":true,"data":[],"total":0,"page":1,"page_size":20}`)
}

// TestUpload_Bounds: what is no file to read is refused with a sentence.
func TestUpload_Bounds(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(s *settings) { s.Upload = 2 << 20 })
	b := l.newBase(t, "B", "")
	path := "/api/v1/knowledge-bases/" + b + "/knowledge"
	whole := l.added(t, b, "largest.txt", strings.Repeat("word and\n", (2<<20)/9))
	if whole.Size < 2<<20-9 {
		t.Errorf("%+v", whole)
	}
	l.addFile(t, b, "larger.txt", bytes.Repeat([]byte("x"), 2<<20+1)).refused(t, 400, 1000, "file_too_large", "2 MiB")
	l.addFile(t, b, "huge.txt", bytes.Repeat([]byte("x"), 5<<20)).refused(t, 400, 1000, "file_too_large", "2 MiB")
	l.addFile(t, b, "empty.md", nil).refused(t, 400, 1000, "empty_file", "empty")
	for _, name := range []string{"program.exe", "noextension", "archive.zip"} {
		if a := l.addFile(t, b, name, []byte("MZ")); a.status != 400 || !strings.Contains(a.body, "supported are") || !strings.Contains(a.body, "xlsx") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	l.addFile(t, b, "x.md", []byte("x"), "metadata", "[1]").refused(t, 400, 1000, "bad_request", "metadata must be a JSON object")
	l.addFile(t, b, "x.md", []byte("x"), "tag_ids", "nope").refused(t, 404, 1003, "tag_not_found", "")
	l.addFile(t, b, "x.md", []byte("x"), "process_config", `{"chunking_config":{"chunk_size":-1}}`).refused(t, 400, 1000, "bad_chunking_config", "")
	l.addFile(t, b, "x.md", []byte("x"), "folder_path", "a/../b").refused(t, 400, 1000, "bad_folder_path", "")
	l.addFile(t, "nope", "x.md", []byte("x")).refused(t, 404, 1003, "knowledge_base_not_found", "")
	l.do(t, "POST", path+"/file", map[string]any{"file": "x"}).refused(t, 400, 1000, "bad_request", "multipart/form-data")
	faq := l.newBase(t, "Q", "faq")
	l.addFile(t, faq, "x.md", []byte("x")).refused(t, 400, 1000, "wrong_knowledge_base_type", "")

	for address, reason := range map[string]string{"": "bad_url", "ftp://example.com/x": "bad_url", "http://user:pw@example.com/": "bad_url", "http://127.0.0.1/x": "ssrf_rejected",
		"http://[::ffff:10.0.0.1]/": "ssrf_rejected", "http://169.254.169.254/latest/meta-data": "ssrf_rejected", "http://example.com:22/": "ssrf_rejected"} {
		l.do(t, "POST", path+"/url", map[string]any{"url": address}).refused(t, 400, 1000, reason, "address")
	}
	if a := l.do(t, "POST", path+"/url", map[string]any{"url": "https://example.com/x", "file_type": "exe"}); a.status != 400 || !strings.Contains(a.body, "supported are") {
		t.Errorf("%d %s", a.status, a.body)
	}
	// A file that can't be read says so, and is kept.
	var broken doc
	l.addFile(t, b, "broken.pdf", []byte("no PDF at all")).data(t, 200, &broken)
	if broken = l.settled(t, broken.ID); broken.Status != "failed" || broken.Error == "" || broken.ErrorCode != "damaged" {
		t.Errorf("%+v", broken)
	}
	if a := l.do(t, "GET", "/api/v1/knowledge/"+broken.ID+"/download", nil); a.body != "no PDF at all" {
		t.Errorf("%d %q", a.status, a.body)
	}
	var rest []doc
	l.do(t, "GET", path, nil).data(t, 200, &rest)
	if len(rest) != 2 {
		t.Errorf("refused files are there: %+v", rest)
	}
}

// TestUpload_Again: a form with an Idempotency-Key adds one document, also when the
// client draws another boundary.
func TestUpload_Again(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	b := l.newBase(t, "B", "")
	again := l.with("Idempotency-Key", "k1")
	first, second := again.addFile(t, b, "x.md", []byte("# X\n\nwords")), again.addFile(t, b, "x.md", []byte("# X\n\nwords"))
	if first.status != 200 || first.body != second.body || second.head.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %s\n%d %s", first.status, first.body, second.status, second.body)
	}
	again.addFile(t, b, "y.md", []byte("y")).refused(t, 409, 1005, "idempotency_key_reused", "")
}

// TestManual: a typed text is found when it is published, and not before.
func TestManual(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	b := l.newBase(t, "B", "")
	path := "/api/v1/knowledge-bases/" + b + "/knowledge/manual"
	finds := func(query string) int {
		var out []struct{ ID string }
		l.do(t, "POST", "/api/v1/knowledge-search", map[string]any{"query": query, "knowledge_base_ids": []string{b}}).data(t, 200, &out)
		return len(out)
	}
	var d doc
	l.do(t, "POST", path, map[string]any{"content": "## Where the anvils are\n\nIn the cellar."}).data(t, 200, &d)
	if d.Status != "draft" || d.Title != "Where the anvils are" || d.Type != "manual" || finds("cellar") != 0 {
		t.Errorf("%+v, found %d", d, finds("cellar"))
	}
	l.do(t, "PUT", "/api/v1/knowledge/manual/"+d.ID, map[string]any{"title": "Anvils", "content": "In the attic.", "status": "publish"}).data(t, 200, &d)
	if d = l.settled(t, d.ID); d.Status != "completed" || d.Title != "Anvils" || finds("attic") != 1 || finds("cellar") != 0 {
		t.Errorf("%+v, found %d and %d", d, finds("attic"), finds("cellar"))
	}
	if a := l.do(t, "GET", "/api/v1/knowledge/"+d.ID+"/download", nil); a.body != "In the attic." || !strings.Contains(a.head.Get("Content-Disposition"), "Anvils.md") {
		t.Errorf("%v %q", a.head, a.body)
	}
	l.do(t, "PUT", "/api/v1/knowledge/manual/"+d.ID, map[string]any{"title": "Anvils"}).refused(t, 400, 1010, "content_required", "content is required")
	l.do(t, "POST", path, map[string]any{"content": strings.Repeat("字", 200_001)}).refused(t, 400, 1000, "content_too_long", "200000")
	l.do(t, "POST", path, map[string]any{"content": "x", "status": "x"}).refused(t, 400, 1000, "bad_request", "publish")
	file := l.added(t, b, "f.md", "text")
	l.do(t, "PUT", "/api/v1/knowledge/manual/"+file.ID, map[string]any{"content": "x"}).refused(t, 400, 1000, "not_manual", "typed")
	// Switched off, nothing finds it.
	l.do(t, "PUT", "/api/v1/knowledge/"+d.ID, map[string]any{"enable_status": "disabled"}).data(t, 200, &d)
	if d.Enabled != "disabled" || finds("attic") != 0 {
		t.Errorf("%+v, found %d", d, finds("attic"))
	}
}
