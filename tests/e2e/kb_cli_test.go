package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"refold/tests/scripted"
)

// folder makes a folder with files; names end with what they hold.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// jsonRows decodes JSON lines.
func jsonRows(t testing.TB, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line == "" {
			continue
		}
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, row)
	}
	return out
}

var shop = map[string]string{"handbook.md": handbook, "sub/prices.csv": "thing,price\nanvil,900\nhammer,20\n", "sub/picture.png": "\x89PNG\r\n", ".git/config": "hidden",
	"bad.pdf": "no PDF"}

// kbCommands works on knowledge bases with the command line; run adds where.
func kbCommands(t *testing.T, run func(args ...string) result) {
	dir := folder(t, shop)
	ok := func(code int, args ...string) string {
		t.Helper()
		out := run(args...)
		if out.code != code {
			t.Fatalf("refold %s: exit %d\n%s%s", strings.Join(args, " "), out.code, out.stdout, out.stderr)
		}
		return out.stdout + out.stderr
	}
	if said := ok(0, "kb"); !strings.Contains(said, "refold kb create") {
		t.Errorf("%q", said)
	}
	made := jsonRows(t, run("kb", "create", "Shop", "--description", "All about it", "--json").stdout)
	if len(made) != 1 || made[0]["name"] != "Shop" {
		t.Fatalf("%v", made)
	}
	if said := ok(1, "kb", "create", "shop"); !strings.Contains(said, fmt.Sprint(made[0]["id"])) || !strings.Contains(said, "--force") {
		t.Errorf("%q", said)
	}
	second := jsonRows(t, run("kb", "create", "SHOP", "--force", "--json").stdout)
	if len(second) != 1 || second[0]["id"] == made[0]["id"] {
		t.Fatalf("%v", second)
	}
	ok(0, "kb", "delete", fmt.Sprint(second[0]["id"]))
	rows := jsonRows(t, run("doc", "add", dir, "--kb", "shop", "--wait", "--json").stdout)
	became := map[string]string{}
	for _, r := range rows {
		rel, err := filepath.Rel(dir, r["path"].(string))
		if err != nil {
			t.Fatal(err)
		}
		became[filepath.ToSlash(rel)] = fmt.Sprint(r["status"]) // the last one counts
	}
	if fmt.Sprint(became) != "map[bad.pdf:failed handbook.md:completed sub/picture.png:skipped sub/prices.csv:completed]" {
		t.Errorf("%v", became)
	}
	said := ok(3, "doc", "add", dir, "--kb", "Shop", "--wait")
	if strings.Count(said, "same  ") != 2 || strings.Count(said, "again  ") != 1 || strings.Contains(said, "added  ") || !strings.Contains(said, "failed  "+filepath.Join(dir, "bad.pdf")) || !strings.Contains(said, "skipped  ") {
		t.Errorf("the same again:\n%s", said)
	}
	if said = ok(0, "doc", "list", "--kb", "Shop", "--status", "failed"); !strings.Contains(said, "bad.pdf") || strings.Contains(said, "prices.csv") {
		t.Errorf("%s", said)
	}
	docs := jsonRows(t, run("doc", "list", "--kb", "Shop", "--json").stdout)
	if len(docs) != 3 {
		t.Errorf("%v", docs)
	}
	id := ""
	for _, d := range docs {
		if d["file_name"] == "prices.csv" {
			id = d["id"].(string)
			if d["folder_path"] != "sub" {
				t.Errorf("%v", d)
			}
		}
	}
	if said = ok(0, "doc", "show", id, "--chunks"); !strings.Contains(said, "sub/prices.csv") || !strings.Contains(said, "anvil") {
		t.Errorf("%s", said)
	}
	if said = ok(0, "search", "refunds", "--kb", "Shop"); !strings.Contains(said, "Shop: ") || !strings.Contains(said, "fourteen days") || !strings.Contains(said, "Note: searched by words only") {
		t.Errorf("%s", said)
	}
	if hits := jsonRows(t, run("search", "退款", "--json").stdout); len(hits) == 0 || hits[0]["knowledge_filename"] != "handbook.md" {
		t.Errorf("%v", hits)
	}
	ok(0, "doc", "delete", id)
	if said = ok(1, "doc", "show", id); !strings.Contains(said, "no such document") {
		t.Errorf("%s", said)
	}
	if said = ok(1, "doc", "add", dir, "--kb", "Nowhere"); !strings.Contains(said, "refold kb create") {
		t.Errorf("%s", said)
	}
	if said = ok(1, "doc", "add", filepath.Join(dir, "none.md"), "--kb", "Shop"); !strings.Contains(said, "none.md") {
		t.Errorf("%s", said)
	}
	old := filepath.Join(dir, "old.xls")
	if err := os.WriteFile(old, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if said = ok(3, "doc", "add", old, "--kb", "Shop"); !strings.Contains(said, "save it as .xlsx") {
		t.Errorf("%s", said)
	}
	if said = ok(3, "doc", "add", "http://127.0.0.1/x", "--kb", "Shop"); !strings.Contains(said, "can't be fetched") {
		t.Errorf("%s", said)
	}
	if said = ok(2, "kb", "delete", "Shop"); !strings.Contains(said, "--yes") {
		t.Errorf("%s", said)
	}
	ok(0, "kb", "delete", "Shop", "--yes")
	if said = ok(1, "ask", "--kb", "Shop", "q"); !strings.Contains(said, "no knowledge base") {
		t.Errorf("%s", said)
	}
	ok(2, "search", "x", "--limit", "0")
	ok(2, "doc", "add", dir) // no --kb
}

// TestKBCommands: with a running server, and without one.
func TestKBCommands(t *testing.T) {
	t.Parallel()
	t.Run("server", func(t *testing.T) {
		l := newLab(t, nil)
		kbCommands(t, func(args ...string) result { return refold(t, append([]string{"--data", l.s.Data}, args...)...) })
	})
	t.Run("alone", func(t *testing.T) {
		data := t.TempDir()
		kbCommands(t, func(args ...string) result { return refold(t, append([]string{"--data", data}, args...)...) })
	})
}

// TestDocAdd_WhileTheServerStartsAgain: the command waits for the server, and every
// file is there once.
func TestDocAdd_WhileTheServerStartsAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	b := l.newBase(t, "Shop", "")
	files := map[string]string{}
	for i := range 60 {
		files[fmt.Sprintf("file%02d.md", i)] = fmt.Sprintf("# File %d\n\nIts word is sesame%d.\n", i, i)
	}
	dir := folder(t, files)
	done := make(chan result, 1)
	go func() { done <- refold(t, "--data", l.s.Data, "doc", "add", dir, "--kb", "Shop", "--wait", "--json") }()
	ctx := guarded(t)
	var docs []struct{ ID string }
	count := func() int {
		l.do(t, "GET", "/api/v1/knowledge-bases/"+b+"/knowledge?page_size=100", nil).data(t, 200, &docs)
		return len(docs)
	}
	for count() < 5 {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("nothing is added")
		}
	}
	l.p.kill(t)
	l.up(t)
	out := <-done
	completed := map[string]bool{}
	for _, r := range jsonRows(t, out.stdout) {
		if r["status"] == "completed" {
			completed[r["path"].(string)] = true
		}
	}
	if out.code != 0 || len(completed) != len(files) || count() != len(files) {
		t.Errorf("exit %d, %d completed, %d there\n%s%s", out.code, len(completed), len(docs), out.stdout, out.stderr)
	}
}

