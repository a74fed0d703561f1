package projections_test

import (
	"strings"
	"testing"

	"refold/projections"
)

func TestSearchText(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		" ?!\n":                  "",
		"Back-ups: GPT4模型是什么？ÄÖ": " back ups gpt4 模型是什么 äö ",
		"a\x00b":                 " a b ",
		"résumé":                 " résumé ",
	} {
		if got := projections.SearchText(in, 1000); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
	if got := projections.SearchText("字字字字", 2); got != " 字字 " {
		t.Errorf("cut: %q", got)
	}
}

func TestNeedles(t *testing.T) {
	for _, c := range []struct {
		query  string
		pieces bool
		want   string
	}{
		{"Back up", false, " back| up"},
		{"发票报销单 GPT4", false, "发票报销单| gpt4"},
		{"发票报销单 GPT4", true, "发票|报销|销单| gpt4"},
		{"a A a", false, " a"},
		{strings.Repeat("x y z ", 9) + "1 2 3 4 5 6 7 8 9 10", false, " x| y| z| 1| 2| 3| 4| 5| 6| 7| 8| 9"},
	} {
		if got := strings.Join(projections.Needles(c.query, c.pieces), "|"); got != c.want {
			t.Errorf("%q: %q, not %q", c.query, got, c.want)
		}
	}
}

// TestScore: the question counts more than the answer, a whole word more than a
// beginning, more places more than one.
func TestScore(t *testing.T) {
	turn := func(q, a string) projections.Turn {
		return projections.Turn{Question: projections.SearchText(q, 100), Answer: projections.SearchText(a, 100)}
	}
	needles := projections.Needles("cat", false)
	order := []projections.Turn{turn("cat and cat", ""), turn("a cat", ""), turn("x", "a cat"), turn("category", ""), turn("x", "category"), turn("concat", "")}
	last := 1.1
	for i, tr := range order {
		s := tr.Score(needles)
		if s >= last {
			t.Errorf("%d scores %f, the one before %f", i, s, last)
		}
		last = s
	}
	if last != 0 {
		t.Errorf("the middle of a word scores %f", last)
	}
}
