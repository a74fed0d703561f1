package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/infra/memory"
)

func (s *shelves) walk(scope tool.Scope) string {
	s.t.Helper()
	var out []knowledge.Found
	s.ok(s.x.Walk(s.t.Context(), s.tenant, scope, func(f knowledge.Found) bool { out = append(out, f); return true }))
	seen, last := map[string]bool{}, ""
	for i, f := range out {
		if f.Entry.Document != last && seen[f.Entry.Document] || f.Entry.Document == last && f.Index <= out[i-1].Index {
			s.t.Fatalf("%s comes after %s", f.ID, out[i-1].ID)
		}
		last = f.Entry.Document
		seen[last] = true
	}
	slices.SortStableFunc(out, func(a, b knowledge.Found) int { return strings.Compare(a.Entry.Document, b.Entry.Document) })
	return foundIDs(out)
}

func testIndexWalk(t *testing.T, s *shelves) {
	var want []string
	for i := range 300 {
		name := fmt.Sprintf("d%03d", i)
		n := i % 4
		if i == 100 {
			n = 1300
		}
		var texts []string
		for k := range n {
			texts = append(texts, fmt.Sprintf("text %d", k))
			want = append(want, fmt.Sprintf("%s/%d", name, k))
		}
		s.put(name, "", texts...)
	}
	if got := s.walk(s.scope()); got != strings.Join(want, " ") {
		t.Errorf("%d walked, want %d", len(strings.Fields(got)), len(want))
	}
	n := 0
	s.ok(s.x.Walk(t.Context(), s.tenant, s.scope(), func(knowledge.Found) bool { n++; return n < 700 }))
	if n != 700 {
		t.Errorf("stopped after %d", n)
	}
	// Whoever walks may ask, and change.
	s.ok(s.x.Walk(t.Context(), s.tenant, s.scope(), func(f knowledge.Found) bool {
		_, err := s.x.Chunks(t.Context(), s.tenant, f.ID)
		s.ok(err)
		s.ok(s.x.Remove(t.Context(), s.tenant, f.Entry.Document))
		return true
	}))
	if got := s.walk(s.scope()); got != "" {
		t.Errorf("left %.100s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.put("x", "", "text")
	for name, err := range map[string]error{
		"walk": s.x.Walk(ctx, s.tenant, s.scope(), func(knowledge.Found) bool { return true }),
		"put":  s.x.Put(ctx, s.entry("y", ""), s.chunks(s.entry("y", ""), "text")),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", name, err)
		}
	}
	s.find("x/0", "text")
}

func testIndexList(t *testing.T, s *shelves) {
	d := s.entry("d", "Title")
	var texts []string
	for i := range 25 {
		texts = append(texts, fmt.Sprint("text ", i))
	}
	c := s.chunks(d, texts...)
	for i := range c {
		if i%5 == 1 {
			c[i].Kind = knowledge.ParentText
		}
		c[i].Disabled = i%5 == 2
	}
	s.ok(s.x.Put(t.Context(), d, c))
	for _, l := range []struct {
		knowledge.List
		want  string
		total int
	}{
		{knowledge.List{Limit: 3}, "d/0 d/1 d/3", 20},
		{knowledge.List{Limit: 3, Offset: 2}, "d/3 d/4 d/5", 20},
		{knowledge.List{Limit: 3, Offset: 19}, "d/24", 20},
		{knowledge.List{Limit: 3, Offset: 20}, "", 20},
		{knowledge.List{Limit: 3, Offset: 1 << 40}, "", 20},
		{knowledge.List{Limit: 3, Disabled: true}, "d/0 d/1 d/2", 25},
		{knowledge.List{Limit: 2, Offset: 1, Kinds: []knowledge.Kind{knowledge.ParentText}}, "d/6 d/11", 5},
		{knowledge.List{Limit: 3, Kinds: []knowledge.Kind{knowledge.ParentText, knowledge.Text}}, "d/0 d/1 d/3", 20},
		{knowledge.List{Limit: 3, Kinds: []knowledge.Kind{knowledge.Summary}}, "", 0},
		{knowledge.List{Limit: -1, Offset: -5}, "d/0", 20},
	} {
		l.Tenant, l.Document = s.tenant, "d"
		f, total, err := s.x.List(t.Context(), l.List)
		s.ok(err)
		if foundIDs(f) != l.want || total != l.total {
			t.Errorf("%+v: %q of %d, want %q of %d", l.List, foundIDs(f), total, l.want, l.total)
		}
	}
	for _, l := range []knowledge.List{{Tenant: unique("tenant"), Document: "d", Limit: 5}, {Tenant: s.tenant, Document: "e", Limit: 5}, {Limit: 5}} {
		if f, total, err := s.x.List(t.Context(), l); err != nil || len(f) != 0 || total != 0 {
			t.Errorf("%+v: %v, %d, %v", l, f, total, err)
		}
	}
}

// testIndexConcurrent puts, changes and removes documents at the same time, with
// searches beside it that must see each document whole or not at all.
func testIndexConcurrent(t *testing.T, s *shelves) {
	s.embed("m", map[string][]float32{"stable text": {1, 0}})
	s.put("stable", "", "stable text")
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for i := range 12 {
				d := s.entry(fmt.Sprintf("doc%d", (w+i)%3), "")
				d.Revision = i + 1
				marker := fmt.Sprintf("rev%d", d.Revision)
				c := s.chunks(d, "alpha "+marker, "beta "+marker, "gamma "+marker)
				if err := s.x.Put(t.Context(), d, c); err != nil {
					t.Error(err)
					return
				}
				v := map[string][]float32{}
				for k, c := range c {
					v[c.EmbeddedDigest()] = []float32{1, float32(k + 1)}
				}
				if err := s.x.Embed(t.Context(), s.tenant, "m", v); err != nil {
					t.Error(err)
				}
				if i%5 == 4 {
					if err := s.x.Remove(t.Context(), s.tenant, d.Document); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				f, _, err := s.x.List(t.Context(), knowledge.List{Tenant: s.tenant, Document: "doc1", Limit: 10})
				if err != nil || len(f) != 0 && len(f) != 3 || len(f) == 3 && (f[0].Entry.Revision != f[2].Entry.Revision || !strings.HasSuffix(f[2].Content, fmt.Sprint("rev", f[0].Entry.Revision))) {
					t.Errorf("half a document: %v, %v", f, err)
					return
				}
				hits, err := s.x.Keyword(t.Context(), s.query("stable"))
				if err != nil || hitIDs(hits) != "stable/0" {
					t.Errorf("keyword: %q, %v", hitIDs(hits), err)
					return
				}
				hits, err = s.x.Nearest(t.Context(), knowledge.Query{Tenant: s.tenant, Scope: s.scope(), Model: "m", Vector: []float32{1, 0}, Limit: 20})
				if err != nil || len(hits) == 0 || hits[0].ID != "stable/0" {
					t.Errorf("nearest: %q, %v", hitIDs(hits), err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if t.Failed() {
		return
	}
	for i := range 3 {
		d := s.entry(fmt.Sprint("doc", i), "")
		d.Revision = 100
		s.ok(s.x.Put(t.Context(), d, s.chunks(d, fmt.Sprint("last ", i))))
	}
	hits := strings.Fields(hitIDs(s.keyword(s.query("last alpha beta gamma rev12"))))
	slices.Sort(hits)
	if got := strings.Join(hits, " "); got != "doc0@100/0 doc1@100/0 doc2@100/0" {
		t.Errorf("in the end there is %q", got)
	}
}

// testIndexRandom does the same to this index and to the simple one in memory,
// and compares what they find.
func testIndexRandom(t *testing.T, s *shelves) {
	rnd := rand.New(rand.NewPCG(3, 4))
	simple := &memory.Index{}
	vocabulary := strings.Fields("server servers restart policy 年假 报销 发票 retry_limit v1.2 configuration 配置 文件 员工 手册 leave annual 增值税 the of database 数据库 备份 backup")
	text := func() string {
		words := make([]string, 1+rnd.IntN(12))
		for i := range words {
			words[i] = vocabulary[rnd.IntN(len(vocabulary))]
		}
		return strings.Join(words, []string{" ", ""}[rnd.IntN(2)])
	}
	vector := func() []float32 {
		return []float32{float32(rnd.NormFloat64()), float32(rnd.NormFloat64()), float32(rnd.NormFloat64()), 0.01}
	}
	bases := []string{s.base, unique("base")}
	kinds := []knowledge.Kind{knowledge.Text, knowledge.Text, knowledge.ParentText, knowledge.FAQText}
	var texts []string
	both := func(f func(x knowledge.Index) error) {
		t.Helper()
		a, b := f(s.x), f(simple)
		if (a == nil) != (b == nil) {
			t.Fatalf("this index says %v, the simple one %v", a, b)
		}
	}
	entry := func() knowledge.Entry {
		d := s.entry(fmt.Sprintf("d%02d", rnd.IntN(30)), text())
		d.Base, d.Revision, d.Disabled = bases[rnd.IntN(2)], 1+rnd.IntN(4), rnd.IntN(6) == 0
		for _, tag := range []string{"x", "y"} {
			if rnd.IntN(3) == 0 {
				d.Tags = append(d.Tags, tag)
			}
		}
		return d
	}
	for range 250 {
		switch rnd.IntN(10) {
		case 0, 1, 2, 3:
			d := entry()
			var contents []string
			for range rnd.IntN(6) {
				contents = append(contents, text())
			}
			c := s.chunks(d, contents...)
			for i := range c {
				c[i].Kind, c[i].Context, c[i].Disabled = kinds[rnd.IntN(4)], []string{"", text()}[rnd.IntN(2)], rnd.IntN(8) == 0
				texts = append(texts, c[i].EmbeddedText())
			}
			both(func(x knowledge.Index) error { return x.Put(t.Context(), d, c) })
		case 4:
			d := entry()
			both(func(x knowledge.Index) error { return x.Change(t.Context(), d) })
		case 5:
			c := knowledge.Chunk{ID: fmt.Sprintf("d%02d/%d", rnd.IntN(30), rnd.IntN(3)), Content: text(), Edition: 1 + rnd.IntN(3), Disabled: rnd.IntN(5) == 0}
			texts = append(texts, c.EmbeddedText())
			both(func(x knowledge.Index) error { return x.Edit(t.Context(), s.tenant, c) })
		case 6:
			id := fmt.Sprintf("d%02d", rnd.IntN(30))
			both(func(x knowledge.Index) error { return x.Remove(t.Context(), s.tenant, id) })
		case 7:
			if rnd.IntN(12) == 0 {
				both(func(x knowledge.Index) error { return x.RemoveBase(t.Context(), s.tenant, bases[1]) })
			}
		default:
			v := map[string][]float32{}
			for range 5 {
				if len(texts) > 0 {
					v[knowledge.Digest(texts[rnd.IntN(len(texts))])] = vector()
				}
			}
			both(func(x knowledge.Index) error { return x.Embed(t.Context(), s.tenant, "m", v) })
		}
		if rnd.IntN(4) > 0 {
			continue
		}
		q := knowledge.Query{Tenant: s.tenant, Text: text(), Model: "m", Vector: vector(), Limit: 1 + rnd.IntN(100)}
		if rnd.IntN(4) == 0 {
			q.Text = []string{"税", "员", "发", "备"}[rnd.IntN(4)]
		}
		for _, b := range bases {
			target := tool.Target{Base: b, Restricted: rnd.IntN(2) == 0}
			for i := range 30 {
				if rnd.IntN(2) == 0 {
					target.Documents = append(target.Documents, fmt.Sprintf("d%02d", i))
				}
			}
			if rnd.IntN(3) > 0 {
				q.Scope.Targets = append(q.Scope.Targets, target)
			}
		}
		if rnd.IntN(4) == 0 {
			q.Tags = []string{"x"}
		}
		if rnd.IntN(4) == 0 {
			q.Kinds = []knowledge.Kind{knowledge.FAQText}
		}
		type answer struct {
			words, near []knowledge.Hit
			walk        string
		}
		ask := func(x knowledge.Index) (a answer, err error) {
			if a.words, err = x.Keyword(t.Context(), q); err != nil {
				return a, err
			}
			if a.near, err = x.Nearest(t.Context(), q); errors.Is(err, knowledge.ErrNoVectors) {
				err = nil
			}
			w := shelves{t: t, x: x, tenant: s.tenant, base: s.base}
			a.walk = w.walk(q.Scope)
			return a, err
		}
		got, err := ask(s.x)
		s.ok(err)
		want, err := ask(simple)
		s.ok(err)
		for name, pair := range map[string][2][]knowledge.Hit{"keyword": {got.words, want.words}, "nearest": {got.near, want.near}} {
			if !alike(pair[0], pair[1]) {
				t.Fatalf("%s of %+v:\n got %s\nwant %s", name, q, describe(pair[0]), describe(pair[1]))
			}
		}
		if got.walk != want.walk {
			t.Fatalf("walk of %+v:\n got %s\nwant %s", q.Scope, got.walk, want.walk)
		}
	}
}

// alike compares hits whose scores may differ by rounding.
func alike(a, b []knowledge.Hit) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if d := a[i].Score - b[i].Score; d > 1e-5 || d < -1e-5 {
			return false
		}
	}
	// Those that are equal to the last may be others.
	byID := map[string]knowledge.Hit{}
	for _, h := range b {
		byID[h.ID] = h
	}
	for _, h := range a {
		if o, ok := byID[h.ID]; ok && !reflect.DeepEqual(normal(o.Found), normal(h.Found)) || !ok && h.Score > b[len(b)-1].Score+1e-5 {
			return false
		}
	}
	return true
}

func normal(f knowledge.Found) knowledge.Found {
	if len(f.Tags) == 0 {
		f.Tags = nil
	}
	return f
}

func describe(hits []knowledge.Hit) string {
	var b strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&b, "%s %.6f, ", h.ID, h.Score)
	}
	return b.String()
}
