package tool_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"refold/domain/tool"
)

func TestStored(t *testing.T) {
	long := strings.Repeat("é", 5000)
	for _, c := range []struct {
		about, name, output, data string
		failed                    bool
		want, wantData            string
	}{
		{"no payload", "now", "12:00", "", false, "12:00", ""},
		{"payload without a display_type", "data_schema", "a, b", `{"summary":"s", "columns":2}`, false, "a, b", `{"summary":"s", "columns":2}`},
		{"display_type", "todo_write", "the plan", `{"display_type":"plan","task":"Find  it","steps":[{},{}]}`, false,
			`todo_write completed: 2 steps, task "Find it". The payload is left out here.`, `{"display_type":"plan","task":"Find  it","steps":[{},{}]}`},
		{"nothing to say of it", "clock", "12:00", `{"display_type":"clock","hour":12}`, false, "clock completed; its payload is left out here.", `{"display_type":"clock","hour":12}`},
		{"failed", "grep_files", "Error: no", `{"display_type":"file_matches","files":[]}`, true, "", `{"display_type":"file_matches","files":[]}`},
		{"chunks of a document", "list_knowledge_chunks", long, `{"display_type":"knowledge_chunks_list","knowledge_title":"Manual","total_chunks":9,"chunks":["a","b"]}`, false,
			`list_knowledge_chunks completed: 2 chunks, knowledge title "Manual". The payload is left out here.`,
			`{"display_type":"knowledge_chunks_list","knowledge_title":"Manual","total_chunks":9}`},
		{"chunks by another tool", "wiki_read_source_doc", "x", `{"display_type":"knowledge_chunks_list","chunks":[]}`, false,
			"wiki_read_source_doc completed; its payload is left out here.", `{"display_type":"knowledge_chunks_list"}`},
		{"matches", "grep_chunks", "x", `{"display_type":"grep_results","query":"a","chunk_results":[{"content":"secret"}],"knowledge_results":[{},{}]}`, false,
			`grep_chunks completed: 1 chunk results, 2 knowledge results, query "a". The payload is left out here.`,
			`{"display_type":"grep_results","knowledge_results":[{},{}],"query":"a"}`},
		{"shell", "shell_exec", "ok", `{"exit_code":0,"stdout":"x","stderr":"y","content":1,"content_base64":""}`, false, "ok", `{"exit_code":0}`},
		{"file of a sandbox", "read_sandbox_file", "ok", `{"path":"/a","content":"x"}`, false, "ok", `{"path":"/a"}`},
		{"content of another tool stays", "read_skill", "ok", `{"content":"x"}`, false, "ok", `{"content":"x"}`},
		{"no object", "x", "ok", `["display_type"]`, false, "ok", `["display_type"]`},
		{"damaged", "shell_exec", "ok", `{"stdout":`, false, "ok", `{"stdout":`},
	} {
		t.Run(c.about, func(t *testing.T) {
			output, data := tool.Stored(c.name, !c.failed, c.output, json.RawMessage(c.data))
			if output != c.want || string(data) != c.wantData {
				t.Errorf("%q\n%s", output, data)
			}
		})
	}
}

func TestStored_Bounds(t *testing.T) {
	rows := strings.Repeat(`{"a":1},`, 50_000)
	raw := json.RawMessage(`{"display_type":"database_query","row_count":50001,"rows":[` + rows + `{}]}`)
	_, data := tool.Stored("database_query", true, "x", raw)
	if string(data) != `{"display_type":"database_query","omitted":"the payload is too large to be kept here","row_count":50001}` {
		t.Errorf("%d bytes: %.200s", len(data), data)
	}
	if _, data := tool.Stored("x", true, "", json.RawMessage("["+rows+"1]")); data != nil {
		t.Errorf("%d bytes of a list", len(data))
	}
	many := map[string]string{"display_type": "x"}
	for i := range 1000 {
		many[fmt.Sprint(i)] = strings.Repeat("v", 1000)
	}
	raw, _ = json.Marshal(many)
	if _, data := tool.Stored("x", true, "", raw); len(data) > tool.MaxStoredData {
		t.Errorf("%d bytes", len(data))
	}
	long := make([]string, 100)
	for i := range long {
		long[i] = fmt.Sprintf(`"list%d":[1]`, i)
	}
	if s := tool.Summary("x", json.RawMessage(`{"display_type":"y","query":"`+strings.Repeat("q ", 4000)+`",`+strings.Join(long, ",")+`}`)); len(s) > 400 || strings.Contains(s, "\n\n") {
		t.Errorf("%q", s)
	}
}

// A quarter from the start and three from the end, and no character is cut.
func TestStored_SandboxOutput(t *testing.T) {
	for _, name := range []string{"shell_exec", "read_sandbox_file", "execute_skill_script"} {
		for shift := range 4 {
			text := strings.Repeat("a", shift) + strings.Repeat("世", 3000) + "the end"
			got, _ := tool.Stored(name, true, text, nil)
			if len(got) > tool.MaxSandboxOutput || len(got) < tool.MaxSandboxOutput-100 || !utf8.ValidString(got) || !strings.HasSuffix(got, "the end") {
				t.Fatalf("%s: %d bytes, valid %v", name, len(got), utf8.ValidString(got))
			}
			if at := strings.Index(got, "left out"); at < 900 || at > 1200 {
				t.Errorf("%s: the gap is at %d", name, at)
			}
		}
	}
	if got, _ := tool.Stored("shell_exec", true, "short", nil); got != "short" {
		t.Errorf("%q", got)
	}
}
