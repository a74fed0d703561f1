package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/tool"
)

// IndexFactory makes the indexes under test.
type IndexFactory struct {
	Open   func(t testing.TB) knowledge.Index
	Reopen func(t testing.TB, x knowledge.Index) knowledge.Index // nil if it does not persist
}

// RunIndex is the suite for knowledge.Index.
func RunIndex(t *testing.T, f IndexFactory) {
	tests := map[string]func(*testing.T, *shelves){
		"words of every kind are found":          testIndexWords,
		"ranking":                                testIndexRanking,
		"no query is syntax":                     testIndexHostile,
		"scope":                                  testIndexScope,
		"a scope of 10,000 documents":            testIndexManyIDs,
		"tenants never see each other":           testIndexTenants,
		"disabled, tags, kinds and limits":       testIndexFilters,
		"put again, later, earlier, moved":       testIndexPut,
		"edit":                                   testIndexEdit,
		"change":                                 testIndexChange,
		"remove":                                 testIndexRemove,
		"bad input":                              testIndexInvalid,
		"any text comes back":                    testIndexBytes,
		"nearest":                                testIndexNearest,
		"vectors come and go":                    testIndexVectors,
		"walk":                                   testIndexWalk,
		"lists":                                  testIndexList,
		"P79 searches beside writers":            testIndexConcurrent,
		"a random history is as the simple ones": testIndexRandom,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, newShelves(t, f.Open(t))) })
	}
	if f.Reopen == nil {
		return
	}
	t.Run("reopen", func(t *testing.T) {
		s := newShelves(t, f.Open(t))
		s.put("d", "Title", "restart of the machine", "another thing")
		s.embed("m", map[string][]float32{"restart of the machine": {1, 0}, "another thing": {0, 1}})
		s.nearest("d/0 d/1", knowledge.Query{Model: "m", Vector: []float32{1, 0.5}})
		s.x = f.Reopen(t, s.x)
		s.find("d/0", "machines restarting")
		s.nearest("d/0 d/1", knowledge.Query{Model: "m", Vector: []float32{1, 0.5}})
	})
}

// shelves is an index with a tenant and a base that nobody else uses.
type shelves struct {
	t            *testing.T
	x            knowledge.Index
	tenant, base string
}

func newShelves(t *testing.T, x knowledge.Index) *shelves {
	return &shelves{t: t, x: x, tenant: unique("tenant"), base: unique("base")}
}

func (s *shelves) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *shelves) scope() tool.Scope { return tool.Scope{Targets: []tool.Target{{Base: s.base}}} }

func (s *shelves) only(documents ...string) tool.Scope {
	return tool.Scope{Targets: []tool.Target{{Base: s.base, Restricted: true, Documents: documents}}}
}

func (s *shelves) entry(document, title string) knowledge.Entry {
	return knowledge.Entry{Tenant: s.tenant, Base: s.base, Document: document, Revision: 1, Title: title}
}

// chunks makes chunks of contents; their ids are document, revision and place.
func (s *shelves) chunks(d knowledge.Entry, contents ...string) []knowledge.Chunk {
	var out []knowledge.Chunk
	for i, c := range contents {
		id := fmt.Sprintf("%s/%d", d.Document, i)
		if d.Revision != 1 {
			id = fmt.Sprintf("%s@%d/%d", d.Document, d.Revision, i)
		}
		out = append(out, knowledge.Chunk{ID: id, Base: d.Base, Document: d.Document, Revision: d.Revision, Index: i, Kind: knowledge.Text,
			Start: 10 * i, End: 10*i + 9, Content: c, Tokens: len(c), Digest: knowledge.Digest(c)})
	}
	return out
}

func (s *shelves) put(document, title string, contents ...string) {
	s.t.Helper()
	d := s.entry(document, title)
	s.ok(s.x.Put(s.t.Context(), d, s.chunks(d, contents...)))
}

func (s *shelves) query(text string) knowledge.Query {
	return knowledge.Query{Tenant: s.tenant, Scope: s.scope(), Text: text, Limit: 20}
}

func (s *shelves) keyword(q knowledge.Query) []knowledge.Hit {
	s.t.Helper()
	hits, err := s.x.Keyword(s.t.Context(), q)
	s.ok(err)
	for i, h := range hits {
		if h.Score <= 0 || i > 0 && h.Score > hits[i-1].Score {
			s.t.Fatalf("scores of %q: %v after %v", q.Text, h.Score, hits[max(i-1, 0)].Score)
		}
	}
	return hits
}