// TestKBCommands_Help: every command has examples.
func TestKBCommands_Help(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"kb", "kb list", "kb create", "kb delete", "doc", "doc add", "doc list", "doc show", "doc delete", "search"} {
		if out := refold(t, append(strings.Fields(command), "--help")...); out.code != 0 || !strings.Contains(out.stdout, "Examples:\n\n    refold ") {
			t.Errorf("%s: exit %d\n%s", command, out.code, out.stdout)
		}
	}
}

// TestAskKB: a question about a knowledge base is answered with a citation that
// names the document, over the API and from the command line; another base is out
// of reach.
func TestAskKB(t *testing.T) {
	t.Parallel()
	look := func() scripted.Step {
		return scripted.Say(call("c1", "knowledge_search", `{"queries":["refunds"]}`))
	}
	cited := say(`Within fourteen days<ref id="c1"/>.`)
	l := newLab(t, nil)
	b, other := l.newBase(t, "Shop", ""), l.newBase(t, "Other", "")
	d := l.added(t, b, "handbook.md", handbook)
	l.added(t, other, "other.md", "Refunds are paid in gold.")
	chunk := l.search(t, "refunds", map[string]any{"knowledge_base_ids": []string{b}})[0].ID
	mark := `chunk_id="` + chunk + `"`

	l.model.Push(look())
	l.model.Push(cited)
	id := l.session(t)
	r := l.chatWith(t, id, map[string]any{"query": "When are refunds paid?", "agent_id": "builtin-smart-reasoning", "agent_enabled": true, "knowledge_base_ids": []string{b}})
	frames := r.rest(t)
	if got := shown(frames, "answer"); !strings.HasPrefix(got, "Within fourteen days<kb ") || !strings.Contains(got, mark) {
		t.Errorf("answer %q", got)
	}
	if wireText := wire(frames); !strings.Contains(wireText, d.ID) || strings.Contains(wireText, "gold") {
		t.Errorf("%s", wireText)
	}
	var loaded []struct {
		Role       string
		Content    string
		References []struct {
			ID       string
			Document string `json:"knowledge_id"`
		} `json:"knowledge_references"`
	}
	l.do(t, "GET", "/api/v1/messages/"+id+"/load", nil).data(t, 200, &loaded)
	if refs := loaded[1].References; len(refs) == 0 || refs[0].Document != d.ID || !strings.Contains(loaded[1].Content, mark) {
		t.Errorf("%+v", loaded)
	}

	l.model.Push(look())
	l.model.Push(cited)
	out := refold(t, "--data", l.s.Data, "ask", "--kb", "Shop", "When are refunds paid?")
	if out.code != 0 || !strings.Contains(out.stdout, "Within fourteen days") {
		t.Errorf("exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	// A base that is not there is refused.
	for _, ids := range [][]string{{"nope"}, {b, "nope"}} {
		a := l.do(t, "POST", "/api/v1/agent-chat/"+id, map[string]any{"query": "q", "knowledge_base_ids": ids})
		if a.status != 404 {
			t.Errorf("%v: HTTP %d %s", ids, a.status, a.body)
		}
	}
}

// TestAskKB_Offline: the model that is built in answers from a knowledge base too.
func TestAskKB_Offline(t *testing.T) {
	t.Parallel()
	data, dir := t.TempDir(), folder(t, map[string]string{"handbook.md": handbook})
	for _, args := range [][]string{{"kb", "create", "Shop"}, {"doc", "add", dir, "--kb", "Shop"}} {
		if out := refold(t, append([]string{"--data", data}, args...)...); out.code != 0 {
			t.Fatalf("%v: %s%s", args, out.stdout, out.stderr)
		}
	}
	out := refold(t, "--data", data, "ask", "--kb", "Shop", "When are refunds paid?")
	if out.code != 0 || !strings.Contains(out.stdout, "within fourteen days") {
		t.Errorf("exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}
