//go:build linux

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers"
	"refold/handlers/retrieval"
	"refold/infra/sqlite"
)

// What is searched: documents of ten chunks of some 120 words, every other in
// Chinese, words as frequent as words are, with vectors of 384 components in
// some hundred directions.
const (
	shelfDocuments = 10_000
	shelfChunks    = 10
	shelfDims      = 384
	shelfQueries   = 200
)

// shelf makes texts and vectors, the same each time.
type shelf struct {
	rnd       *rand.Rand
	words     *rand.Zipf
	syllables []string
	centres   [][]float32
}

func newShelf() *shelf {
	s := &shelf{rnd: rand.New(rand.NewPCG(7, 11))}
	s.words = rand.NewZipf(s.rnd, 1.07, 8, 60_000)
	for _, a := range []string{"b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr"} {
		for _, v := range []string{"a", "e", "i", "o", "u", "ar", "en", "or"} {
			s.syllables = append(s.syllables, a+v)
		}
	}
	for range 120 {
		s.centres = append(s.centres, s.direction(nil))
	}
	return s
}

func (s *shelf) direction(near []float32) []float32 {
	v := make([]float32, shelfDims)
	for i := range v {
		v[i] = float32(s.rnd.NormFloat64())
		if near != nil {
			v[i] = near[i] + v[i]*0.6
		}
	}
	return v
}

// word is the nth word of a language.
func (s *shelf) word(n uint64, chinese bool) string {
	if chinese { // two characters of some 2,000
		return string([]rune{rune(0x4e00 + n*37%1999), rune(0x4e00 + n*101/7%1999)})
	}
	k := uint64(len(s.syllables))
	w := s.syllables[n%k] + s.syllables[n/k%k]
	if n >= k*k/4 {
		w += s.syllables[n/k/k%k]
	}
	return w
}

func (s *shelf) text(words int, chinese bool) string {
	var b strings.Builder
	for i := range words {
		b.WriteString(s.word(s.words.Uint64(), chinese))
		switch {
		case i%12 == 11 && chinese:
			b.WriteString("。")
		case i%12 == 11:
			b.WriteString(". ")
		case !chinese:
			b.WriteString(" ")
		}
	}
	return b.String()
}

// fill puts the documents into an index and tells how many chunks a second.
func (s *shelf) fill(t *T, x knowledge.Index) float64 {
	ctx, began := context.Background(), time.Now()
	for d := range shelfDocuments {
		id := fmt.Sprintf("document-%05d", d)
		var chunks []knowledge.Chunk
		vectors := make(map[string][]float32, shelfChunks)
		for i := range shelfChunks {
			c := knowledge.Chunk{ID: knowledge.ChunkID(id, 1, i), Index: i, Kind: knowledge.Text, Content: s.text(120, d%2 == 0)}
			chunks = append(chunks, c)
			vectors[c.EmbeddedDigest()] = s.direction(s.centres[s.rnd.IntN(len(s.centres))])
		}
		t.check(x.Put(ctx, knowledge.Entry{Tenant: "1", Base: "b", Document: id, Revision: 1, Title: s.text(4, d%2 == 0)}, chunks))
		t.check(x.Embed(ctx, "1", "m", vectors))
	}
	return shelfDocuments * shelfChunks / time.Since(began).Seconds()
}

// question is three to five words of middling frequency, in a direction.
func (s *shelf) question(chinese bool) string {
	var words []string
	for range 3 + s.rnd.IntN(3) {
		words = append(words, s.word(20+s.rnd.Uint64N(4000), chinese))
	}
	return strings.Join(words, map[bool]string{true: "", false: " "}[chinese])
}

func (s *shelf) Name() string { return "m" }

// Embed implements handlers.Embedder.
func (s *shelf) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = s.direction(s.centres[len(text)*31%len(s.centres)])
	}
	return out, nil
}

// spread gives the percentiles of how long f takes, in ms, and the processor time
// of each.
func spread(n int, f func(i int)) (p50, p95, cpu float64) {
	used := func() float64 {
		var r syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
		return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e6
	}
	var took []float64
	before := used()
	for i := range n {
		began := time.Now()
		f(i)
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	cpu = (used() - before) / float64(n)
	slices.Sort(took)
	return took[n/2], took[n*95/100], cpu
}

// searches measures searches through 100,000 chunks on SQLite: by words, by
// vectors, and by both as the tools ask.
func searches(t *T) {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "refold.db"), sqlite.Options{})
	t.check(err)
	defer db.Close()
	s, x := newShelf(), db.Index()
	rate := s.fill(t, x)
	total := thousands(shelfDocuments * shelfChunks)
	t.add("chunks put into the index, with vectors", "", rate, atLeast(500, "/s"), "%s chunks, half of them Chinese", total)
	q := knowledge.Query{Tenant: "1", Scope: tool.Scope{Targets: []tool.Target{{Base: "b"}}}, Model: "m", Limit: 50}
	words := func(chinese bool) func(int) {
		return func(int) {
			q := q
			q.Text = s.question(chinese)
			_, err := x.Keyword(ctx, q)
			t.check(err)
		}
	}
	nearest := func(i int) {
		q := q
		q.Vector = s.direction(s.centres[i%len(s.centres)])
		hits, err := x.Nearest(ctx, q)
		t.check(err)
		if len(hits) != q.Limit || math.Abs(hits[0].Score) > 1.0001 {
			t.Fatalf("%d hits", len(hits))
		}
	}
	began := time.Now()
	nearest(0)
	first := time.Since(began)
	r := retrieval.Retriever{Index: x, Embedder: func(string, string) handlers.Embedder { return s }}
	both := func(i int) {
		_, err := r.Search(ctx, retrieval.Request{Tenant: "1", Scope: q.Scope, Queries: []string{s.question(i%2 == 0)}})
		t.check(err)
	}
	for _, way := range []struct {
		name string
		f    func(int)
		most float64
		note string
	}{
		{"words, Chinese", words(true), 100, ""}, {"words, English", words(false), 100, ""},
		{"vectors of 384", nearest, 100, fmt.Sprintf(", the first after a start %.1f s", first.Seconds())}, {"both, fused, with surroundings", both, 250, ""},
	} {
		way.f(0)
		p50, p95, cpu := spread(shelfQueries, way.f)
		t.add("search in "+total+" chunks by "+way.name+", p95", "", p95, atMost(way.most, "ms"), "p50 %.1f ms, %.1f ms of CPU each%s", p50, cpu, way.note)
	}
}