func hitIDs(hits []knowledge.Hit) string {
	out := make([]string, len(hits))
	for i, h := range hits {
		out[i] = h.ID
	}
	return strings.Join(out, " ")
}

func foundIDs(found []knowledge.Found) string {
	out := make([]string, len(found))
	for i, f := range found {
		out[i] = f.ID
	}
	return strings.Join(out, " ")
}

// find expects exactly these chunks, in this order.
func (s *shelves) find(want, text string) {
	s.t.Helper()
	s.finds(want, s.query(text))
}

func (s *shelves) finds(want string, q knowledge.Query) {
	s.t.Helper()
	if got := hitIDs(s.keyword(q)); got != want {
		s.t.Errorf("%q finds %q, want %q", q.Text, got, want)
	}
}

// embed keeps vectors of contents that have no headings.
func (s *shelves) embed(model string, vectors map[string][]float32) {
	s.t.Helper()
	byDigest := map[string][]float32{}
	for text, v := range vectors {
		byDigest[knowledge.Digest(text)] = v
	}
	s.ok(s.x.Embed(s.t.Context(), s.tenant, model, byDigest))
}

func (s *shelves) near(q knowledge.Query) []knowledge.Hit {
	s.t.Helper()
	q.Tenant, q.Limit = s.tenant, cmp.Or(q.Limit, 20)
	if q.Scope.Targets == nil {
		q.Scope = s.scope()
	}
	hits, err := s.x.Nearest(s.t.Context(), q)
	s.ok(err)
	return hits
}

func (s *shelves) nearest(want string, q knowledge.Query) {
	s.t.Helper()
	if got := hitIDs(s.near(q)); got != want {
		s.t.Errorf("nearest to %v: %q, want %q", q.Vector, got, want)
	}
}

func testIndexWords(t *testing.T, s *shelves) {
	texts := map[string]string{
		"leave":   "员工每年享有十五天带薪年假，未休完的年假可以结转。",
		"tax":     "增值税发票应当在三十天内提交财务部。",
		"deploy":  "To deploy the service, run deployService with the flag retry_limit set; see release v2.10.3 and HTTPServer.",
		"café":    "The café opens at 08:30. Naïve visitors queue.",
		"langs":   "We write C++, C# and Go. Amounts above 1,000 need a second signature.",
		"mixed":   "使用ＡＰＩ网关时，请在请求头加入令牌。",
		"plurals": "Policies for reimbursing employees' travelling expenses",
		"japan":   "サーバーの設定を変更します",
		"korea":   "서버 설정을 변경합니다",
		"thai":    "การตั้งค่าเซิร์ฟเวอร์",
	}
	for name, text := range texts {
		s.put(name, "", text)
	}
	for query, want := range map[string]string{
		"年假": "leave", "带薪年假有几天": "leave", "结转": "leave", "税": "tax", "增值税": "tax", "发票": "tax", "财务": "tax", "部": "tax",
		"deployed services": "deploy", "deployService": "deploy", "deployservice": "deploy", "retry_limit": "deploy", "retry": "deploy", "limit": "deploy", "v2.10.3": "deploy", "httpserver": "deploy", "http server": "deploy",
		"cafe": "café", "CAFÉ": "café", "naive": "café", "08:30": "café", "c++": "langs", "C#": "langs", "1000": "langs", "1,000": "langs",
		"api": "mixed", "ＡＰＩ": "mixed", "网关": "mixed", "令牌": "mixed",
		"policy": "plurals", "reimbursement": "plurals", "employee": "plurals", "travel expense": "plurals",
		"設定": "japan", "サーバー": "japan", "설정": "korea", "ตั้งค่า": "thai",
	} {
		s.find(want+"/0", query)
	}
	s.find("", "没有这样的词语")
	s.find("", "zebra")
	s.find("", "")
	s.find("", "  ?? !! 。")
	s.find("", "假带") // not beside each other in this order
}

