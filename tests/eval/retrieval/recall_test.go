package retrieval

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"refold/domain/chunk"
	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers"
	"refold/handlers/retrieval"
	"refold/infra/sqlite"
)

// question is what is asked, and the document that answers it.
type question struct{ document, text string }

func questions(t *testing.T) (out []question) {
	t.Helper()
	raw, err := os.ReadFile("questions.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		document, text, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if _, err := os.Stat(filepath.Join("docs", document+".md")); err != nil || !ok {
			t.Fatalf("question %q: %v", line, err)
		}
		out = append(out, question{document, text})
	}
	return out
}

// shelve puts all documents into an index, cut as they are when somebody uploads
// them, with vectors of the test model.
func shelve(t *testing.T, x knowledge.Index) {
	t.Helper()
	files, err := filepath.Glob("docs/*.md")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d documents, %v", len(files), err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		id := strings.TrimSuffix(filepath.Base(f), ".md")
		var chunks []knowledge.Chunk
		vectors := map[string][]float32{}
		for i, p := range chunk.Split(string(raw), chunk.Options{Size: 256}, chunk.Estimate) {
			c := knowledge.Chunk{ID: knowledge.ChunkID(id, 1, i), Index: i, Kind: knowledge.Kind(p.Kind), Start: p.Start, End: p.End, Context: p.Context, Content: p.Content, Tokens: p.Tokens}
			chunks = append(chunks, c)
			v, _ := embedder{}.Embed(t.Context(), []string{c.EmbeddedText()})
			vectors[c.EmbeddedDigest()] = v[0]
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(raw), "# "), "\n")
		if err := x.Put(t.Context(), knowledge.Entry{Tenant: "1", Base: "b", Document: id, Revision: 1, Title: title}, chunks); err != nil {
			t.Fatal(err)
		}
		if err := x.Embed(t.Context(), "1", embedder{}.Name(), vectors); err != nil {
			t.Fatal(err)
		}
	}
}

// score is how well a way to search does.
type score struct{ n, first, five, reciprocal float64 }

func (s *score) add(place int) {
	s.n++
	if place == 0 {
		s.first++
	}
	if place >= 0 && place < 5 {
		s.five++
		s.reciprocal += 1 / float64(place+1)
	}
}

func (s score) String() string {
	return fmt.Sprintf("recall@5 %.2f   recall@1 %.2f   MRR %.2f", s.five/s.n, s.first/s.n, s.reciprocal/s.n)
}

func TestRecall(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "refold.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	shelve(t, db.Index())
	r := retrieval.Retriever{Index: db.Index(), Embedder: func(string, string) handlers.Embedder { return embedder{} }}
	// A bag of words has no cosines of 0.6 for a question and a page; a real model has.
	options := tool.Retrieval{TopK: 5, VectorThreshold: 0.05}
	asked := questions(t)
	for _, way := range []struct {
		name    string
		least   float64 // of recall@5
		request retrieval.Request
	}{
		{"words alone", 0.9, retrieval.Request{NoVectors: true}},
		{"vectors alone", 0, retrieval.Request{NoKeywords: true}},
		{"both", 0.9, retrieval.Request{}},
	} {
		var all, zh, en score
		var missed []string
		for _, q := range asked {
			req := way.request
			req.Tenant, req.Scope, req.Queries, req.Retrieval = "1", tool.Scope{Targets: []tool.Target{{Base: "b"}}}, []string{q.text}, options
			got, err := r.Search(context.Background(), req)
			if err != nil {
				t.Fatal(err)
			}
			place := -1
			for i, h := range got.Hits {
				if h.Entry.Document == q.document && place < 0 {
					place = i
				}
			}
			if place < 0 {
				missed = append(missed, q.text)
			}
			all.add(place)
			if strings.HasSuffix(q.document, "-zh") {
				zh.add(place)
			} else {
				en.add(place)
			}
		}
		fmt.Printf("%-14s all %2.0f: %s\n%14s zh  %2.0f: %s\n%14s en  %2.0f: %s\n", way.name, all.n, all, "", zh.n, zh, "", en.n, en)
		for _, m := range missed {
			fmt.Printf("%14s missed: %s\n", "", m)
		}
		if all.five/all.n < way.least {
			t.Errorf("%s: recall@5 is %.2f, at least %.2f is wanted", way.name, all.five/all.n, way.least)
		}
	}
}
