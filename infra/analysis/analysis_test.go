package analysis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers"
	"refold/handlers/tools"
	"refold/infra/analysis"
	"refold/infra/jsonschema"
	"refold/infra/memory"
	"refold/infra/parse"
)

var binary struct {
	sync.Once
	path string
	err  error
}

// program builds the real refold-data. Where there is no C compiler there is
// nothing to test, except in CI, where there must be one.
func program(t *testing.T) string {
	t.Helper()
	binary.Do(func() {
		if out, err := exec.Command("go", "env", "CGO_ENABLED").Output(); err != nil || strings.TrimSpace(string(out)) != "1" {
			binary.err = fmt.Errorf("cgo is off: %v", err)
			return
		}
		cc, err := exec.Command("go", "env", "CC").Output()
		if err != nil {
			binary.err = err
			return
		}
		if _, err := exec.LookPath(strings.Fields(string(cc))[0]); err != nil {
			binary.err = err
			return
		}
		dir, err := os.MkdirTemp("", "refold-data-test-")
		if err != nil {
			binary.err = err
			return
		}
		binary.path = filepath.Join(dir, "refold-data")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary.path, "refold/infra/cmd/refold-data")
		if out, err := cmd.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("build refold-data: %v: %s", err, out)
		}
	})
	if binary.err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(binary.err)
		}
		t.Skip(binary.err)
	}
	return binary.path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if binary.path != "" {
		os.RemoveAll(filepath.Dir(binary.path))
	}
	os.Exit(code)
}

const (
	base = "b1"
	doc  = "7d0a6f0e-0000-4000-8000-00000000d0c1"
)

// desk is a tenant's table files, with the real tools over them.
type desk struct {
	t        *testing.T
	files    map[string]handlers.DocumentFile
	engine   *analysis.Engine
	registry *tool.Registry
	index    *memory.Index
	opened   atomic.Int64
	scope    tool.Scope
}

func (d *desk) TableFile(_ context.Context, tenant, document string) (handlers.DocumentFile, bool, error) {
	f, ok := d.files[tenant+"/"+document]
	return f, ok, nil
}

