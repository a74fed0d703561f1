package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// baseForm is a knowledge base as it is after it was made.
func baseForm(name, kind string) string {
	faq, isFAQ := "null", "false"
	if kind == "faq" {
		faq, isFAQ = `{"index_mode":"question_answer","question_index_mode":"combined"}`, "true"
	}
	return fmt.Sprintf(`{"id":"<uuid>","name":%q,"type":%q,"is_temporary":false,"description":"","tenant_id":1,"creator_id":"user:local",
		"chunking_config":{"chunk_size":512,"chunk_overlap":80,"separators":[]},"image_processing_config":{"model_id":""},"embedding_model_id":"","summary_model_id":"",
		"vlm_config":{"enabled":false,"model_id":""},"asr_config":{"enabled":false,"model_id":"","language":""},"storage_provider_config":null,"storage_config":{},
		"extract_config":null,"faq_config":%s,"question_generation_config":null,"auto_tag_config":null,"wiki_config":null,
		"indexing_strategy":{"vector_enabled":true,"keyword_enabled":true,"wiki_enabled":false,"graph_enabled":false},"is_pinned":false,"pinned_at":null,
		"created_at":"<time>","updated_at":"<time>","deleted_at":null,"knowledge_count":0,"chunk_count":0,"is_processing":false,"processing_count":0,"share_count":0,
		"capabilities":{"vector":false,"keyword":true,"wiki":false,"graph":false,"faq":%s}}`, name, kind, faq, isFAQ)
}

// newBase makes a knowledge base and gives its id.
func (c client) newBase(t testing.TB, name, kind string) string {
	t.Helper()
	var b struct{ ID string }
	c.do(t, "POST", "/api/v1/knowledge-bases", map[string]any{"name": name, "type": kind}).data(t, 201, &b)
	return b.ID
}

