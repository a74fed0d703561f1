package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// faqEntry is an FAQ entry as far as tests look at it.
type faqEntry struct {
	ID          int64
	Question    string   `json:"standard_question"`
	Similar     []string `json:"similar_questions"`
	Answers     []string
	Tag         int64  `json:"tag_id"`
	TagName     string `json:"tag_name"`
	Enabled     bool   `json:"is_enabled"`
	Recommended bool   `json:"is_recommended"`
	Document    string `json:"knowledge_id"`
	Score       float64
	Matched     string `json:"matched_question"`
}

// imported waits for an import and gives how it ended.
func (c client) imported(t testing.TB, task string) map[string]any {
	t.Helper()
	ctx := guarded(t)
	for {
		var p map[string]any
		c.do(t, "GET", "/api/v1/faq/import/progress/"+task, nil).data(t, 200, &p)
		if p["status"] == "completed" || p["status"] == "failed" {
			return p
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("import %s: %v", task, p)
		}
	}
}

// TestFAQ: entries one by one.
func TestFAQ(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	b := l.newBase(t, "Questions", "faq")
	path := "/api/v1/knowledge-bases/" + b + "/faq"
	l.do(t, "GET", path+"/entries", nil).same(t, 200, `{"success":true,"data":{"data":[],"total":0,"page":1,"page_size":20}}`)
	created := l.do(t, "POST", path+"/entry", map[string]any{"id": 0, "standard_question": "When do you open?", "similar_questions": []string{"What are your hours?"}, "negative_questions": nil,
		"answers": []string{"At nine."}, "tag_id": 0, "tag_name": ""})
	form := `{"id":"<number>","chunk_id":"<uuid>","knowledge_id":"<uuid>","knowledge_base_id":"` + b + `","tag_id":"<number>","tag_name":"未分类","is_enabled":true,"is_recommended":true,
		"standard_question":"When do you open?","similar_questions":["What are your hours?"],"negative_questions":[],"answers":["At nine."],"answer_strategy":"all",
		"index_mode":"question_answer","updated_at":"<time>","created_at":"<time>","chunk_type":"faq"}`
	created.same(t, 200, `{"success":true,"data":`+form+`}`)
	var e faqEntry
	created.data(t, 200, &e)
	one := fmt.Sprintf("%s/entries/%d", path, e.ID)
	l.do(t, "GET", one, nil).same(t, 200, `{"success":true,"data":`+form+`}`)
	l.do(t, "GET", path+"/entries", nil).same(t, 200, `{"success":true,"data":{"data":[`+form+`],"total":1,"page":1,"page_size":20}}`)
	if a := l.do(t, "POST", path+"/entry", map[string]any{"standard_question": "when do you open", "answers": []string{"Never."}}); a.status != 400 || !strings.Contains(a.body, "duplicate_question") {
		t.Errorf("the same question again: %d %s", a.status, a.body)
	}
	for _, body := range []map[string]any{{"standard_question": "What are your hours", "answers": []string{"Never."}}, {"standard_question": "Hours?", "similar_questions": []string{"when do you OPEN"}, "answers": []string{"Never."}}} {
		if a := l.do(t, "POST", path+"/entry", body); a.status != 400 || !strings.Contains(a.body, "duplicate_question") {
			t.Errorf("a question that is asked by another: %d %s", a.status, a.body)
		}
	}
	again := l.with("Idempotency-Key", "k")
	first := again.do(t, "POST", path+"/entry", map[string]any{"standard_question": "What is an anvil?", "answers": []string{"Iron."}})
	if second := again.do(t, "POST", path+"/entry", map[string]any{"standard_question": "What is an anvil?", "answers": []string{"Iron."}}); first.status != 200 || first.body != second.body {
		t.Errorf("%d %s\n%d %s", first.status, first.body, second.status, second.body)
	}
	if a := l.with("Idempotency-Key", "k2").do(t, "POST", path+"/entry", map[string]any{"standard_question": "What is an anvil?", "answers": []string{"Iron."}}); a.status != 400 {
		t.Errorf("the same question under another key: %d %s", a.status, a.body)
	}
	for _, bad := range []map[string]any{{"standard_question": ""}, {"standard_question": "q", "answers": []string{}}, {"standard_question": "q", "answers": []string{"a"}, "answer_strategy": "x"}} {
		l.do(t, "POST", path+"/entry", bad).refused(t, 400, 1000, "bad_entry", "")
	}
	l.do(t, "GET", path+"/entries/x", nil).refused(t, 400, 1000, "bad_request", "a number")
	l.do(t, "GET", path+"/entries/7", nil).refused(t, 404, 1003, "knowledge_not_found", "")
	l.do(t, "POST", one+"/similar-questions", map[string]any{"similar_questions": []string{"Opening time?"}}).data(t, 200, &e)
	if a := l.do(t, "POST", one+"/similar-questions", map[string]any{"similar_questions": []string{"what is an anvil"}}); a.status != 400 || !strings.Contains(a.body, "duplicate_question") {
		t.Errorf("a question that is asked by another: %d %s", a.status, a.body)
	}
	if len(e.Similar) != 2 {
		t.Errorf("%+v", e)
	}
	l.do(t, "PUT", one, map[string]any{"standard_question": "When do you close?", "answers": []string{"At five."}, "is_enabled": false}).data(t, 200, &e)
	if e.Question != "When do you close?" || e.Tag != 0 || e.Enabled || !e.Recommended || len(e.Similar) != 0 {
		t.Errorf("%+v", e)
	}
	var tag struct {
		Num int64 `json:"seq_id"`
	}
	l.do(t, "POST", "/api/v1/knowledge-bases/"+b+"/tags", map[string]any{"name": "Hours"}).data(t, 200, &tag)
	ok := func(a answer) { t.Helper(); a.same(t, 200, `{"success":true}`) }
	id := fmt.Sprint(e.ID)
	ok(l.do(t, "PUT", path+"/entries/tags", map[string]any{"updates": map[string]any{id: tag.Num}}))
	ok(l.do(t, "PUT", path+"/entries/fields", map[string]any{"by_tag": map[string]any{fmt.Sprint(tag.Num): map[string]any{"is_enabled": true, "is_recommended": false}}}))
	l.do(t, "GET", one, nil).data(t, 200, &e)
	if e.TagName != "Hours" || !e.Enabled || e.Recommended {
		t.Errorf("%+v", e)
	}
	ok(l.do(t, "PUT", path+"/entries/fields", map[string]any{"by_id": map[string]any{id: map[string]any{"tag_id": 0}}}))
	l.do(t, "PUT", path+"/entries/fields", map[string]any{"by_id": map[string]any{"7": map[string]any{"is_enabled": true}}}).refused(t, 404, 1003, "knowledge_not_found", "")
	l.do(t, "PUT", path+"/entries/tags", map[string]any{"updates": map[string]any{id: 7}}).refused(t, 404, 1003, "tag_not_found", "")
	for query, want := range map[string]int{"": 2, "?keyword=close": 1, "?keyword=five&search_field=answers": 1, "?keyword=five&search_field=standard_question": 0, fmt.Sprintf("?tag_id=%d", tag.Num): 0, "?sort_order=asc&page_size=1": 1} {
		var page struct{ Data []faqEntry }
		l.do(t, "GET", path+"/entries"+query, nil).data(t, 200, &page)
		if len(page.Data) != want {
			t.Errorf("%q: %d entries, want %d", query, len(page.Data), want)
		}
	}
	l.do(t, "GET", path+"/entries?search_field=x", nil).refused(t, 400, 1000, "bad_request", "search_field")
	ok(l.do(t, "DELETE", path+"/entries", map[string]any{"ids": []int64{e.ID, 7}}))
	l.do(t, "GET", one, nil).refused(t, 404, 1003, "knowledge_not_found", "")
	docs := l.newBase(t, "Docs", "")
	l.do(t, "GET", "/api/v1/knowledge-bases/"+docs+"/faq/entries", nil).refused(t, 400, 1000, "wrong_knowledge_base_type", "")
}

