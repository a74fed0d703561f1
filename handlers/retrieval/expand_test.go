package retrieval_test

import (
	"testing"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers/retrieval"
)

// A question of two parts finds what only one of them names, though it is far
// behind the best for the whole question.
func TestExpand(t *testing.T) {
	l := newLibrary(t)
	l.put("b", "leave", text("Annual leave, annual leave, and annual leave once more, with the annual leave form."))
	l.put("b", "travel", text("The portal has a form for expenses, and some other things that nobody asks for in this place."))
	for _, d := range []string{"x", "y", "z"} {
		l.put("b", d, text("Something else about forms and annual plans."))
	}
	for _, c := range []struct {
		expand bool
		want   string
	}{{false, "leave/0"}, {true, "leave/0 travel/0"}} {
		got := l.search(retrieval.Request{Queries: []string{"annual leave and expenses"}, Retrieval: tool.Retrieval{Expand: c.expand, TopK: 10, KeywordThreshold: 0.7}})
		if documents(got) != c.want {
			t.Errorf("expand %v: %s", c.expand, documents(got))
		}
		for _, h := range got.Hits {
			if h.Query != "annual leave and expenses" {
				t.Errorf("%s was found by %q", h.Entry.Document, h.Query)
			}
		}
	}
}

// What an earlier turn found is a result where it fits the question, is still
// there, to be seen and in scope, and was not found again.
func TestEarlier(t *testing.T) {
	l := newLibrary(t)
	l.put("b", "one", text("Employees get ten days of annual leave."))
	for _, d := range []string{"p", "q", "r", "s"} {
		l.put("b", d, text(d+": part-time employees leave early"))
	}
	l.put("b", "off", text("part-time employees leave late"))
	l.put("c", "else", text("part-time employees leave never"))
	if err := l.Index.Edit(t.Context(), "1", knowledge.Chunk{ID: knowledge.ChunkID("off", 1, 0), Content: "part-time employees leave late", Edition: 1, Disabled: true}); err != nil {
		t.Fatal(err)
	}
	ref := func(base, document, content string, score float64) tool.Reference {
		return tool.Reference{ID: knowledge.ChunkID(document, 1, 0), Base: base, Document: document, Content: content, Score: score}
	}
	earlier := []tool.Reference{ref("b", "p", "part-time employees leave early", 0.5), ref("b", "q", "part-time employees leave early", 0.9), ref("b", "r", "part-time employees leave early", 0.8),
		ref("b", "s", "part-time employees leave early", 0.7), ref("b", "off", "part-time employees leave late", 1), ref("c", "else", "part-time employees leave never", 1),
		ref("b", "gone", "part-time employees leave", 1), ref("b", "one", "another subject altogether, with no word in common", 1)}
	got := l.search(retrieval.Request{Queries: []string{"part-time employees"}, Earlier: earlier, Retrieval: tool.Retrieval{TopK: 1, KeywordThreshold: 1}})
	if len(got.Hits) != 4 {
		t.Fatalf("got %s", documents(got))
	}
	n := 0
	for _, h := range got.Hits {
		if h.Match != retrieval.MatchHistory {
			continue
		}
		n++
		if want := map[string]float64{"p": 0.5, "q": 0.9, "r": 0.8, "s": 0.7}[h.Entry.Document] * 0.6; want == 0 || h.Score < want-1e-9 || h.Score > want+1e-9 {
			t.Errorf("%s has %v", h.Entry.Document, h.Score)
		}
	}
	if n != 3 {
		t.Errorf("%d of an earlier turn: %s", n, documents(got))
	}
	if got := l.search(retrieval.Request{Queries: []string{"annual leave"}, Earlier: earlier[:1]}); documents(got) == "" || len(got.Hits) > 5 {
		t.Errorf("got %s", documents(got))
	}
	if got := l.search(retrieval.Request{Queries: []string{"zebra"}, Earlier: earlier}); len(got.Hits) != 0 {
		t.Errorf("another question: %s", documents(got))
	}
}