func testIndexRanking(t *testing.T, s *shelves) {
	s.put("title", "Annual leave", "Rules are listed below in this page of the handbook for all who work here.")
	s.put("often", "Handbook", "Leave and leave again: annual leave is leave that comes each year, annual leave of fifteen days.")
	s.put("once", "Handbook", "Among many other things in this very long page of the handbook there is also leave, "+strings.Repeat("and other matters of work and life, ", 30))
	got := s.keyword(s.query("How is annual leave taken?"))
	if ids := hitIDs(got); ids != "often/0 title/0 once/0" && ids != "title/0 often/0 once/0" {
		t.Errorf("got %s", ids)
	}
	// A rare word says more than a common one.
	for i := range 20 {
		s.put(fmt.Sprintf("common%d", i), "", "server configuration notes")
	}
	s.put("rare", "", "server quorum notes of some length, about this and that and more")
	if got := s.keyword(s.query("server quorum")); got[0].ID != "rare/0" || len(got) != 20 {
		t.Errorf("%d hits, first %s", len(got), got[0].ID)
	}
	// Headings count.
	d := s.entry("head", "")
	c := s.chunks(d, "Take the elevator to floor two.", "Take the elevator to floor three.")
	c[0].Context = "Building > Parking"
	s.ok(s.x.Put(t.Context(), d, c))
	s.find("head/0", "parking")
	s.find("head/0 head/1", "parking elevator")
}

