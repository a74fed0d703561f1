package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/infra/sqlite"
)

func entry(document string) knowledge.Entry {
	return knowledge.Entry{Tenant: "1", Base: "b", Document: document, Revision: 1}
}

func chunk(document, content string) []knowledge.Chunk {
	return []knowledge.Chunk{{ID: document + "/0", Kind: knowledge.Text, Content: content}}
}

func put(t *testing.T, x knowledge.Index, document, content string) {
	t.Helper()
	if err := x.Put(t.Context(), entry(document), chunk(document, content)); err != nil {
		t.Fatal(err)
	}
}

// Vectors that no chunk has go when their time is over, those that one has stay.
func TestLooseVectors(t *testing.T) {
	db := fresh(t)
	x := db.Index()
	put(t, x, "a", "one")
	put(t, x, "b", "two")
	put(t, x, "c", "two")
	vectors := map[string][]float32{knowledge.Digest("one"): {1}, knowledge.Digest("two"): {2}, knowledge.Digest("early"): {3}}
	if err := x.Embed(t.Context(), "1", "m", vectors); err != nil {
		t.Fatal(err)
	}
	expect := func(want int) {
		t.Helper()
		got, err := x.Embeddings(t.Context(), "1", "m", []string{knowledge.Digest("one"), knowledge.Digest("two"), knowledge.Digest("early")})
		if err != nil || len(got) != want {
			t.Errorf("%d vectors, want %d (%v)", len(got), want, err)
		}
	}
	if err := x.Remove(t.Context(), "1", "a", "b"); err != nil {
		t.Fatal(err)
	}
	expect(3)
	put(t, x, "early", "early") // its vector came before it, and is no longer loose
	db.KeepLoose(-time.Hour)
	put(t, x, "other", "thing")
	expect(2)
	if err := x.Remove(t.Context(), "1", "c"); err != nil {
		t.Fatal(err)
	}
	expect(1)
}

// A space that is larger than what may be held is searched all the same, and not
// held; one that fits is held, and makes room for another.
func TestVectorsInMemory(t *testing.T) {
	db := fresh(t)
	x := db.Index()
	rnd := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{}
	q := knowledge.Query{Tenant: "1", Scope: tool.Scope{Targets: []tool.Target{{Base: "b"}}}, Limit: 1, Vector: make([]float32, 64)}
	for i := range q.Vector {
		q.Vector[i] = float32(rnd.NormFloat64())
	}
	for _, model := range []string{"m", "n"} {
		for i := range 300 {
			text := fmt.Sprint(model, " ", i)
			if model == "m" {
				put(t, x, text, text)
			} else {
				text = fmt.Sprint("m ", i)
			}
			v := make([]float32, 64)
			for k := range v {
				v[k] = float32(rnd.NormFloat64())
			}
			if i == 150 {
				copy(v, q.Vector)
				want[model] = text + "/0"
			}
			if err := x.Embed(t.Context(), "1", model, map[string][]float32{knowledge.Digest(text): v}); err != nil {
				t.Fatal(err)
			}
		}
	}
	search := func(model string) {
		t.Helper()
		q.Model = model
		hits, err := x.Nearest(t.Context(), q)
		if err != nil || len(hits) != 1 || hits[0].ID != want[model] || hits[0].Score < 0.9999 {
			t.Errorf("nearest of %s: %v, %v", model, hits, err)
		}
	}
	for _, c := range []struct{ most, spaces int }{{10_000, 0}, {60_000, 1}, {1 << 20, 2}} {
		db.HoldAtMost(c.most)
		search("m")
		search("n")
		search("m")
		if spaces, bytes := db.Held(); spaces != c.spaces || bytes > c.most {
			t.Errorf("with room for %d: %d spaces of %d bytes", c.most, spaces, bytes)
		}
	}
}

// Another process that reads the file sees what this one writes.
func TestIndexBesideAReader(t *testing.T) {
	db := fresh(t)
	x := db.Index()
	put(t, x, "a", "first needle")
	reader, err := sqlite.Open(t.Context(), db.Path(), sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	q := knowledge.Query{Tenant: "1", Scope: tool.Scope{Targets: []tool.Target{{Base: "b"}}}, Text: "needle", Limit: 10, Model: "m", Vector: []float32{1}}
	count := func(want int) {
		t.Helper()
		hits, err := reader.Index().Keyword(t.Context(), q)
		if err != nil || len(hits) != want {
			t.Errorf("%d hits, want %d (%v)", len(hits), want, err)
		}
		near, err := reader.Index().Nearest(t.Context(), q)
		if err != nil || len(near) != want {
			t.Errorf("%d near, want %d (%v)", len(near), want, err)
		}
	}
	if err := x.Embed(t.Context(), "1", "m", map[string][]float32{knowledge.Digest("first needle"): {1}, knowledge.Digest("second needle"): {2}}); err != nil {
		t.Fatal(err)
	}
	count(1)
	put(t, x, "b", "second needle")
	count(2)
	if err := x.Remove(t.Context(), "1", "a"); err != nil {
		t.Fatal(err)
	}
	count(1)
}
