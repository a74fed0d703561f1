package search_test

import (
	"slices"
	"strings"
	"testing"

	"refold/domain/search"
)

func TestExpand(t *testing.T) {
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"annual leave", nil},
		{"What is the annual leave?", nil},
		{"", nil},
		{"annual leave and travel expenses", []string{"annual leave", "travel expenses"}},
		{`what does "sick note" mean for leave`, []string{"sick note", "what does", "mean for leave"}},
		{"年假和差旅费怎么申请？", []string{"年假", "差旅费怎么申请"}},
		{"《员工手册》里的年假规定", []string{"员工手册", "里的年假规定"}},
		{"《员工手册》在哪里", nil},
		{"android orders", nil},
	} {
		got := search.Expand(c.query)
		if c.want != nil && len(got) > 0 { // parts that say nothing of their own may be left out
			for _, g := range got {
				if !slices.Contains(c.want, g) {
					t.Errorf("%q also gives %q", c.query, g)
				}
			}
			if got[0] != c.want[0] {
				t.Errorf("%q begins with %q", c.query, got[0])
			}
			continue
		}
		if len(got) != len(c.want) {
			t.Errorf("%q gives %q", c.query, got)
		}
	}
	if got := search.Expand(strings.Repeat("one two, three four; five six: ", 9) + "a7, b8, c9, d10, e11, f12"); len(got) != search.MaxExpansions {
		t.Errorf("%d ways to ask", len(got))
	}
}
