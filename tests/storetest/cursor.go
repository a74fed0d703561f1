package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"refold/projections"
)

// testCursorWalk walks lists whose sort values are mostly equal, the case in
// which keyset paging goes wrong.
func testCursorWalk(t *testing.T, s *shelf) {
	var docs []projections.Document
	var up, pairs []string
	for i := range 500 {
		docs = append(docs, s.doc(fmt.Sprintf("%03d", i), map[string]any{"same": int64(7), "half": int64(i % 2), "n": int64(i / 100)}))
		up = append(up, fmt.Sprintf("%03d", i))
	}
	s.put(docs...)
	down := ""
	for n := 4; n >= 0; n-- {
		down += " " + strings.Join(up[n*100:n*100+100], " ")
	}
	for half := 1; half >= 0; half-- {
		for n := range 5 {
			for i := n*100 + half; i < n*100+100; i += 2 {
				pairs = append(pairs, up[i])
			}
		}
	}
	for _, limit := range []int{1000, 100, 7, 99} {
		s.walk(strings.Join(up, " "), projections.Query{Limit: limit})
		s.walk(strings.Join(up, " "), projections.Query{Limit: limit, OrderBy: []projections.Order{{Field: "same", Desc: true}}})
		s.walk(strings.Join(up, " "), projections.Query{Limit: limit, OrderBy: []projections.Order{{Field: "n"}}})
		s.walk(strings.TrimSpace(down), projections.Query{Limit: limit, OrderBy: []projections.Order{{Field: "n", Desc: true}}})
		s.walk(strings.Join(pairs, " "), projections.Query{Limit: limit, OrderBy: []projections.Order{{Field: "half", Desc: true}, {Field: "n"}}})
		s.walk(strings.Join(pairs[250:], " "), projections.Query{Limit: limit, OrderBy: []projections.Order{{Field: "n"}},
			Where: []projections.Where{{Field: "half", Op: "=", Value: int64(0)}}})
		s.walk(strings.Join(up[300:], " "), projections.Query{Limit: limit, OrderBy: []projections.Order{{Field: "n"}},
			Where: []projections.Where{{Field: "n", Op: ">", Value: int64(2)}, {Field: "n", Op: "<=", Value: int64(4)}}})
		s.walk(strings.Join(up[:100], " "), projections.Query{Limit: limit, OrderBy: []projections.Order{{Field: "n", Desc: true}},
			Where: []projections.Where{{Field: "n", Op: "<", Value: int64(1)}}})
	}
	if p := s.page(projections.Query{}); len(p.Documents) != 20 {
		t.Errorf("a page has %d documents, want 20", len(p.Documents))
	}
	if p := s.page(projections.Query{Limit: 5000}); len(p.Documents) != 500 || p.Next != "" {
		t.Errorf("a page of 1000 has %d documents", len(p.Documents))
	}
}

// testCursorStable adds, removes and moves other rows between pages: the rows
// that stay are seen once each.
func testCursorStable(t *testing.T, s *shelf) {
	for i := range 40 {
		s.put(s.doc(fmt.Sprintf("%02d", i), map[string]any{"n": int64(100 - i)}))
	}
	q := projections.Query{OrderBy: []projections.Order{{Field: "n", Desc: true}}, Limit: 7}
	seen := map[string]int{}
	for page := 0; ; page++ {
		p := s.page(q)
		for _, d := range p.Documents {
			seen[d.ID]++
		}
		if p.Next == "" {
			break
		}
		q.Cursor = p.Next
		s.put(s.doc(fmt.Sprintf("new%d", page), map[string]any{"n": int64(1000 + page)}))
		s.delete(p.Documents[len(p.Documents)-1].ID) // the very row of the cursor
	}
	for i := range 40 {
		if id := fmt.Sprintf("%02d", i); seen[id] != 1 {
			t.Errorf("document %s was seen %d times", id, seen[id])
		}
	}
}

func testBadCursor(t *testing.T, s *shelf) {
	for i := range 5 {
		s.put(s.doc(fmt.Sprint(i), map[string]any{"n": int64(i), "m": "x"}))
	}
	q := projections.Query{Collection: s.projection, Tenant: s.tenant, Limit: 2, OrderBy: []projections.Order{{Field: "n"}}}
	next := s.page(q).Next
	if next == "" {
		t.Fatal("no cursor on the first of three pages")
	}
	bad := func(what string, q projections.Query) {
		t.Helper()
		if _, err := s.d.Find(t.Context(), q); !errors.Is(err, projections.ErrBadCursor) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, c := range []string{"x", "!!", next[1:], next[:len(next)-4], next + "AAAA", "bnVsbA", "e30", "W10"} {
		q := q
		q.Cursor = c
		bad(fmt.Sprintf("cursor %.20q", c), q)
	}
	q.Cursor = next
	for what, change := range map[string]func(*projections.Query){
		"other order":     func(q *projections.Query) { q.OrderBy = []projections.Order{{Field: "m"}} },
		"other direction": func(q *projections.Query) { q.OrderBy = []projections.Order{{Field: "n", Desc: true}} },
		"no order":        func(q *projections.Query) { q.OrderBy = nil },
		"other filter":    func(q *projections.Query) { q.Where = []projections.Where{{Field: "m", Op: "=", Value: "x"}} },
		"other tenant":    func(q *projections.Query) { q.Tenant = unique("tenant") },
		"other list":      func(q *projections.Query) { q.Collection += ".x" },
	} {
		q := q
		change(&q)
		bad(what, q)
	}
	q.Limit = 100 // the page size may change on the way
	s.find("2 3 4", q)
}
