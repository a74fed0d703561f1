package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"refold/domain/citation"
	"refold/domain/tool"
	"refold/handlers/retrieval"
)

func TestKnowledgeSearch(t *testing.T) {
	k := &KnowledgeSearch{Searcher: &retrieval.Retriever{Index: shelf(t)}}
	got := call(t, k, `{"queries":["How many days of annual leave?","病假工资"]}`)
	clean(t, "search", got)
	var data searchResults
	if err := json.Unmarshal(got.Data, &data); err != nil {
		t.Fatal(err)
	}
	if data.DisplayType != "search_results" || data.Count == 0 || data.Count != len(data.Results) || len(data.References) != data.Count || data.Counts["b"] == 0 || data.Direct != "" {
		t.Errorf("data: %s", got.Data)
	}
	for _, ref := range data.References {
		if ref.Metadata["revision"] != "1" || ref.Metadata["digest"] == "" || ref.Content == "" || ref.Base == "" {
			t.Errorf("reference %+v", ref)
		}
	}
	var r citation.Registry
	r.Read(got.Output)
	if s, ok := r.Source("c1"); !ok || s.Document == "" || s.Base == "" {
		t.Errorf("c1 is %+v in %s", s, got.Output)
	}
	if !strings.Contains(got.Output, "Annual leave is ten days.") || !strings.Contains(got.Output, "<note>") {
		t.Errorf("output, with a note that only words were searched: %s", got.Output)
	}
	again := call(t, k, `{"queries":["annual leave"]}`, func(c *tool.Call) { c.State = told{KnowledgeSearchName: {got.Data}} })
	if !strings.Contains(again.Output, `already_seen="true"`) || strings.Contains(again.Output, "ten days") {
		t.Errorf("shown twice: %s", again.Output)
	}
	for name, c := range map[string]struct {
		args   string
		change func(*tool.Call)
		want   string
	}{
		"no scope":          {`{"queries":["leave"]}`, nowhere, "No knowledge base is available"},
		"narrow":            {`{"queries":["annual leave"]}`, within("no such"), "Nothing was found"},
		"base out of reach": {`{"queries":["leave"],"knowledge_base_ids":["o"]}`, within("leave"), "is not part of the knowledge"},
		"blank":             {`{"queries":["  "]}`, within("leave"), "Give 1 to 5 questions"},
	} {
		got := call(t, k, c.args, c.change)
		clean(t, name, got)
		if !strings.Contains(got.Output+got.Error, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// An entry answers by itself in a quick answer that gives FAQ entries priority, and
// nowhere else.
func TestKnowledgeSearch_DirectAnswer(t *testing.T) {
	k := &KnowledgeSearch{Searcher: &retrieval.Retriever{Index: shelf(t)}}
	for name, c := range map[string]struct {
		quick, priority bool
		want            bool
	}{"quick": {true, true, true}, "a model's own call": {false, true, false}, "no priority": {true, false, false}} {
		got := call(t, k, `{"queries":["how many days of leave?"]}`, func(x *tool.Call) {
			x.Quick, x.Retrieval.FAQPriority = c.quick, c.priority
		})
		if has := strings.Contains(string(got.Data), `"direct_answer":"Ten.`); has != c.want {
			t.Errorf("%s: %s", name, got.Data)
		}
	}
}