// TestFAQ_Separate: every question is found by itself, and a search may ask for
// what is recommended only.
func TestFAQ_Separate(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	var base struct{ ID string }
	l.do(t, "POST", "/api/v1/knowledge-bases", map[string]any{"name": "Questions", "type": "faq", "faq_config": map[string]any{"question_index_mode": "separate"}}).data(t, 201, &base)
	path := "/api/v1/knowledge-bases/" + base.ID
	var e faqEntry
	l.do(t, "POST", path+"/faq/entry", map[string]any{"standard_question": "When do you open?", "similar_questions": []string{"opening hours", "business times"}, "answers": []string{"At nine."}}).data(t, 200, &e)
	l.settled(t, e.Document)
	var found []struct {
		ID       string
		Document string `json:"knowledge_id"`
		Kind     string `json:"chunk_type"`
	}
	ask := func(more map[string]any) int {
		t.Helper()
		body := map[string]any{"query_text": "business times", "match_count": -1}
		for k, v := range more {
			body[k] = v
		}
		l.do(t, "POST", path+"/hybrid-search", body).data(t, 200, &found)
		return len(found)
	}
	if ask(nil) != 1 || found[0].Document != e.Document || found[0].Kind != "faq" || ask(map[string]any{"only_recommended": true}) != 1 {
		t.Errorf("found %+v", found)
	}
	l.do(t, "PUT", path+"/faq/entries/fields", map[string]any{"by_id": map[string]any{fmt.Sprint(e.ID): map[string]any{"is_recommended": false}}})
	l.settled(t, e.Document)
	if ask(map[string]any{"only_recommended": true}) != 0 || ask(nil) != 1 {
		t.Errorf("found %+v", found)
	}
	var rows []faqEntry
	l.do(t, "POST", path+"/faq/search", map[string]any{"query_text": "opening hours"}).data(t, 200, &rows)
	if len(rows) != 1 || rows[0].Matched != "opening hours" {
		t.Errorf("found %+v", rows)
	}
	var b struct {
		Chunks int `json:"chunk_count"`
	}
	l.do(t, "GET", path, nil).data(t, 200, &b)
	if b.Chunks != 1 {
		t.Errorf("%d chunks", b.Chunks)
	}
}