// TestBases: create, read, list, change, pin, copy the settings, delete.
func TestBases(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	one := func(form string) string { return `{"success":true,"data":` + form + `}` }
	l.do(t, "GET", "/api/v1/knowledge-bases", nil).same(t, 200, `{"success":true,"data":[]}`)
	// As the SDK sends it: zero values and nulls for all that is not set.
	created := l.do(t, "POST", "/api/v1/knowledge-bases", `{"id":"","name":"Handbook","type":"document","is_temporary":false,"description":"","tenant_id":0,
		"chunking_config":{"chunk_size":0,"chunk_overlap":0,"separators":null},"image_processing_config":{"model_id":""},"embedding_model_id":"","summary_model_id":"",
		"vlm_config":{"enabled":false,"model_id":""},"storage_config":{"secret_id":"","secret_key":""},"extract_config":null,"faq_config":null,"question_generation_config":null,
		"indexing_strategy":{"vector_enabled":false,"keyword_enabled":false,"wiki_enabled":false,"graph_enabled":false},"created_at":"0001-01-01T00:00:00Z","unknown":1}`)
	created.same(t, 201, one(strings.Replace(baseForm("Handbook", "document"), `"storage_config":{}`, `"storage_config":{"secret_id":"","secret_key":""}`, 1)))
	var b struct{ ID string }
	created.data(t, 201, &b)
	path := "/api/v1/knowledge-bases/" + b.ID
	l.do(t, "POST", "/api/v1/knowledge-bases", map[string]any{"name": "Questions", "type": "faq"}).same(t, 201, one(baseForm("Questions", "faq")))
	for body, want := range map[string][2]string{
		`{"name":" "}`:                                     {"bad_name", "1 to 128"},
		`{"name":"x","type":"table"}`:                      {"bad_type", "faq"},
		`{"name":"x","faq_config":{"index_mode":"q"}}`:     {"bad_faq_config", "faq"},
		`{"name":"x","chunking_config":{"chunk_size":-1}}`: {"bad_chunking_config", "sizes"},
		`{"name":"x","vlm_config":3}`:                      {"bad_request", "vlm_config must be an object"},
		`{"name":"x","summary_model_id":3}`:                {"bad_request", "a string"},
		`{"name":3}`:                                       {"bad_request", "name"},
		`[]`:                                               {"bad_request", "object"},
	} {
		l.do(t, "POST", "/api/v1/knowledge-bases", body).refused(t, 400, 1000, want[0], want[1])
	}
	var rows []struct {
		ID     string
		Name   string
		Pinned bool `json:"is_pinned"`
	}
	l.do(t, "PUT", path+"/pin", nil)
	l.do(t, "GET", "/api/v1/knowledge-bases", nil).data(t, 200, &rows)
	if len(rows) != 2 || rows[0].ID != b.ID || !rows[0].Pinned || rows[1].Pinned {
		t.Errorf("the pinned one comes first: %+v", rows)
	}
	l.do(t, "PUT", path+"/pin", nil)
	l.do(t, "GET", "/api/v1/knowledge-bases?creator=others", nil).same(t, 200, `{"success":true,"data":[]}`)
	l.do(t, "GET", "/api/v1/knowledge-bases?creator=x", nil).refused(t, 400, 1000, "bad_request", "mine")
	changed := l.do(t, "PUT", path, map[string]any{"name": "Manual", "description": "d", "config": map[string]any{"chunking_config": map[string]any{"chunk_size": 200, "chunk_overlap": 20},
		"image_processing_config": map[string]any{"model_id": "m"}, "faq_config": nil, "indexing_strategy": map[string]any{"keyword_enabled": true}}})
	var after struct {
		Name, Description string
		Chunking          struct {
			Size int `json:"chunk_size"`
		} `json:"chunking_config"`
		Image struct {
			Model string `json:"model_id"`
		} `json:"image_processing_config"`
		Strategy struct {
			Vector  bool `json:"vector_enabled"`
			Keyword bool `json:"keyword_enabled"`
		} `json:"indexing_strategy"`
	}
	changed.data(t, 200, &after)
	if after.Name != "Manual" || after.Description != "d" || after.Chunking.Size != 200 || after.Image.Model != "m" || after.Strategy.Vector || !after.Strategy.Keyword {
		t.Errorf("%s", changed.body)
	}
	if tag := changed.head.Get("ETag"); tag == "" || tag == created.head.Get("ETag") {
		t.Errorf("ETag %q", tag)
	}
	l.with("If-Match", created.head.Get("ETag")).do(t, "PUT", path, map[string]any{"name": "Other"}).refused(t, 412, 1005, "changed_meanwhile", "read it again")
	l.do(t, "PUT", path, map[string]any{"name": "Manual", "description": "d", "config": nil}).data(t, 200, &after)
	if after.Chunking.Size != 200 {
		t.Error("null for the configuration has changed it")
	}
	var copied struct {
		Source string `json:"source_id"`
		Target string `json:"target_id"`
		Base   struct {
			Name     string
			Chunking struct {
				Size int `json:"chunk_size"`
			} `json:"chunking_config"`
		} `json:"knowledge_base"`
	}
	l.do(t, "POST", path+"/duplicate", nil).data(t, 201, &copied)
	if copied.Source != b.ID || copied.Base.Name != "Manual (copy)" || copied.Base.Chunking.Size != 200 {
		t.Errorf("%+v", copied)
	}
	l.do(t, "GET", path+"/move-targets", nil).data(t, 200, &rows)
	if len(rows) != 1 || rows[0].ID != copied.Target {
		t.Errorf("%+v", rows)
	}
	l.do(t, "DELETE", path, nil).same(t, 200, `{"success":true,"message":"Knowledge base deleted"}`)
	for method, sub := range map[string]string{"GET": "", "PUT": "/pin", "DELETE": "", "POST": "/duplicate"} {
		l.do(t, method, path+sub, nil).refused(t, 404, 1003, "knowledge_base_not_found", "no such knowledge base")
	}
	l.do(t, "GET", "/api/v1/knowledge-bases/"+strings.Repeat("x", 300), nil).refused(t, 404, 1003, "knowledge_base_not_found", "")
}

// TestBases_Again: a request with an Idempotency-Key makes one base.
func TestBases_Again(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	again := l.with("Idempotency-Key", "k1")
	first := again.do(t, "POST", "/api/v1/knowledge-bases", map[string]any{"name": "A"})
	second := again.do(t, "POST", "/api/v1/knowledge-bases", map[string]any{"name": "A"})
	if first.status != 201 || first.body != second.body || second.head.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %s\n%d %s", first.status, first.body, second.status, second.body)
	}
	var rows []struct{ ID string }
	l.do(t, "GET", "/api/v1/knowledge-bases", nil).data(t, 200, &rows)
	if len(rows) != 1 {
		t.Errorf("%d bases", len(rows))
	}
}