func newDesk(t *testing.T, o analysis.Options) *desk {
	t.Helper()
	o.Binary, o.Tables, o.Temp = program(t), new(parse.Parser), t.TempDir()
	d := &desk{t: t, files: map[string]handlers.DocumentFile{}, engine: analysis.New(o), registry: &tool.Registry{}, index: &memory.Index{},
		scope: tool.Scope{Targets: []tool.Target{{Base: base}}}}
	t.Cleanup(func() {
		if err := d.engine.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(o.Temp, "refold-data-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	for _, tl := range []tool.Tool{&tools.DataAnalysis{Files: d, Analyst: d.engine}, &tools.DataSchema{Index: d.index}} {
		if err := d.registry.Register(tl); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// add puts a file into the base, with chunks about its tables.
func (d *desk) add(document, name string, content []byte) {
	d.t.Helper()
	kind := strings.TrimPrefix(filepath.Ext(name), ".")
	file := func() handlers.File {
		return handlers.File{Name: name, Type: kind, Size: int64(len(content)), Content: bytes.NewReader(content)}
	}
	d.files["7/"+document] = handlers.DocumentFile{Base: base, Title: name, Type: kind, TableFile: handlers.TableFile{Document: document, Revision: 1,
		Open: func(context.Context) (handlers.File, func(), error) { d.opened.Add(1); return file(), func() {}, nil }}}
	parsed, err := new(parse.Parser).Parse(d.t.Context(), file())
	if err != nil {
		d.t.Fatal(err)
	}
	var chunks []knowledge.Chunk
	for _, tb := range parsed.Tables {
		text := fmt.Sprintf("%s: %d rows\n", tb.Name, tb.Rows)
		for _, c := range tb.Columns {
			text += fmt.Sprintf("- %s (%s)\n", c.Name, c.Type)
		}
		text += strings.Join(tb.Notes, "\n")
		chunks = append(chunks, knowledge.Chunk{ID: fmt.Sprint(document, "-", len(chunks)), Base: base, Document: document, Revision: 1, Index: len(chunks), Kind: knowledge.TableSummary, Content: text})
	}
	if err := d.index.Put(d.t.Context(), knowledge.Entry{Tenant: "7", Base: base, Document: document, Revision: 1, Title: name}, chunks); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) call(name string, args map[string]string) tools.Outcome {
	d.t.Helper()
	raw, _ := json.Marshal(args)
	in := &tools.Invoker{Registry: d.registry, Validator: jsonschema.New()}
	return in.Invoke(d.t.Context(), tools.Request{Name: name, Call: tool.Call{Tenant: "7", Session: "s", Run: "r", Arguments: raw, Scope: d.scope}})
}

func (d *desk) query(sql string) tools.Outcome {
	return d.call("data_analysis", map[string]string{"knowledge_id": doc, "sql": sql})
}

// is fails unless a statement gives these rows.
func (d *desk) is(sql, rows string) {
	d.t.Helper()
	out := d.query(sql)
	var data struct {
		Display string `json:"display_type"`
		Rows    json.RawMessage
	}
	if len(out.Result.Data) > 0 {
		if err := json.Unmarshal(out.Result.Data, &data); err != nil {
			d.t.Fatal(err)
		}
	}
	if out.Result.Error != "" || string(data.Rows) != rows || data.Display != "data_analysis" {
		d.t.Errorf("%s\n got %s %s\nwant %s", sql, data.Rows, out.Result.Error, rows)
	}
}

func (d *desk) refuses(sql string) {
	d.t.Helper()
	if out := d.query(sql); out.Result.Error == "" {
		d.t.Errorf("%s was run: %s", sql, out.Result.Output)
	}
}

const orders = "id,Order Date,金额\n1,2026-01-02,12\n2,2026-01-03,7.5\n"

func TestP66_NoWayOutOfTheEngine(t *testing.T) {
	const out = "/tmp/out.csv"
	if _, err := os.Stat(out); err == nil {
		t.Fatalf("%s is there before the test", out)
	}
	d := newDesk(t, analysis.Options{QueryTime: 2 * time.Second})
	d.add(doc, "orders.csv", []byte(orders))
	for _, sql := range []string{
		"SELECT size FROM read_text('/etc/hostname');",
		"SELECT * FROM '/etc/passwd';",
		"COPY (SELECT 1) TO '/tmp/out.csv';",
		"ATTACH '/tmp/x.db';",
		"INSTALL httpfs; LOAD httpfs;",
		"SET enable_external_access=true;",
		"SELECT * FROM glob('/*');",
		"INSTALL httpfs", "LOAD httpfs", "LOAD '/tmp/x.duckdb_extension'", "SELECT 1; SELECT 2", "SELECT 1; COPY (SELECT 1) TO '/tmp/out.csv'",
		"SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_blob('/etc/passwd')", "SELECT * FROM read_json('/etc/passwd')", "SELECT * FROM parquet_scan('/etc/passwd')",
		"SELECT * FROM sniff_csv('/etc/passwd')", "SELECT * FROM 'http://127.0.0.1/x.csv'", "SELECT * FROM query('DROP TABLE t')", "SELECT getenv('PATH')",
		"EXPORT DATABASE '/tmp/x'", "IMPORT DATABASE '/tmp/x'", "PRAGMA enable_profiling", "PRAGMA disable_object_cache", "CALL pragma_version()", "CHECKPOINT", "VACUUM",
		"CREATE TABLE x(y INT)", "CREATE TEMP TABLE x AS SELECT 1", "CREATE MACRO f(x) AS x", "CREATE SECRET (TYPE s3)", "DROP TABLE " + handlers.TableName(doc), "BEGIN", "COMMIT", "ROLLBACK",
		"DELETE FROM " + handlers.TableName(doc), "UPDATE " + handlers.TableName(doc) + " SET id=9", "INSERT INTO " + handlers.TableName(doc) + " VALUES (9,'x',1)",
		"EXPLAIN ANALYZE DELETE FROM " + handlers.TableName(doc), "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/out.csv'", "RESET enable_external_access", "SET threads=8", "SET memory_limit='100GB'",
		"PREPARE p AS SELECT 1", "EXECUTE p", "USE memory", "DETACH memory", "SET VARIABLE x = 1", "", ";", "/* */", "SELECT $1",
	} {
		d.refuses(sql)
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", out, err)
	}
	started := time.Now()
	o := d.query("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n")
	if !strings.Contains(o.Result.Error, "too long") || time.Since(started) > 30*time.Second {
		t.Errorf("a recursion without end: %+v after %s", o.Result, time.Since(started))
	}
	d.is("SELECT count(*) AS n FROM "+handlers.TableName(doc), `[{"n":2}]`)
	if d.opened.Load() != 1 {
		t.Errorf("the file was loaded %d times", d.opened.Load())
	}
}

// No statement reads or changes a setting, by whatever name it goes about it.
func TestDataAnalysis_NoConfiguration(t *testing.T) {
	d := newDesk(t, analysis.Options{})
	d.add(doc, "orders.csv", []byte(orders))
	name := handlers.TableName(doc)
	for _, sql := range []string{
		"SELECT * FROM duckdb_settings()", "SELECT current_setting('memory_limit')", "SELECT Current_Setting ('memory_limit')", `SELECT "current_setting"('threads')`,
		"SELECT system.main.current_setting('threads')", "SELECT * FROM system.main.duckdb_settings()", "FROM pg_settings", "FROM pg_catalog.pg_settings", "SELECT * FROM system.pg_catalog.pg_settings",
		"PRAGMA database_list", "PRAGMA version", "PRAGMA show_tables", "PRAGMA table_info('" + name + "')", "SHOW VARIABLES", "SHOW DATABASES", "DESCRIBE pg_settings", "SUMMARIZE pg_settings",
		"SELECT id FROM " + name + " WHERE current_setting('threads') = 1", "SELECT sum(id) OVER (ORDER BY current_setting('threads')) FROM " + name, "SELECT [x, current_setting('threads')] FROM (VALUES (1)) v(x)",
		"SELECT list_transform([1], lambda x: current_setting('threads'))", "SELECT CASE WHEN true THEN getvariable('a') END", "SELECT (SELECT current_setting('threads'))",
		"SELECT id FROM " + name + " ORDER BY current_setting('threads')", "SELECT id FROM " + name + " LIMIT (SELECT length(current_setting('threads')::VARCHAR))",
		"SELECT * FROM query('FROM duckdb_settings()')", "SELECT * FROM query_table('pg_settings')", "SELECT * FROM query_table(['pg_settings'])", "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('FROM pg_settings'))",
		"SELECT * FROM duckdb_functions()", "FROM duckdb_columns", "SELECT version()", "FROM pragma_version()", "SELECT * FROM pragma_user_agent()", "SELECT * FROM range((SELECT current_setting('threads')))",
		"WITH pg_settings AS (SELECT * FROM pg_settings) SELECT * FROM pg_settings", "SELECT * FROM (WITH pg_settings AS (SELECT 1) FROM pg_settings) x, pg_settings", "WITH a AS (FROM pg_settings), pg_settings AS (SELECT 1) FROM a",
		"WITH RECURSIVE pg_settings AS (SELECT 1 UNION ALL SELECT setting FROM pg_catalog.pg_settings) FROM pg_settings", "WITH duckdb_settings AS (SELECT 1) SELECT * FROM duckdb_settings()",
		"EXPLAIN SELECT current_setting('threads')", "EXPLAIN ANALYZE SELECT * FROM duckdb_settings()", "EXPLAIN /* SELECT 1 -- */ SELECT current_setting('threads')", "EXPLAIN (FORMAT JSON) FROM pg_settings",
		"SET threads = 2", "SET SESSION threads = 2", "RESET threads", "SELECT sleep_ms(10000)", "SELECT write_log('x')", "SELECT 1 UNION ALL SELECT current_setting('threads')::INT", "VALUES (current_setting('threads'))",
	} {
		out := d.query(sql)
		if out.Result.Error == "" || strings.Contains(out.Result.Output, "MiB") {
			t.Errorf("%s: %+v", sql, out.Result)
		} else if !strings.Contains(out.Result.Error, "This statement is not run.") && !strings.Contains(out.Result.Error, "Error") {
			t.Errorf("%s: %s", sql, out.Result.Error)
		}
	}
	// What people ask of tables goes on.
	for sql, want := range map[string]string{
		"SELECT count(*) AS n, round(sum(金额), 1) AS s FROM " + name:                                                                                                                                            `[{"n":2,"s":19.5}]`,
		`WITH a AS (SELECT id, 金额 AS x FROM ` + name + `), b AS (SELECT max(x) AS m FROM a) SELECT a.id FROM a JOIN b ON a.x = b.m`:                                                                            `[{"id":1}]`,
		"WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT sum(i)::BIGINT AS s FROM n":                                                                                      `[{"s":10}]`,
		`SELECT strftime(CAST("Order Date" AS DATE), '%Y') AS y, date_trunc('month', CAST("Order Date" AS DATE)) AS m, 1 + 2 * 3 AS k FROM ` + name + ` WHERE "Order Date" LIKE '2026-01-02' AND id IN (1, 2)`: `[{"k":7,"m":"2026-01-01","y":"2026"}]`,
		"SELECT id, row_number() OVER (ORDER BY 金额) AS r, lag(id) OVER (ORDER BY id) AS l FROM " + name + " QUALIFY r = 1":                                                                                     `[{"id":2,"l":1,"r":1}]`,
		"SELECT list_transform([1, 2], lambda x: x + 1) AS a, {'k': 1}.k AS b, [3, 4][1] AS c, coalesce(NULL, 5) AS d, extract(year FROM DATE '2026-01-02') AS e":                                              `[{"a":"[2,3]","b":1,"c":3,"d":5,"e":2026}]`,
		"SELECT * FROM (PIVOT " + name + ` ON id IN (1, 2) USING sum(金额) GROUP BY "Order Date") LIMIT 0`:                                                                                                       `[]`,
		"SELECT count(*) AS n FROM range(3) t(i), unnest([1, 2]) u(j)":                                                                                                                                         `[{"n":6}]`,
		"SELECT column_name FROM information_schema.columns WHERE table_name = '" + name + "' ORDER BY ordinal_position LIMIT 1":                                                                               `[{"column_name":"id"}]`,
		"SELECT count(*) AS n FROM (DESCRIBE " + name + ")":                                                                                                                                                    `[{"n":3}]`,
		"SELECT count(*) AS n FROM (SUMMARIZE " + name + ")":                                                                                                                                                   `[{"n":3}]`,
		"SELECT median(金额) AS m FROM main." + name:                                                                                                                                                             `[{"m":9.75}]`,
		"SELECT CASE WHEN id > 1 THEN upper('a') ELSE '' END || regexp_replace('b', 'b', 'c') AS t FROM " + name + " ORDER BY id DESC LIMIT 1":                                                                 `[{"t":"Ac"}]`,
	} {
		d.is(sql, want)
	}
	for _, sql := range []string{"SHOW TABLES", "DESCRIBE " + name, "SUMMARIZE " + name, "SHOW " + name, "EXPLAIN SELECT * FROM " + name, "EXPLAIN ANALYZE SELECT count(*) FROM " + name, "FROM " + name + " USING SAMPLE 1", "SELECT now(), current_date, today()"} {
		if out := d.query(sql); out.Result.Error != "" {
			t.Errorf("%s: %s", sql, out.Result.Error)
		}
	}
}

func TestP67_CSVWithBOM(t *testing.T) {
	d := newDesk(t, analysis.Options{})
	d.add(doc, "bom.csv", []byte("\xEF\xBB\xBFid,name\n1,A\n"))
	d.is(`SELECT id FROM "`+doc+`"`, `[{"id":1}]`)
	d.is(`SELECT length(column_name) AS l FROM (DESCRIBE `+handlers.TableName(doc)+`) WHERE column_name='id'`, `[{"l":2}]`)
	out := d.call("data_schema", map[string]string{"knowledge_id": doc})
	var data struct{ Summary string }
	if err := json.Unmarshal(out.Result.Data, &data); err != nil || !strings.Contains(data.Summary, "\n- id (integer)\n- name (text)\n") || !strings.Contains(out.Result.Output, "\n- id (integer)\n") || strings.Contains(out.Result.Output, "\uFEFF") {
		t.Errorf("%q %v", data.Summary, err)
	}
}

func TestP68_EncodingsAndDecimalCommas(t *testing.T) {
	d := newDesk(t, analysis.Options{})
	d.add(doc, "gbk.csv", []byte("\xB6\xA9\xB5\xA5\xBA\xC5\x2C\xBD\xF0\xB6\xEE\x0D\x0A\xB1\xB1\xBE\xA9\x2C\x31\x32\x0D\x0A"))
	d.is(`SELECT SUM(金额) AS s, min("订单号") AS m FROM "`+doc+`"`, `[{"m":"北京","s":12}]`)
	d.engine.Forget(t.Context(), "r")
	d.add(doc, "rates.csv", []byte("date;rate\r\n2024-01-02;4,3547\r\n\r\nfull name;currency note\r\n"))
	d.is(`SELECT "date", rate + 1 AS r FROM "`+doc+`"`, `[{"date":"2024-01-02","r":5.3547}]`)
	d.engine.Forget(t.Context(), "r")
	late := "id,text\n" + strings.Repeat("1,abcdefgh\n", 8000) + "2,中文\n"
	d.add(doc, "late.csv", []byte(late))
	d.is(`SELECT text FROM "`+doc+`" WHERE id=2`, `[{"text":"中文"}]`)
}

func book(t *testing.T, build func(f *excelize.File)) []byte {
	t.Helper()
	f := excelize.NewFile()
	defer f.Close()
	build(f)
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestP69_AllSheets(t *testing.T) {
	d := newDesk(t, analysis.Options{})
	d.add(doc, "sales.xlsx", book(t, func(f *excelize.File) {
		f.SetSheetName("Sheet1", "Sales")
		f.NewSheet("It's Q2")
		f.NewSheet("Empty")
		for cell, v := range map[string]any{"A1": "id", "B1": "amt", "A2": 1, "B2": 10, "A3": 2, "B3": 20} {
			f.SetCellValue("Sales", cell, v)
		}
		for cell, v := range map[string]any{"A1": "id", "B1": "qty", "A2": 1, "B2": 5, "A3": 2, "B3": 6, "A4": 3, "B4": 7} {
			f.SetCellValue("It's Q2", cell, v)
		}
	}))
	d.is(`SELECT count(*) AS n, sum(amt) AS a, sum(qty) AS q FROM "`+doc+`"`, `[{"a":30,"n":5,"q":18}]`)
	d.is(`SELECT __sheet_name AS s, count(*) AS n FROM "`+doc+`" GROUP BY 1 ORDER BY 2`, `[{"n":2,"s":"Sales"},{"n":3,"s":"It's Q2"}]`)
	d.is(`SELECT count(*) AS n FROM "`+doc+`" WHERE __sheet_name='It''s Q2' AND amt IS NULL`, `[{"n":3}]`)
	if out := d.call("data_schema", map[string]string{"knowledge_id": doc}); !strings.Contains(out.Result.Output, "Empty: 0 rows") {
		t.Errorf("%+v", out.Result)
	}
}

func TestP70_TwoHeaderRows(t *testing.T) {
	d := newDesk(t, analysis.Options{})
	d.add(doc, "income.xlsx", book(t, func(f *excelize.File) {
		for cell, v := range map[string]any{"A1": "地区", "B1": "收入", "B2": "线上", "C2": "线下", "A3": "华北", "B3": 1, "C3": 2, "A4": "华南", "B4": 3, "C4": 4} {
			f.SetCellValue("Sheet1", cell, v)
		}
		f.MergeCell("Sheet1", "A1", "A2")
		f.MergeCell("Sheet1", "B1", "C1")
	}))
	d.is(`SELECT SUM(收入_线上) AS s, count(*) AS n FROM "`+doc+`"`, `[{"n":2,"s":4}]`)
	d.engine.Forget(t.Context(), "r")
	d.add(doc, "twice.csv", []byte("a,a,A\n1,2,3\n"))
	out := d.query(`SELECT * FROM "` + doc + `"`)
	var data struct{ Columns []string }
	if err := json.Unmarshal(out.Result.Data, &data); err != nil || len(data.Columns) != 3 || strings.EqualFold(data.Columns[0], data.Columns[1]) || strings.EqualFold(data.Columns[0], data.Columns[2]) {
		t.Errorf("%v %v %s", data, err, out.Result.Error)
	}
}

func TestDataAnalysis_NamesAreMended(t *testing.T) {
	d := newDesk(t, analysis.Options{})
	d.add(doc, "orders.csv", []byte(orders))
	d.is(`SELECT "order date" FROM `+doc+` WHERE id=1`, `[{"Order Date":"2026-01-02"}]`)
	d.is("SELECT `OrderDate` FROM `"+doc+"` WHERE id=1", `[{"Order Date":"2026-01-02"}]`)
	if out := d.query(`SELECT ordre_date FROM ` + doc); !strings.Contains(out.Result.Error, `Did you mean "Order Date"?`) || !strings.Contains(out.Result.Error, handlers.TableName(doc)) {
		t.Error(out.Result.Error)
	}
	var data struct {
		Query   string
		Session string `json:"session_id"`
		Count   int    `json:"row_count"`
	}
	out := d.query("SELECT 1 AS x FROM " + doc)
	if err := json.Unmarshal(out.Result.Data, &data); err != nil || data.Query != "SELECT 1 AS x FROM "+handlers.TableName(doc) || data.Session != "s" || data.Count != 2 {
		t.Errorf("%+v %v", data, err)
	}
	long := d.query("SELECT i, repeat('x', 100) AS t FROM range(5000) r(i)")
	if err := json.Unmarshal(long.Result.Data, &data); err != nil || data.Count != 1000 || !strings.Contains(long.Result.Output, "more than 1000") || strings.Count(long.Result.Output, "\n[") > 201 {
		t.Errorf("%d rows: %s", data.Count, long.Result.Error)
	}
}

func TestDataAnalysis_Scope(t *testing.T) {
	d := newDesk(t, analysis.Options{})
	d.add(doc, "orders.csv", []byte(orders))
	other := "8d0a6f0e-0000-4000-8000-00000000d0c2"
	d.add(other, "other.csv", []byte("secret\ncanary\n"))
	f := d.files["7/"+other]
	f.Base = "b2"
	d.files["7/"+other] = f
	for name, scope := range map[string]tool.Scope{"none": {}, "another base": {Targets: []tool.Target{{Base: "b2"}}}, "another document": {Targets: []tool.Target{{Base: base, Restricted: true, Documents: []string{other}}}}} {
		d.scope = scope
		if out := d.query("SELECT 1"); out.Result.Error == "" {
			t.Errorf("%s: %+v", name, out.Result)
		}
		if out := d.call("data_schema", map[string]string{"knowledge_id": doc}); out.Result.Error == "" {
			t.Errorf("%s: schema %+v", name, out.Result)
		}
	}
	d.scope = tool.Scope{Targets: []tool.Target{{Base: base}}}
	if out := d.call("data_analysis", map[string]string{"knowledge_id": other, "sql": "SELECT 1"}); out.Result.Error == "" {
		t.Error("a document outside the scope was opened")
	}
	if d.opened.Load() != 0 {
		t.Errorf("%d files were opened", d.opened.Load())
	}
	// One document's process knows nothing of another's.
	d.scope.Targets = append(d.scope.Targets, tool.Target{Base: "b2"})
	if out := d.call("data_analysis", map[string]string{"knowledge_id": other, "sql": "SELECT * FROM " + handlers.TableName(other)}); !strings.Contains(out.Result.Output, "canary") {
		t.Errorf("%+v", out.Result)
	}
	d.refuses("SELECT * FROM " + handlers.TableName(other))
	d.is("SELECT count(*) AS n FROM information_schema.tables", `[{"n":1}]`)
}

// Losing the process is a failed call, and the next one works.
func TestDataAnalysis_ProcessIsLost(t *testing.T) {
	d := newDesk(t, analysis.Options{})
	d.add(doc, "orders.csv", []byte(orders))
	d.is("SELECT count(*) AS n FROM "+doc, `[{"n":2}]`)
	pids := d.engine.Processes()
	if len(pids) != 1 {
		t.Fatalf("processes: %v", pids)
	}
	p, err := os.FindProcess(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if out := d.query("SELECT 1"); !strings.Contains(out.Result.Error, "broke down") {
		t.Errorf("%+v", out.Result)
	}
	d.is("SELECT count(*) AS n FROM "+doc, `[{"n":2}]`)
	if out := d.query("SELECT list(repeat('x', 1000)) FROM range(5000000)"); out.Result.Error == "" {
		t.Error("more memory was used than there is")
	}
	d.is("SELECT count(*) AS n FROM "+doc, `[{"n":2}]`)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	f := d.files["7/"+doc]
	if _, err := d.engine.Query(ctx, "r", f.TableFile, "SELECT count(*) FROM range(10000000) a(i), range(1000000) b(i) WHERE hash(a.i+b.i)=7"); !errors.Is(err, context.Canceled) {
		t.Errorf("a stopped query: %v", err)
	}
	d.is("SELECT count(*) AS n FROM "+doc, `[{"n":2}]`)
}

func TestDataAnalysis_TablesGoWithTheRun(t *testing.T) {
	d := newDesk(t, analysis.Options{Alive: 2})
	d.add(doc, "orders.csv", []byte(orders))
	f := d.files["7/"+doc].TableFile
	var work sync.WaitGroup
	for i := range 5 { // more runs than processes: they take turns
		work.Go(func() {
			a, err := d.engine.Query(t.Context(), fmt.Sprint("run", i), f, "SELECT sum(id) FROM "+doc)
			if err != nil || fmt.Sprint(a.Rows.Rows) != "[[3]]" {
				t.Errorf("run %d: %v %v", i, a, err)
			}
		})
	}
	work.Wait()
	if n := len(d.engine.Processes()); n == 0 || n > 2 {
		t.Errorf("%d processes", n)
	}
	for i := range 5 {
		if err := d.registry.CleanRun(t.Context(), fmt.Sprint("run", i)); err != nil {
			t.Error(err)
		}
	}
	if left := d.engine.Processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	// Another revision is loaded anew.
	f.Revision = 2
	f.Open = func(context.Context) (handlers.File, func(), error) {
		return handlers.File{Name: "x.csv", Type: "csv", Size: 5, Content: strings.NewReader("id\n9\n")}, func() {}, nil
	}
	if _, err := d.engine.Query(t.Context(), "r", d.files["7/"+doc].TableFile, "SELECT 1"); err != nil {
		t.Error(err)
	}
	if a, err := d.engine.Query(t.Context(), "r", f, "SELECT sum(id) FROM "+doc); err != nil || fmt.Sprint(a.Rows.Rows) != "[[9]]" {
		t.Errorf("%v %v", a, err)
	}
	broken := f
	broken.Revision = 3
	broken.Open = func(context.Context) (handlers.File, func(), error) { return handlers.File{}, nil, io.ErrUnexpectedEOF }
	if _, err := d.engine.Query(t.Context(), "r", broken, "SELECT 1"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	if _, err := analysis.Find(filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("found what is not there")
	}
	if path, err := analysis.Find(program(t)); err != nil || path == "" {
		t.Error(err)
	}
	if _, err := analysis.Find(""); err == nil {
		t.Error("there is one beside the test")
	}
}
