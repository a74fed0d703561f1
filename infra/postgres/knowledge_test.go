package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"refold/domain/knowledge"
	"refold/domain/search"
	"refold/domain/tool"
	"refold/infra/postgres"
	"refold/tests/services"
)

func put(t *testing.T, x knowledge.Index, document string, contents ...string) {
	t.Helper()
	var chunks []knowledge.Chunk
	for i, c := range contents {
		chunks = append(chunks, knowledge.Chunk{ID: fmt.Sprintf("%s/%d", document, i), Index: i, Kind: knowledge.Text, Content: c})
	}
	if err := x.Put(t.Context(), knowledge.Entry{Tenant: "1", Base: "b", Document: document, Revision: 1}, chunks); err != nil {
		t.Fatal(err)
	}
}

func TestLooseVectors(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		db := open(t, services.Postgres(t, v))
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
	})
}

// manyVectors puts chunks with random vectors and gives these.
func manyVectors(t *testing.T, x knowledge.Index, n, dims int) map[string][]float32 {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	var texts []string
	byID, byDigest := map[string][]float32{}, map[string][]float32{}
	for i := range n {
		v := make([]float32, dims)
		for k := range v {
			v[k] = float32(rnd.NormFloat64())
		}
		texts = append(texts, fmt.Sprint("text ", i))
		byID[fmt.Sprintf("d/%d", i)], byDigest[knowledge.Digest(texts[i])] = v, v
	}
	put(t, x, "d", texts...)
	if err := x.Embed(t.Context(), "1", "m", byDigest); err != nil {
		t.Fatal(err)
	}
	return byID
}

// exactly gives the ids of the nearest.
func exactly(vectors map[string][]float32, query []float32, n int) []string {
	var ids []string
	for id := range vectors {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		if search.Cosine(query, vectors[a]) > search.Cosine(query, vectors[b]) {
			return -1
		}
		return 1
	})
	return ids[:n]
}

// With pgvector a large model is searched by a graph of its own, made beside
// writers, and a narrow scope of it still by looking at all.
func TestGraph(t *testing.T) {
	dsn := services.Postgres(t, "18")
	db := open(t, dsn)
	if !db.Halves() {
		t.Fatal("this server has pgvector, and it is not used")
	}
	vectors := manyVectors(t, db.Index(), 800, 24)
	put(t, db.Index(), "small", "text 5", "text 6")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dsn) // whose graphs nobody makes by the way
	db.GraphsFrom(500, 100)
	x := db.Index()
	if built, err := db.Graph(t.Context(), "1", "m"); err != nil || !built {
		t.Fatalf("built: %v, %v", built, err)
	}
	if built, err := db.Graph(t.Context(), "1", "m"); err != nil || !built {
		t.Fatalf("the second time: %v, %v", built, err)
	}
	scope := tool.Scope{Targets: []tool.Target{{Base: "b"}}}
	right, all := 0, 0
	for i := range 20 {
		query := vectors[fmt.Sprintf("d/%d", i*7+7)]
		hits, err := x.Nearest(t.Context(), knowledge.Query{Tenant: "1", Scope: scope, Model: "m", Vector: query, Limit: 10})
		if err != nil || len(hits) != 10 {
			t.Fatalf("%d hits, %v", len(hits), err)
		}
		want := exactly(vectors, query, 10)
		for _, h := range hits {
			if all++; slices.Contains(want, h.ID) {
				right++
			}
		}
	}
	if right < all*95/100 {
		t.Errorf("%d of %d are among the nearest", right, all)
	}
	hits, err := x.Nearest(t.Context(), knowledge.Query{Tenant: "1", Model: "m", Vector: vectors["d/700"], Limit: 10,
		Scope: tool.Scope{Targets: []tool.Target{{Base: "b", Restricted: true, Documents: []string{"small"}}}}})
	if err != nil || len(hits) != 2 {
		t.Errorf("in a narrow scope: %v, %v", hits, err)
	}
}

// Vectors that were there before pgvector are found with it, those that a process
// writes that does not know of it, too; and a user who may not make extensions
// does without.
func TestHalvesComeLater(t *testing.T) {
	dsn := services.Postgres(t, "18")
	db := open(t, dsn)
	vectors := manyVectors(t, db.Index(), 40, 8)
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	nearest := func(x knowledge.Index) string {
		t.Helper()
		hits, err := x.Nearest(t.Context(), knowledge.Query{Tenant: "1", Model: "m", Vector: vectors["d/3"], Limit: 5, Scope: tool.Scope{Targets: []tool.Target{{Base: "b"}}}})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, h := range hits {
			ids = append(ids, h.ID)
		}
		return strings.Join(ids, " ")
	}
	want := strings.Join(exactly(vectors, vectors["d/3"], 5), " ")
	exec("DROP TRIGGER knowledge_half_made ON knowledge_vector; DROP TABLE knowledge_half; DROP EXTENSION vector CASCADE")
	user := "plain_" + c.Config().Database
	exec("CREATE ROLE " + user + " LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO " + user + "; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO " + user)
	defer exec("DROP OWNED BY " + user + "; DROP ROLE " + user)
	without := open(t, strings.Replace(dsn, "postgres:@", user+":@", 1))
	if without.Halves() {
		t.Error("there are halves without the extension")
	}
	if got := nearest(without.Index()); got != want {
		t.Errorf("in memory: %s, want %s", got, want)
	}
	db = open(t, dsn)
	if !db.Halves() {
		t.Fatal("there are no halves")
	}
	if got := nearest(db.Index()); got != want {
		t.Errorf("copied: %s, want %s", got, want)
	}
	v := slices.Clone(vectors["d/3"])
	put(t, without.Index(), "new", "fresh")
	if err := without.Index().Embed(t.Context(), "1", "m", map[string][]float32{knowledge.Digest("fresh"): v}); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]knowledge.Index{"with": db.Index(), "without": without.Index()} {
		if got := nearest(x); !strings.HasPrefix(got, "d/3 new/0 ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	second, err := postgres.Open(t.Context(), dsn, postgres.Options{NoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if !second.Halves() || !strings.HasPrefix(nearest(second.Index()), "d/3 new/0 ") {
		t.Error("a process that must not change the schema does not use what is there")
	}
}