func testIndexHostile(t *testing.T, s *shelves) {
	s.put("d", "Quotes", `He said "stop" AND left; NOT near (the) door* {a b} : ^start`)
	for _, q := range []string{`"`, `""`, `"stop`, `stop"`, `AND`, `NOT`, `OR OR`, `NEAR(stop door, 2)`, `stop*`, `door:`, `words: stop`, `{words}: stop`, `^stop`, `-stop`, `+stop`,
		`'`, `';DROP TABLE knowledge_chunk; --`, `\`, `%`, `_`, `stop & | ! <-> :*`, "stop\x00door", "stop\xff\xfe", "\xed\xa0\x80", "stop\u200bdoor", "😀", "(((((((", "*", "a_b_c_d_e_f_g",
		strings.Repeat("stop ", 5000), strings.Repeat("停", 5000), strings.Repeat("x", 100_000), strings.Repeat("a b ", 3000), "stop\n\r\tdoor", "=", "stop=1", "1_stop", "\u0301", "e\u0301"} {
		if _, err := s.x.Keyword(t.Context(), s.query(q)); err != nil {
			t.Errorf("%.40q: %v", q, err)
		}
	}
	s.find("d/0", `"stop" AND "nothing like it"`)
	s.find("d/0", strings.Repeat("never ", 600)+" stop")
}

func testIndexScope(t *testing.T, s *shelves) {
	s.put("a", "", "common word")
	s.put("b", "", "common word here")
	other := unique("base")
	d := knowledge.Entry{Tenant: s.tenant, Base: other, Document: "c", Revision: 1}
	s.ok(s.x.Put(t.Context(), d, s.chunks(d, "common word in another base")))
	s.embed("m", map[string][]float32{"common word": {1, 0}, "common word here": {1, 0.1}, "common word in another base": {1, 0.2}})
	both := tool.Scope{Targets: []tool.Target{{Base: s.base, Restricted: true, Documents: []string{"b"}}, {Base: other}}}
	for _, c := range []struct {
		name  string
		scope tool.Scope
		want  string
	}{
		{"nothing", tool.Scope{}, ""},
		{"whole base", s.scope(), "a/0 b/0"},
		{"other base", tool.Scope{Targets: []tool.Target{{Base: other}}}, "c/0"},
		{"one document", s.only("b"), "b/0"},
		{"no document", s.only(), ""},
		{"document of another base", s.only("c"), ""},
		{"unknown", s.only("zz"), ""},
		{"union", both, "b/0 c/0"},
		{"twice", tool.Scope{Targets: append(s.only("a").Targets, s.only("b", "a").Targets...)}, "a/0 b/0"},
		{"whole and part", tool.Scope{Targets: append(s.only("a").Targets, s.scope().Targets...)}, "a/0 b/0"},
		{"unknown base", tool.Scope{Targets: []tool.Target{{Base: unique("base")}}}, ""},
	} {
		q := knowledge.Query{Tenant: s.tenant, Scope: c.scope, Text: "common", Model: "m", Vector: []float32{1, 0}, Limit: 10}
		s.finds(c.want, q)
		hits, err := s.x.Nearest(t.Context(), q)
		s.ok(err)
		if got := hitIDs(hits); got != c.want {
			t.Errorf("%s: nearest %q, want %q", c.name, got, c.want)
		}
		if got := s.walk(c.scope); got != c.want {
			t.Errorf("%s: walk %q, want %q", c.name, got, c.want)
		}
	}
}

func testIndexManyIDs(t *testing.T, s *shelves) {
	ids := make([]string, 10_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("none-%d", i)
	}
	for i := range 40 {
		name := fmt.Sprintf("doc-%02d", i)
		s.put(name, "", fmt.Sprintf("needle number %d", i))
		s.embed("m", map[string][]float32{fmt.Sprintf("needle number %d", i): {1, float32(i)}})
		if i%2 == 0 {
			ids[i*200] = name
		}
	}
	q := s.query("needle")
	q.Scope, q.Limit = s.only(ids...), 100
	if got := s.keyword(q); len(got) != 20 {
		t.Errorf("%d hits", len(got))
	}
	if got := s.near(knowledge.Query{Scope: q.Scope, Model: "m", Vector: []float32{1, 1}, Limit: 100}); len(got) != 20 {
		t.Errorf("%d near", len(got))
	}
	if got := strings.Fields(s.walk(q.Scope)); len(got) != 20 {
		t.Errorf("%d walked", len(got))
	}
}

func testIndexTenants(t *testing.T, s *shelves) {
	o := newShelves(t, s.x)
	o.base = s.base // the same ids of bases, documents and chunks
	s.put("d", "Mine", "secret of the first")
	o.put("d", "Theirs", "secret of the second")
	s.embed("m", map[string][]float32{"secret of the first": {1, 0}})
	for _, x := range []struct {
		s    *shelves
		want string
	}{{s, "Mine"}, {o, "Theirs"}} {
		hits := x.s.keyword(x.s.query("secret"))
		if len(hits) != 1 || hits[0].Title != x.want || hits[0].Tenant != x.s.tenant {
			t.Errorf("got %+v", hits)
		}
		f, err := s.x.Chunks(t.Context(), x.s.tenant, "d/0")
		if err != nil || len(f) != 1 || f[0].Title != x.want {
			t.Errorf("chunks: %+v, %v", f, err)
		}
	}
	if _, err := s.x.Nearest(t.Context(), knowledge.Query{Tenant: o.tenant, Scope: o.scope(), Model: "m", Vector: []float32{1, 0}, Limit: 5}); !errors.Is(err, knowledge.ErrNoVectors) {
		t.Errorf("vectors of another tenant: %v", err)
	}
	if got, err := s.x.Embeddings(t.Context(), o.tenant, "m", []string{knowledge.Digest("secret of the first")}); err != nil || len(got) != 0 {
		t.Errorf("embeddings of another tenant: %v, %v", got, err)
	}
	for _, none := range []string{"", unique("tenant")} {
		q := s.query("secret")
		q.Tenant = none
		if hits, err := s.x.Keyword(t.Context(), q); err != nil || len(hits) > 0 {
			t.Errorf("tenant %q: %v, %v", none, hits, err)
		}
		if f, err := s.x.Chunks(t.Context(), none, "d/0"); err != nil || len(f) > 0 {
			t.Errorf("tenant %q: %v, %v", none, f, err)
		}
	}
	// What another tenant has does not change how mine is ranked.
	before := s.keyword(s.query("secret"))[0].Score
	for i := range 5 {
		o.put(fmt.Sprint("more", i), "", "secret secret secret")
	}
	if after := s.keyword(s.query("secret"))[0].Score; after != before {
		t.Errorf("the score was %v and is %v", before, after)
	}
	s.ok(s.x.Remove(t.Context(), o.tenant, "d"))
	s.find("d/0", "secret")
}

func testIndexFilters(t *testing.T, s *shelves) {
	d := s.entry("kinds", "")
	c := s.chunks(d, "needle one", "needle two", "needle three", "needle four")
	c[1].Kind, c[2].Kind, c[3].Kind = knowledge.ParentText, knowledge.Summary, knowledge.FAQText
	c[0].Parent = c[1].ID
	c[3].FAQ = &knowledge.FAQ{ID: 1 << 52, Question: "?", Similar: []string{"a"}, Answers: []string{"b", "c"}, Recommended: true}
	d.Tags = []string{"red", "green"}
	s.ok(s.x.Put(t.Context(), d, c))
	d2 := s.entry("off", "")
	d2.Disabled = true
	s.ok(s.x.Put(t.Context(), d2, s.chunks(d2, "needle five")))
	d3 := s.entry("part", "")
	c3 := s.chunks(d3, "needle six", "needle seven")
	c3[0].Kind, c3[0].Parent = knowledge.FAQQuestion, c[3].ID
	c3[1].Disabled = true
	d3.Tags = []string{"green", "blue"}
	s.ok(s.x.Put(t.Context(), d3, c3))
	for _, text := range []string{"one", "two", "three", "four", "five", "six", "seven"} {
		s.embed("m", map[string][]float32{"needle " + text: {1, float32(len(text)) / 10, float32(text[0]) / 1000}})
	}
	both := func(want string, change func(*knowledge.Query)) {
		t.Helper()
		q := s.query("needle")
		q.Model, q.Vector = "m", []float32{1, 0, 0}
		change(&q)
		for name, hits := range map[string][]knowledge.Hit{"keyword": s.keyword(q), "nearest": s.near(q)} {
			ids := strings.Fields(hitIDs(hits))
			slices.Sort(ids)
			if got := strings.Join(ids, " "); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	both("kinds/0 kinds/2 kinds/3 part/0", func(q *knowledge.Query) {})
	both("kinds/0", func(q *knowledge.Query) { q.Kinds = []knowledge.Kind{knowledge.Text} })
	both("kinds/2 kinds/3 part/0", func(q *knowledge.Query) { q.Kinds = []knowledge.Kind{knowledge.FAQText, knowledge.Summary} })
	both("", func(q *knowledge.Query) { q.Kinds = []knowledge.Kind{knowledge.ParentText} })
	both("kinds/0 kinds/2 kinds/3", func(q *knowledge.Query) { q.Tags = []string{"red"} })
	both("kinds/0 kinds/2 kinds/3 part/0", func(q *knowledge.Query) { q.Tags = []string{"blue", "red"} })
	both("", func(q *knowledge.Query) { q.Tags = []string{"black"} })
	q := s.query("needle")
	for limit, want := range map[int]int{0: 1, 1: 1, 3: 3, 10_000: 4} {
		if q.Limit = limit; len(s.keyword(q)) != want {
			t.Errorf("limit %d gives %d", limit, len(s.keyword(q)))
		}
	}
	if got := s.walk(s.scope()); got != "kinds/0 kinds/2 kinds/3 part/0" {
		t.Errorf("walk %q", got)
	}
	f, err := s.x.Chunks(t.Context(), s.tenant, "kinds/3", "kinds/1", "part/1", "off/0", "nowhere")
	s.ok(err)
	slices.SortFunc(f, func(a, b knowledge.Found) int { return cmp.Compare(a.ID, b.ID) })
	if foundIDs(f) != "kinds/1 kinds/3 off/0 part/1" || !f[2].Entry.Disabled || !f[3].Chunk.Disabled {
		t.Fatalf("chunks by id: %+v", f)
	}
	if want := (knowledge.Found{Chunk: c[3], Entry: d}); !reflect.DeepEqual(f[1], want) {
		t.Errorf("got %+v\nwant %+v", f[1], want)
	}
}

func testIndexPut(t *testing.T, s *shelves) {
	all := func(want string) {
		t.Helper()
		f, total, err := s.x.List(t.Context(), knowledge.List{Tenant: s.tenant, Document: "d", Disabled: true, Limit: 100})
		s.ok(err)
		if foundIDs(f) != want || total != len(f) {
			t.Errorf("holds %q (%d), want %q", foundIDs(f), total, want)
		}
	}
	s.put("d", "One", "first text", "second text")
	s.put("d", "One", "first text", "second text")
	all("d/0 d/1")
	s.find("d/0 d/1", "text")
	d := s.entry("d", "Three")
	d.Revision = 3
	s.ok(s.x.Put(t.Context(), d, s.chunks(d, "third text")))
	all("d@3/0")
	s.find("", "first")
	s.find("d@3/0", "three")
	s.put("d", "One", "first text", "second text") // late
	all("d@3/0")
	// The same revision, cut in another way: some chunks stay, some change, some go.
	s.ok(s.x.Put(t.Context(), d, s.chunks(d, "third text", "fourth text", "fifth text")))
	s.ok(s.x.Put(t.Context(), d, s.chunks(d, "changed text", "fourth text")))
	all("d@3/0 d@3/1")
	s.find("d@3/0", "changed")
	s.find("", "third")
	s.find("", "fifth")
	// Another title for the same chunks.
	d.Title = "Renamed"
	s.ok(s.x.Put(t.Context(), d, s.chunks(d, "changed text", "fourth text")))
	s.find("d@3/0 d@3/1", "renamed")
	s.find("", "three")
	// Into another base.
	moved := d
	moved.Base = unique("base")
	s.ok(s.x.Put(t.Context(), moved, s.chunks(moved, "moved text")))
	s.find("", "text")
	q := s.query("text")
	q.Scope = tool.Scope{Targets: []tool.Target{{Base: moved.Base}}}
	s.finds("d@3/0", q)
	// Without chunks.
	moved.Revision++
	s.ok(s.x.Put(t.Context(), moved, nil))
	all("")
	s.finds("", q)
}

func testIndexEdit(t *testing.T, s *shelves) {
	s.put("d", "", "old words here", "others")
	s.embed("m", map[string][]float32{"old words here": {1, 0}, "others": {0, 1}, "new words there": {1, 1}})
	edit := knowledge.Chunk{ID: "d/0", Content: "new words there", Tokens: 3, Digest: knowledge.Digest("new words there"), Edition: 2}
	s.ok(s.x.Edit(t.Context(), s.tenant, edit))
	s.find("", "old")
	s.find("d/0", "new")
	s.nearest("d/0 d/1", knowledge.Query{Model: "m", Vector: []float32{1, 0.9}})
	if s.near(knowledge.Query{Model: "m", Vector: []float32{1, 1}})[0].Score < 0.999 {
		t.Error("the vector is the old one")
	}
	f, err := s.x.Chunks(t.Context(), s.tenant, "d/0")
	s.ok(err)
	want := s.chunks(s.entry("d", ""), "old words here")[0]
	want.Content, want.Tokens, want.Digest, want.Edition = edit.Content, edit.Tokens, edit.Digest, edit.Edition
	if !reflect.DeepEqual(f[0].Chunk, want) {
		t.Errorf("got %+v\nwant %+v", f[0].Chunk, want)
	}
	early := edit
	early.Edition, early.Content = 1, "too late"
	s.ok(s.x.Edit(t.Context(), s.tenant, early))
	s.find("", "late")
	s.put("d", "", "old words here", "others") // the chunks as they were made
	s.find("d/0", "new")
	s.put("d", "Title", "old words here", "others")
	s.find("d/1 d/0", "title")
	s.find("d/0", "new")
	off := edit
	off.Edition, off.Disabled = 3, true
	s.ok(s.x.Edit(t.Context(), s.tenant, off))
	s.find("", "new")
	s.nearest("d/1", knowledge.Query{Model: "m", Vector: []float32{1, 1}})
	on := off
	on.Edition, on.Disabled, on.Context = 4, false, "Heading"
	s.ok(s.x.Edit(t.Context(), s.tenant, on))
	s.find("d/0", "heading")
	for _, c := range []knowledge.Chunk{{ID: "nowhere"}, {ID: ""}} {
		if err := s.x.Edit(t.Context(), s.tenant, c); !errors.Is(err, knowledge.ErrNoChunk) {
			t.Errorf("edit of %q: %v", c.ID, err)
		}
	}
	if err := s.x.Edit(t.Context(), unique("tenant"), on); !errors.Is(err, knowledge.ErrNoChunk) {
		t.Errorf("edit by another tenant: %v", err)
	}
}

func testIndexChange(t *testing.T, s *shelves) {
	s.put("d", "Before", "some text")
	d := s.entry("d", "After")
	d.Tags = []string{"x"}
	s.ok(s.x.Change(t.Context(), d))
	s.find("", "before")
	s.find("d/0", "after")
	q := s.query("text")
	q.Tags = []string{"x"}
	s.finds("d/0", q)
	d.Disabled, d.Tags = true, nil
	s.ok(s.x.Change(t.Context(), d))
	s.find("", "text")
	d.Disabled = false
	s.ok(s.x.Change(t.Context(), d))
	s.find("d/0", "text")
	s.finds("", q)
	s.ok(s.x.Change(t.Context(), s.entry("nowhere", "x")))
	if f, n, err := s.x.List(t.Context(), knowledge.List{Tenant: s.tenant, Document: "nowhere", Limit: 10}); err != nil || n != 0 || len(f) != 0 {
		t.Errorf("a document that is not there: %v, %d, %v", f, n, err)
	}
}

// letters makes a word of a number.
func letters(n int) string { return "q" + string('a'+rune(n/26)) + string('a'+rune(n%26)) + "z" }

func testIndexRemove(t *testing.T, s *shelves) {
	for i := range 130 {
		s.put(fmt.Sprintf("d%d", i), "", "text "+letters(i))
	}
	s.embed("m", map[string][]float32{"text " + letters(0): {1, 0}, "text " + letters(1): {0, 1}})
	s.ok(s.x.Remove(t.Context(), s.tenant, "d0", "nowhere"))
	s.find("", letters(0))
	s.find("d1/0", letters(1))
	s.nearest("d1/0", knowledge.Query{Model: "m", Vector: []float32{1, 0}})
	s.put("d0", "", "text "+letters(0)) // and back
	s.nearest("d0/0 d1/0", knowledge.Query{Model: "m", Vector: []float32{1, 0}})
	other := unique("base")
	d := knowledge.Entry{Tenant: s.tenant, Base: other, Document: "kept", Revision: 1}
	s.ok(s.x.Put(t.Context(), d, s.chunks(d, "text that stays")))
	s.ok(s.x.RemoveBase(t.Context(), s.tenant, s.base))
	s.find("", "text")
	if got := s.walk(s.scope()); got != "" {
		t.Errorf("left: %s", got)
	}
	q := s.query("text")
	q.Scope = tool.Scope{Targets: []tool.Target{{Base: other}}}
	s.finds("kept/0", q)
	s.ok(s.x.RemoveBase(t.Context(), s.tenant, unique("base")))
	s.put("again", "", "text once more")
	s.find("again/0", "text")
}

func testIndexInvalid(t *testing.T, s *shelves) {
	d := s.entry("d", "")
	c := s.chunks(d, "one", "two")
	twice := slices.Clone(c)
	twice[1].ID = twice[0].ID
	place := slices.Clone(c)
	place[1].Index = 0
	for name, put := range map[string]struct {
		d knowledge.Entry
		c []knowledge.Chunk
	}{
		"no tenant": {knowledge.Entry{Base: "b", Document: "d"}, nil}, "no base": {knowledge.Entry{Tenant: s.tenant, Document: "d"}, nil},
		"no document": {knowledge.Entry{Tenant: s.tenant, Base: "b"}, nil}, "no id": {d, []knowledge.Chunk{{Kind: knowledge.Text}}},
		"no kind": {d, []knowledge.Chunk{{ID: "x"}}}, "an id twice": {d, twice}, "a place twice": {d, place},
	} {
		if err := s.x.Put(t.Context(), put.d, put.c); !errors.Is(err, event.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.put("a", "", "mine")
	if err := s.x.Put(t.Context(), d, s.chunks(s.entry("a", ""), "stolen")); !errors.Is(err, event.ErrInvalid) {
		t.Errorf("a chunk of another document: %v", err)
	}
	s.find("a/0", "mine")
	nan := float32(math.NaN())
	good := knowledge.Digest("x")
	for name, v := range map[string]map[string][]float32{
		"NaN": {good: {1, nan}}, "empty": {good: {}}, "long": {good: make([]float32, 5000)}, "digest": {"abc": {1}}, "infinite": {good: {float32(math.Inf(1))}}, "lengths": {good: {1}, knowledge.Digest("y"): {1, 2}},
	} {
		if err := s.x.Embed(t.Context(), s.tenant, "m", v); !errors.Is(err, event.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.ok(s.x.Embed(t.Context(), s.tenant, "m", map[string][]float32{good: {1, 2}}))
	if err := s.x.Embed(t.Context(), s.tenant, "m", map[string][]float32{knowledge.Digest("z"): {1, 2, 3}}); !errors.Is(err, event.ErrInvalid) {
		t.Errorf("another length: %v", err)
	}
	for _, v := range [][]float32{{1}, {1, 2, 3}, nil, {nan, 1}} {
		if _, err := s.x.Nearest(t.Context(), knowledge.Query{Tenant: s.tenant, Scope: s.scope(), Model: "m", Vector: v, Limit: 3}); !errors.Is(err, event.ErrInvalid) {
			t.Errorf("query of %d: %v", len(v), err)
		}
	}
	s.ok(s.x.Embed(t.Context(), s.tenant, "m", nil))
}

func testIndexBytes(t *testing.T, s *shelves) {
	var contents []string
	for i := range 300 {
		contents = append(contents, fmt.Sprintf("%d %s", i, strings.Repeat("word ", i)))
	}
	contents = append(contents, "", "nul\x00nul", "bad \xff\xfe utf8", "😀🏽 emoji", "\u202eright to left", strings.Repeat("long", 100_000), strings.Repeat("很长", 100_000))
	d := s.entry("d", "Title \x00 ' \" \\ %")
	c := s.chunks(d, contents...)
	for i := range c {
		c[i].Context = "A > \x00B"
	}
	d.Tags = []string{"tag ' \"", "二"}
	s.ok(s.x.Put(t.Context(), d, c))
	got, total, err := s.x.List(t.Context(), knowledge.List{Tenant: s.tenant, Document: "d", Limit: 1000})
	s.ok(err)
	if total != len(c) || len(got) != len(c) {
		t.Fatalf("%d of %d chunks", len(got), total)
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], knowledge.Found{Chunk: c[i], Entry: d}) {
			t.Errorf("chunk %d came back as %.300v", i, got[i])
		}
	}
	s.find("d/303", "emoji")
}

func testIndexNearest(t *testing.T, s *shelves) {
	q := knowledge.Query{Tenant: s.tenant, Scope: s.scope(), Model: "m", Vector: []float32{1, 0, 0}, Limit: 3}
	if _, err := s.x.Nearest(t.Context(), q); !errors.Is(err, knowledge.ErrNoVectors) {
		t.Errorf("without any vector: %v", err)
	}
	s.put("d", "", "a", "b", "c", "opposite", "zero", "none")
	s.embed("m", map[string][]float32{"a": {2, 0, 0}, "b": {1, 1, 0}, "c": {1, 2, 3}, "opposite": {-5, 0, 0}, "zero": {0, 0, 0}})
	hits := s.near(knowledge.Query{Model: "m", Vector: []float32{3, 0, 0}})
	if hitIDs(hits) != "d/0 d/1 d/2 d/3" {
		t.Fatalf("got %s", hitIDs(hits))
	}
	for i, want := range []float64{1, 1 / math.Sqrt2, 1 / math.Sqrt(14), -1} {
		if math.Abs(hits[i].Score-want) > 1e-5 {
			t.Errorf("score %d is %v, want %v", i, hits[i].Score, want)
		}
	}
	s.nearest("d/0 d/1", knowledge.Query{Model: "m", Vector: []float32{1, 0, 0}, Limit: 2})
	s.nearest("", knowledge.Query{Model: "m", Vector: []float32{0, 0, 0}})
	if _, err := s.x.Nearest(t.Context(), knowledge.Query{Tenant: s.tenant, Scope: s.scope(), Model: "other", Vector: []float32{1, 0, 0}, Limit: 3}); !errors.Is(err, knowledge.ErrNoVectors) {
		t.Errorf("another model: %v", err)
	}
	// Many close together: the order is that of the exact cosines.
	var texts []string
	vectors := map[string][]float32{}
	for i := range 700 {
		texts = append(texts, fmt.Sprint("v", i))
		a := float64(i*389%700) / 700 // a permutation
		vectors[texts[i]] = []float32{float32(math.Cos(a)), float32(math.Sin(a)), 0.001}
	}
	s.put("many", "", texts...)
	s.embed("m", vectors)
	hits = s.near(knowledge.Query{Model: "m", Vector: []float32{1, 0, 0}, Scope: s.only("many"), Limit: 300})
	if len(hits) != 300 {
		t.Fatalf("%d hits", len(hits))
	}
	for i, h := range hits {
		if h.Index*389%700 != i {
			t.Fatalf("hit %d is %s", i, h.ID)
		}
	}
}

func testIndexVectors(t *testing.T, s *shelves) {
	q := knowledge.Query{Model: "m", Vector: []float32{1, 0}}
	s.embed("m", map[string][]float32{"before": {1, 0}}) // before its chunk
	s.put("a", "", "before", "after")
	s.nearest("a/0", q)
	s.embed("m", map[string][]float32{"after": {0.9, 0.1}}) // after it
	s.nearest("a/0 a/1", q)
	s.put("b", "", "before") // shared
	s.nearest("a/0 b/0 a/1", q)
	s.embed("m", map[string][]float32{"before": {0, 1}}) // the first stays
	s.nearest("a/0 b/0 a/1", q)
	s.ok(s.x.Remove(t.Context(), s.tenant, "a"))
	s.nearest("b/0", q)
	s.embed("n", map[string][]float32{"before": {1, 2, 3}}) // another model, another length
	s.nearest("b/0", knowledge.Query{Model: "n", Vector: []float32{1, 2, 3}})
	got, err := s.x.Embeddings(t.Context(), s.tenant, "m", []string{knowledge.Digest("before"), knowledge.Digest("never"), "garbage", ""})
	s.ok(err)
	if want := map[string][]float32{knowledge.Digest("before"): {1, 0}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// With headings it is another text.
	d := s.entry("c", "")
	c := s.chunks(d, "after")
	c[0].Context = "Heading"
	s.ok(s.x.Put(t.Context(), d, c))
	s.nearest("b/0", q)
	s.ok(s.x.Embed(t.Context(), s.tenant, "m", map[string][]float32{c[0].EmbeddedDigest(): {1, 0}}))
	s.nearest("b/0 c/0", q)
	s.ok(s.x.RemoveBase(t.Context(), s.tenant, s.base))
	s.nearest("", q)
}