// TestFAQ_Import: a list is imported in the background, found, and exported.
func TestFAQ_Import(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	b := l.newBase(t, "Questions", "faq")
	path := "/api/v1/knowledge-bases/" + b + "/faq"
	rows := []map[string]any{
		{"standard_question": "How do I get a refund?", "similar_questions": []string{"Money back?"}, "answers": []string{"Write to us."}, "tag_name": "Money"},
		{"standard_question": "怎么退款？", "answers": []string{"写信给我们。"}},
		{"standard_question": "=cmd|' /C calc'!A0", "answers": []string{"+1"}},
		{"standard_question": "", "answers": []string{"no question"}},
		{"standard_question": "How do I get a refund", "answers": []string{"Or call."}},
	}
	var task struct {
		ID string `json:"task_id"`
	}
	l.do(t, "POST", path+"/entries", map[string]any{"entries": rows, "mode": "append", "dry_run": true}).data(t, 200, &task)
	if p := l.imported(t, task.ID); p["dry_run"] != true || p["total"] != 5.0 {
		t.Errorf("%v", p)
	}
	l.do(t, "POST", path+"/entries", map[string]any{"entries": rows, "mode": "append", "task_id": "mine"}).data(t, 200, &task)
	p := l.imported(t, "mine")
	failed, _ := p["failed_entries"].([]any)
	if task.ID != "mine" || p["status"] != "completed" || p["progress"] != 100.0 || p["failed_count"] != 1.0 || p["added_count"] != 3.0 || p["merged_count"] != 1.0 || len(failed) != 1 {
		t.Errorf("%v", p)
	}
	for body, reason := range map[string]string{`{"entries":[],"mode":"append"}`: "bad_request", `{"entries":[{"standard_question":"q","answers":["a"]}],"mode":"x"}`: "bad_request"} {
		l.do(t, "POST", path+"/entries", body).refused(t, 400, 1000, reason, "")
	}
	l.do(t, "POST", path+"/entries", map[string]any{"entries": rows, "mode": "append", "task_id": "mine"}).refused(t, 409, 1005, "import_exists", "another one")
	l.do(t, "GET", "/api/v1/faq/import/progress/nope", nil).refused(t, 404, 1003, "import_not_found", "")
	l.do(t, "PUT", path+"/import/last-result/display", map[string]any{"display_status": "close"}).same(t, 200, `{"success":true}`)
	l.do(t, "PUT", path+"/import/last-result/display", map[string]any{"display_status": "x"}).refused(t, 400, 1000, "bad_request", "open")

	var list struct{ Data []faqEntry }
	l.do(t, "GET", path+"/entries?page_size=100", nil).data(t, 200, &list)
	for _, e := range list.Data {
		l.settled(t, e.Document)
	}
	for query, want := range map[string]string{"refund": "How do I get a refund?", "退款": "怎么退款？", "money back": "How do I get a refund?"} {
		var found []faqEntry
		l.do(t, "POST", path+"/search", map[string]any{"query_text": query, "vector_threshold": 0.1, "match_count": 1, "first_priority_tag_ids": nil, "second_priority_tag_ids": nil, "only_recommended": false}).data(t, 200, &found)
		if len(found) != 1 || found[0].Question != want || found[0].Score <= 0 || found[0].Matched == "" {
			t.Errorf("%q: %+v", query, found)
		}
	}
	out := l.do(t, "GET", path+"/entries/export?format=json", nil)
	var exported []struct {
		ID      int64
		Tag     string `json:"tag_name"`
		Answers []string
	}
	if err := json.Unmarshal([]byte(out.body), &exported); err != nil || len(exported) != 3 || exported[0].Tag != "Money" || len(exported[0].Answers) != 2 {
		t.Errorf("%v %s", err, out.body)
	}
	out = l.do(t, "GET", path+"/entries/export", nil)
	table, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(out.body, "\ufeff"))).ReadAll()
	if err != nil || !strings.HasPrefix(out.body, "\ufeffid,") || len(table) != 4 || !strings.Contains(out.head.Get("Content-Disposition"), "Questions.csv") {
		t.Errorf("%v %v %q", err, out.head, out.body)
	}
	for _, row := range table[1:] {
		for _, cell := range row {
			if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@") {
				t.Errorf("a spreadsheet runs %q", cell)
			}
		}
	}
	// What was exported replaces what is there.
	l.do(t, "POST", path+"/entries", map[string]any{"entries": []map[string]any{{"standard_question": "Only this?", "answers": []string{"Yes."}}}, "mode": "replace"}).data(t, 200, &task)
	if p := l.imported(t, task.ID); p["status"] != "completed" {
		t.Errorf("%v", p)
	}
	l.do(t, "GET", path+"/entries", nil).data(t, 200, &list)
	if len(list.Data) != 1 || list.Data[0].Question != "Only this?" {
		t.Errorf("%+v", list)
	}
}
