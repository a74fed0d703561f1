package viewquery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers"
	"refold/handlers/tools"
	"refold/infra/jsonschema"
	"refold/infra/memory"
	"refold/infra/viewquery"
)

// store has two tenants, with the same ids where ids can be the same, and in
// each a base that is in scope and one that is not.
type store struct {
	bases     map[string][]handlers.ViewBase
	documents map[string][]handlers.ViewDocument
	index     *memory.Index
	all       bool // answer with what is not asked for, too
	fails     error
}

func (s *store) Bases(_ context.Context, tenant string, ids []string, row func(handlers.ViewBase) bool) error {
	for _, b := range s.bases[tenant] {
		if (s.all || strings.Contains(strings.Join(ids, " "), b.ID)) && !row(b) {
			break
		}
	}
	return s.fails
}

func (s *store) Documents(_ context.Context, tenant string, scope tool.Scope, row func(handlers.ViewDocument) bool) error {
	for _, d := range s.documents[tenant] {
		if (s.all || scope.Holds(d.Base, d.ID)) && !row(d) {
			break
		}
	}
	return s.fails
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{bases: map[string][]handlers.ViewBase{}, documents: map[string][]handlers.ViewDocument{}, index: &memory.Index{}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tenant := range []string{"7", "8"} {
		canary := "canary-" + tenant
		for _, base := range []string{"b-in", "b-out-" + tenant} {
			mark := canary
			if base != "b-in" {
				mark = "outside-" + tenant
			}
			s.bases[tenant] = append(s.bases[tenant], handlers.ViewBase{ID: base, Name: mark + " base", Kind: "document", CreatedAt: at})
			for i := range 3 {
				id := fmt.Sprintf("%s-d%d-%s", base, i, tenant)
				hidden := i == 2 && base == "b-in"
				if !hidden { // the source gives no disabled documents
					s.documents[tenant] = append(s.documents[tenant], handlers.ViewDocument{ID: id, Base: base, Title: fmt.Sprintf("%s doc %d", mark, i), File: "a.pdf", FileType: "pdf", Size: int64(100 * i), Chunks: 2, CreatedAt: at})
				}
				entry := knowledge.Entry{Tenant: tenant, Base: base, Document: id, Revision: 1, Title: mark, Disabled: hidden}
				var chunks []knowledge.Chunk
				for k := range 2 {
					chunks = append(chunks, knowledge.Chunk{ID: fmt.Sprintf("%s-c%d", id, k), Base: base, Document: id, Revision: 1, Index: k, Kind: knowledge.Text,
						Content: fmt.Sprintf("%s text %d", mark, k), Digest: "sha256:" + strings.Repeat("0", 64), Disabled: k == 1 && i == 1})
				}
				if err := s.index.Put(t.Context(), entry, chunks); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return s
}

var scope = tool.Scope{Targets: []tool.Target{{Base: "b-in"}}}

func query(t *testing.T, s *store, sql string) (handlers.Rows, error) {
	t.Helper()
	return viewquery.New(s, s.index).Query(t.Context(), "7", scope, sql)
}

func code(err error) string {
	var e *handlers.QueryError
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

func refuse(t *testing.T, s *store, sql string) {
	t.Helper()
	rows, err := query(t, s, sql)
	if c := code(err); c != "refused" && c != "invalid" {
		t.Errorf("%s: %v %v", sql, rows, err)
	}
}

func TestP63_TableAndFunctionListsAreTheEngines(t *testing.T) {
	s := newStore(t)
	// The case's lines as they are, and with our tables in place of theirs.
	for _, sql := range []string{
		"SELECT pg_ls_dir('.');",
		"SELECT/**/*/**/FROM/**/api_keys;",
		"SELECT * FROM sessions, pg_shadow;",
		`SELECT * FROM "sessions" JOIN LATERAL (SELECT current_setting('data_directory')) x ON true;`,
		"SELECT 1 FROM sessions; DROP TABLE sessions;",
		"SELECT * FROM knowledges, pg_shadow;",
		`SELECT * FROM "knowledges" JOIN LATERAL (SELECT current_setting('data_directory')) x ON true;`,
		`SELECT * FROM "knowledges" JOIN (SELECT current_setting('data_directory')) x ON true;`,
		"SELECT 1 FROM knowledges; DROP TABLE knowledges;",
		"SELECT/**/*/**/FROM/**/sqlite_master;", "SELECT * FROM sqlite_schema", "SELECT count(*) FROM sqlite_master", "SELECT * FROM sqlite_temp_master",
		"SELECT * FROM pragma_database_list", "SELECT * FROM pragma_table_list", "SELECT count(*) FROM pragma_function_list", "SELECT * FROM json_each('[1]')", "SELECT * FROM dbstat",
		"PRAGMA database_list", "PRAGMA query_only=OFF", "ATTACH '/tmp/x.db' AS x", "ATTACH ':memory:' AS x", "VACUUM INTO '/tmp/x.db'", "DETACH main",
		"SELECT load_extension('x')", "SELECT readfile('/etc/passwd')", "SELECT writefile('/tmp/x','y')", "SELECT randomblob(1000000000)", "SELECT zeroblob(1000000000)",
		"SELECT printf('%1000000000d', 1)", "SELECT hex(content) FROM chunks", "SELECT sqlite_version()", "SELECT fts3_tokenizer('x')", "SELECT edit('x')",
		"BEGIN", "COMMIT", "SAVEPOINT x", "CREATE TABLE x(y)", "CREATE TEMP TABLE x AS SELECT * FROM chunks", "CREATE VIEW v AS SELECT 1", "CREATE VIRTUAL TABLE x USING chunks",
		"REINDEX", "ANALYZE", "ALTER TABLE chunks RENAME TO x", "DROP TABLE chunks", "SELECT 1;;SELECT 2", "SELECT 1; -- x\nSELECT 2", "SELECT 1 /* ; */ ; /**/ DROP TABLE chunks",
		"", " ;", "-- nothing", "SELECT \x00", "SELECT * FROM temp.chunks x, main.sqlite_master", "SELECT * FROM chunks('x')", `SELECT "no such column" FROM chunks`,
		strings.Repeat(" ", 9000) + "SELECT 1", "SELECT " + strings.Repeat("1+(", 500) + "1" + strings.Repeat(")", 500), "SELECT * FROM chunks WHERE content REGEXP 'a'", "SELECT content MATCH 'a' FROM chunks",
	} {
		refuse(t, s, sql)
	}
	for sql, want := range map[string]string{
		"SELECT count(*) FROM knowledges":                                          "[[2]]",
		"SELECT 'DROP TABLE sessions; -- /* x */' AS s FROM knowledges LIMIT 1;":   "[[DROP TABLE sessions; -- /* x */]]",
		"select TITLE from Knowledges k where k.title like '%doc 1' -- the second": "[[canary-7 doc 1]]",
		"SELECT b.name, count(c.id) n, sum(k.file_size) FROM knowledge_bases b JOIN knowledges k ON k.knowledge_base_id=b.id JOIN chunks c ON c.knowledge_id=k.id GROUP BY b.name": "[[canary-7 base 3 100]]",
		"SELECT strftime('%Y', created_at), upper(type), round(avg(chunk_count),1), row_number() OVER (ORDER BY id) FROM knowledge_bases, (SELECT chunk_count FROM knowledges)":    "[[2026 DOCUMENT 2 1]]",
		"SELECT content FROM chunks WHERE knowledge_id='b-in-d0-7' AND knowledge_base_id='b-in' ORDER BY chunk_index DESC":                                                         "[[canary-7 text 1] [canary-7 text 0]]",
		"SELECT id FROM chunks WHERE knowledge_id='b-out-7-d0-7' OR id IS NULL":                                                                                                    "[]",
		"SELECT id FROM chunks WHERE knowledge_base_id='b-out-7'":                                                                                                                  "[]",
		"SELECT id, id FROM knowledge_bases": "[[b-in b-in]]",
		"VALUES (1, NULL, 2.5)":              "[[1 <nil> 2.5]]",
	} {
		rows, err := query(t, s, sql)
		if got := fmt.Sprint(rows.Rows); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", sql, got, err, want)
		}
	}
	if rows, _ := query(t, s, "SELECT id, id FROM knowledge_bases"); fmt.Sprint(rows.Columns) != "[id id_2]" {
		t.Errorf("%v", rows.Columns)
	}
}

func TestP64_NoPredicateReachesAnotherTenant(t *testing.T) {
	for _, all := range []bool{false, true} { // also where the ports give too much
		s := newStore(t)
		s.all = all
		for _, sql := range []string{
			"SELECT id, title FROM knowledges WHERE title='x' OR 1=1;",
			"SELECT id FROM knowledges s WHERE EXISTS (SELECT 1 FROM chunks m);",
			"SELECT id FROM knowledges UNION SELECT id FROM knowledges;",
			"WITH t AS (SELECT * FROM knowledges) SELECT id, title FROM t;",
			"WITH t AS (SELECT * FROM knowledges) SELECT count(*) FROM t;",
			"SELECT id, name FROM knowledge_bases WHERE id IN ('b-in','b-out-7','b-out-8') OR 1",
			"SELECT content FROM chunks WHERE knowledge_id LIKE '%' OR knowledge_base_id = 'b-out-8'",
			"SELECT k.title, c.content FROM knowledges k LEFT JOIN chunks c ON 1=1",
			"SELECT content FROM chunks WHERE knowledge_id IN ('b-in-d0-8', 'b-in-d0-7', 'b-out-7-d0-7')",
			"SELECT (SELECT group_concat(content) FROM chunks), (SELECT group_concat(title) FROM knowledges)",
			"SELECT id FROM chunks WHERE rowid > -1 ORDER BY rowid LIMIT -1 OFFSET 0",
		} {
			rows, err := query(t, s, sql)
			raw, _ := json.Marshal(rows)
			if err != nil || len(rows.Rows) == 0 {
				t.Errorf("%s: %v", sql, err)
			}
			for _, other := range []string{"canary-8", "outside-7", "outside-8", "-8\"", "b-out"} {
				if strings.Contains(string(raw), other) {
					t.Errorf("%s: %s is in %s", sql, other, raw)
				}
			}
		}
		if rows, err := query(t, s, "SELECT count(*) FROM chunks"); err != nil || fmt.Sprint(rows.Rows) != "[[3]]" {
			t.Errorf("disabled passages are seen: %v %v", rows, err)
		}
	}
}

func TestP64_ScopeIsTheEnginesToo(t *testing.T) {
	s := newStore(t)
	e := viewquery.New(s, s.index)
	for name, c := range map[string]struct {
		tenant string
		scope  tool.Scope
		rows   string
	}{
		"no tenant":       {"", scope, ""},
		"no scope":        {"7", tool.Scope{}, ""},
		"empty selection": {"7", tool.Scope{Targets: []tool.Target{{Base: "b-in", Restricted: true}}}, ""},
		"one document":    {"7", tool.Scope{Targets: []tool.Target{{Base: "b-in", Restricted: true, Documents: []string{"b-in-d1-7"}}}}, "[[b-in-d1-7]]"},
		"unknown tenant":  {"9", scope, "[]"},
	} {
		rows, err := e.Query(t.Context(), c.tenant, c.scope, "SELECT DISTINCT knowledge_id FROM chunks")
		if c.rows == "" && code(err) != "refused" || c.rows != "" && (err != nil || fmt.Sprint(rows.Rows) != c.rows) {
			t.Errorf("%s: %v %v", name, rows.Rows, err)
		}
	}
}

func TestP65_NoWriteHidesBehindWith(t *testing.T) {
	s := newStore(t)
	before, err := query(t, s, "SELECT (SELECT count(*) FROM knowledges), (SELECT count(*) FROM chunks)")
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"WITH gone AS (DELETE FROM messages WHERE id > 0 RETURNING id) SELECT max(id) FROM gone;",
		"WITH one AS (SELECT 1 AS n) UPDATE sessions SET title='' FROM one;",
		"EXPLAIN ANALYZE DELETE FROM messages;",
		"WITH gone AS (DELETE FROM chunks WHERE id > 0 RETURNING id) SELECT max(id) FROM gone;",
		"WITH one AS (SELECT 1 AS n) UPDATE knowledges SET title='' FROM one;",
		"EXPLAIN ANALYZE DELETE FROM chunks;", "EXPLAIN DELETE FROM chunks", "DELETE FROM chunks", "INSERT INTO chunks VALUES (1)", "WITH x AS (SELECT 1) INSERT INTO chunks SELECT * FROM x",
		"WITH x AS (SELECT 1) DELETE FROM knowledges RETURNING *", "REPLACE INTO chunks VALUES (1)",
	} {
		refuse(t, s, sql)
	}
	rows, err := query(t, s, "SELECT 'please DELETE nothing; DROP no TABLE';")
	if err != nil || fmt.Sprint(rows.Rows) != "[[please DELETE nothing; DROP no TABLE]]" {
		t.Errorf("%v %v", rows, err)
	}
	after, err := query(t, s, "SELECT (SELECT count(*) FROM knowledges), (SELECT count(*) FROM chunks)")
	if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%v, before %v", after, before)
	}
}

func TestQuery_IsBounded(t *testing.T) {
	s := newStore(t)
	long := handlers.ViewDocument{Base: "b-in", Title: strings.Repeat("长", 2000)}
	for i := range 3000 {
		long.ID = fmt.Sprint("x", i)
		s.documents["7"] = append(s.documents["7"], long)
	}
	for sql, want := range map[string]string{
		"SELECT id FROM knowledges":    "1000 rows, more",
		"SELECT title FROM knowledges": "fewer, more",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n": "refused",
		"SELECT count(*) FROM knowledges a, knowledges b, knowledges c, knowledges d":          "too_much",
		"SELECT length(group_concat(title)) FROM knowledges":                                   "too_much",
		"SELECT a.title||b.title FROM knowledges a, knowledges b ORDER BY 1 LIMIT 1":           "too_much",
		"SELECT replace(replace(replace('aaaaaaaaaa','a','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'),'a',title),'长',title) FROM knowledges WHERE title > 'l'": "too_much",
	} {
		rows, err := viewquery.New(s, s.index).Within(time.Second).Query(t.Context(), "7", scope, sql)
		got := code(err)
		if err == nil {
			got = fmt.Sprintf("%d rows", len(rows.Rows))
			if len(rows.Rows) < 1000 && len(rows.Rows) > 100 {
				got = "fewer"
			}
			if rows.More {
				got += ", more"
			}
		}
		if got != want {
			t.Errorf("%s: %s (%v), want %s", sql, got, err, want)
		}
	}
	if rows, err := query(t, s, "SELECT count(*) FROM knowledges"); err != nil || fmt.Sprint(rows.Rows) != "[[3002]]" {
		t.Errorf("the next query: %v %v", rows, err)
	}
	s.fails = errors.New("the database is away")
	if _, err := query(t, s, "SELECT count(*) FROM knowledges"); !errors.Is(err, s.fails) {
		t.Errorf("a fault of the store: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := viewquery.New(s, s.index).Query(ctx, "7", scope, "SELECT 1"); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func TestDatabaseQuery_Tool(t *testing.T) {
	s := newStore(t)
	registry := &tool.Registry{}
	if err := registry.Register(&tools.DatabaseQuery{Views: viewquery.New(s, s.index)}); err != nil {
		t.Fatal(err)
	}
	in := &tools.Invoker{Registry: registry, Validator: jsonschema.New()}
	run := func(sql string, scope tool.Scope) tools.Outcome {
		raw, _ := json.Marshal(map[string]string{"sql": sql})
		return in.Invoke(t.Context(), tools.Request{Name: "database_query", Call: tool.Call{Tenant: "7", Arguments: raw, Scope: scope}})
	}
	out := run("SELECT id, title, file_size FROM knowledges ORDER BY id", scope)
	if string(out.Result.Data) != `{"display_type":"database_query","columns":["id","title","file_size"],"rows":[{"file_size":0,"id":"b-in-d0-7","title":"canary-7 doc 0"},{"file_size":100,"id":"b-in-d1-7","title":"canary-7 doc 1"}],"row_count":2}` {
		t.Errorf("%s", out.Result.Data)
	}
	if !strings.Contains(out.Result.Output, `["b-in-d0-7","canary-7 doc 0",0]`) {
		t.Error(out.Result.Output)
	}
	if out := run("SELECT 1", tool.Scope{}); out.Result.Error == "" {
		t.Error("an empty scope was queried")
	}
	if out := run("SELECT * FROM sqlite_master", scope); !strings.Contains(out.Result.Error, "knowledges(") {
		t.Errorf("%+v", out.Result)
	}
	def, _ := registry.Definition("database_query")
	if hint := tool.CallHint(def, json.RawMessage(`{"sql":"SELECT secret"}`)); strings.Contains(hint, "secret") {
		t.Error(hint)
	}
}