// TestTags: create, list, rename, use, delete.
func TestTags(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	b := l.newBase(t, "Handbook", "")
	path := "/api/v1/knowledge-bases/" + b + "/tags"
	form := func(name, color string, order int) string {
		return fmt.Sprintf(`{"id":"<uuid>","seq_id":"<number>","tenant_id":1,"knowledge_base_id":"%s","name":%q,"color":%q,"sort_order":%d,"created_at":"<time>","updated_at":"<time>"`, b, name, color, order)
	}
	page := func(total int, rows ...string) string {
		return fmt.Sprintf(`{"success":true,"data":{"data":[%s],"total":%d,"page":1,"page_size":20}}`, strings.Join(rows, ","), total)
	}
	l.do(t, "GET", path, nil).same(t, 200, page(0))
	created := l.do(t, "POST", path, map[string]any{"name": "Billing", "color": "#3b82f6", "sort_order": 2})
	created.same(t, 200, `{"success":true,"data":`+form("Billing", "#3b82f6", 2)+`}}`)
	var tag struct {
		ID  string
		Num int64 `json:"seq_id"`
	}
	created.data(t, 200, &tag)
	l.do(t, "POST", path, map[string]any{"name": "发票"})
	if a := l.do(t, "POST", path, map[string]any{"name": "billing"}); a.status != 409 || !strings.Contains(a.body, tag.ID) {
		t.Errorf("the same name again: %d %s", a.status, a.body)
	}
	l.do(t, "POST", path, map[string]any{"name": ""}).refused(t, 400, 1000, "bad_tag_name", "128")
	l.do(t, "PUT", fmt.Sprintf("%s/%d", path, tag.Num), map[string]any{"name": "Bills"}).same(t, 200, `{"success":true,"data":`+form("Bills", "#3b82f6", 2)+`}}`)
	l.do(t, "GET", path, nil).same(t, 200, page(2, form("发票", "", 0)+`,"knowledge_count":0,"chunk_count":0}`, form("Bills", "#3b82f6", 2)+`,"knowledge_count":0,"chunk_count":0}`))
	l.do(t, "GET", path+"?keyword=ill", nil).same(t, 200, page(1, form("Bills", "#3b82f6", 2)+`,"knowledge_count":0,"chunk_count":0}`))
	var doc struct{ ID string }
	l.do(t, "POST", "/api/v1/knowledge-bases/"+b+"/knowledge/manual", map[string]any{"title": "T", "content": "c", "tag_ids": []string{tag.ID}}).data(t, 200, &doc)
	l.do(t, "DELETE", path+"/"+tag.ID, nil).refused(t, 409, 1005, "tag_in_use", "force")
	l.do(t, "DELETE", path+"/"+tag.ID+"?content_only=true", nil).same(t, 200, `{"success":true,"message":"<text>"}`)
	l.do(t, "GET", "/api/v1/knowledge/"+doc.ID, nil).refused(t, 404, 1003, "knowledge_not_found", "")
	l.do(t, "POST", "/api/v1/knowledge-bases/"+b+"/knowledge/manual", map[string]any{"title": "T", "content": "c", "tag_ids": []string{tag.ID}}).data(t, 200, &doc)
	l.do(t, "DELETE", path+"/"+tag.ID+"?force=yes", nil).refused(t, 400, 1000, "bad_request", "force must be true or false")
	l.do(t, "DELETE", path+"/"+tag.ID+"?force=1", nil).same(t, 200, `{"success":true,"message":"Tag deleted"}`)
	l.do(t, "DELETE", path+"/"+tag.ID, nil).refused(t, 404, 1003, "tag_not_found", "")
	if a := l.do(t, "GET", "/api/v1/knowledge/"+doc.ID, nil); a.status != 200 || !strings.Contains(a.body, `"tags":[]`) {
		t.Errorf("the document lost its tag: %d %s", a.status, a.body)
	}
	l.do(t, "PUT", "/api/v1/knowledge/tags", map[string]any{"updates": map[string]any{doc.ID: []string{tag.ID}}}).refused(t, 404, 1003, "tag_not_found", "")
}
