package api

import (
	"encoding/json"
	"testing"
	"time"

	"refold/domain/knowledge"
	"refold/projections"
)

func TestTree(t *testing.T) {
	got, err := json.Marshal(tree(map[string]int{"": 3, "a/b/c": 2, "a": 1, "z": 4}))
	want := `{"folders":[{"path":"a","name":"a","document_count":1,"total_count":3,"children":[{"path":"a/b","name":"b","document_count":0,"total_count":2,` +
		`"children":[{"path":"a/b/c","name":"c","document_count":2,"total_count":2}]}]},{"path":"z","name":"z","document_count":4,"total_count":4}],"root_document_count":3,"total_document_count":10}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}

// What a spreadsheet would run is text.
func TestCell(t *testing.T) {
	for in, want := range map[string]string{"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "a=1": "a=1", "": "", "字": "字"} {
		if got := cell(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	if got := cell("a", "b"); got != "a\nb" {
		t.Errorf("%q", got)
	}
}

func TestClosest(t *testing.T) {
	q := projections.FAQEntry{FAQ: knowledge.FAQ{Question: "How do I get a refund?", Similar: []string{"Money back?", "怎么退款？"}}}
	for query, want := range map[string]string{"money": "Money back?", "退款": "怎么退款？", "a refund": "How do I get a refund?", "something else": "How do I get a refund?"} {
		if got := closest(query, q); got != want {
			t.Errorf("%q: %q", query, got)
		}
	}
}

// A stage that failed, was tried again, and lost its process in between.
func TestTrace(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0).UTC() }
	s := knowledge.State{Added: &knowledge.DocumentAdded{Document: "d"}, Revision: 1, BegunAt: at(0), Failed: &knowledge.StageFailed{}}
	spans := []projections.Span{
		{Revision: 1, Claim: 1, Stage: knowledge.StageParse, Attempt: 1, Status: "lost", BegunAt: at(1), EndedAt: at(2), Code: knowledge.CodeLost},
		{Revision: 1, Claim: 2, Stage: knowledge.StageParse, Attempt: 2, Status: "done", BegunAt: at(2), EndedAt: at(4)},
		{Revision: 1, Claim: 3, Stage: knowledge.StageChunk, Attempt: 1, Status: "done", BegunAt: at(4), EndedAt: at(5)},
		{Revision: 1, Claim: 4, Stage: knowledge.StageEmbed, Attempt: 1, Status: "failed", BegunAt: at(5), EndedAt: at(9), Code: "rate_limited", Error: "slow down"},
		{Revision: 2, Claim: 5, Stage: knowledge.StageParse, Attempt: 1, Status: "running", BegunAt: at(20)},
	}
	root := traceOf("d", 1, s, spans)
	if root.Status != "failed" || root.ErrorCode != "EMBEDDING_RATE_LIMIT" || root.Error != "slow down" || root.Took != 8000 || len(root.Children) != 5 {
		t.Errorf("%+v", root)
	}
	for i, want := range []string{"done", "done", "failed", "skipped", "skipped"} {
		if c := root.Children[i]; c.Status != want || c.Parent != root.ID {
			t.Errorf("%s is %s, want %s", c.Name, c.Status, want)
		}
	}
	if read := root.Children[0]; len(read.Children) != 2 || read.Children[0].ErrorCode != "SERVER_RESTART" || read.Took != 3000 {
		t.Errorf("%+v", read)
	}
}

// Settings that are kept come back; what has the wrong form is refused.
func TestConfigOf(t *testing.T) {
	c, err := configOf(map[string]json.RawMessage{"cos_config": json.RawMessage(`{"provider":"local"}`), "vlm_config": json.RawMessage("null"), "summary_model_id": json.RawMessage(`"m"`)})
	if err != nil || string(c.kept["storage_config"]) != `{"provider":"local"}` || string(c.kept["summary_model_id"]) != `"m"` || len(c.kept) != 2 {
		t.Errorf("%v %s", err, c.kept)
	}
	if got := keptText(c.settings(), "summary_model_id"); got != "m" {
		t.Errorf("%q", got)
	}
	for name, value := range map[string]string{"wiki_config": `"x"`, "is_temporary": `1`, "vector_store_id": `{}`, "storage_config": `[]`} {
		if _, err := configOf(map[string]json.RawMessage{name: json.RawMessage(value)}); err == nil {
			t.Errorf("%s: %s was taken", name, value)
		}
	}
}
