package e2e

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"refold/tests/scripted"
)

// TestRecord: replay, events and rebuild say what happened, beside a running
// server and without one.
func TestRecord(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, scripted.Say(scripted.Text("Look."), call("c1", "look", `{"at":"<x>"}`)), say("Done."))
	follow := begin(t, "--data", l.s.Data, "events", "--follow", "--category", "run", "--category", "session")
	id := l.session(t)
	r := l.chat(t, id, "q")
	r.rest(t)
	var types []string
	for len(types) == 0 || types[len(types)-1] != "RunCompleted" {
		line, err := follow.out.ReadString('\n')
		if err != nil {
			t.Fatalf("events --follow ended after %v: %v\n%s", types, err, follow.stderr)
		}
		types = append(types, decode(t, line)["type"].(string))
	}
	want := "SessionCreated MessagePosted RunStarted ModelCallStarted Thought ToolCallRequested ToolStarted ToolCompleted ModelCallStarted Thought RunCompleted"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("the log:\n%s, want\n%s", got, want)
	}
	if rest, code := follow.interrupt(t); code != 0 || rest != "" {
		t.Errorf("events --follow: exit %d, %q\n%s", code, rest, follow.stderr)
	}
	before, asked := l.messages(t, id), len(l.model.Requests())
	if out := refold(t, "--data", l.s.Data, "rebuild"); out.code != 0 || !strings.Contains(out.stdout, "history    rebuilt while it was read") {
		t.Errorf("rebuild beside a server: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if n := len(l.model.Requests()); n != asked { // P84: a fold has no effects
		t.Errorf("the rebuild has asked the model %d times", n-asked)
	}
	if after := l.messages(t, id); !reflect.DeepEqual(before, after) {
		t.Errorf("messages before and after:\n%+v\n%+v", before, after)
	}
	if out := refold(t, "--data", l.s.Data, "migrate"); out.code != 1 || !strings.Contains(out.stderr, "in use by process") {
		t.Errorf("migrate beside a server: exit %d\n%s", out.code, out.stderr)
	}
	check := func(when string) {
		t.Helper()
		events := jsonLines(t, refold(t, "--data", l.s.Data, "events", "--run", r.run(), "--category", "run").stdout)
		if len(events) != 9 || events[0]["version"] != 1.0 || events[0]["type"] != "RunStarted" {
			t.Fatalf("%s: %d events of the run", when, len(events))
		}
		after := jsonLines(t, refold(t, "--data", l.s.Data, "events", "--run", r.run(), "--after", events[3]["position"].(string)).stdout)
		if len(after) != 5 || after[0]["id"] != events[4]["id"] {
			t.Errorf("%s: --after gives %d events", when, len(after))
		}
		if few := jsonLines(t, refold(t, "--data", l.s.Data, "events", "--limit", "2").stdout); len(few) != 2 {
			t.Errorf("%s: --limit 2 gives %d events", when, len(few))
		}
		steps := jsonLines(t, refold(t, "--data", l.s.Data, "--json", "replay", r.run()).stdout)
		if len(steps) != 9 {
			t.Fatalf("%s: %d steps", when, len(steps))
		}
		for i, s := range steps {
			e := s["event"].(map[string]any)
			if e["id"] != events[i]["id"] || s["version"] != float64(i+1) || s["state"].(map[string]any)["open"] != (i < 8) {
				t.Errorf("%s: step %d: %v", when, i, s)
			}
		}
		if due := steps[0]["due"].([]any); len(due) != 1 || !strings.HasPrefix(due[0].(string), "CallModel") {
			t.Errorf("%s: due after the start: %v", when, due)
		}
		if due := steps[8]["due"].([]any); len(due) != 0 {
			t.Errorf("%s: due after the end: %v", when, due)
		}
		at := refold(t, "--data", l.s.Data, "replay", r.run(), "--at", "4")
		if at.code != 0 || !strings.Contains(at.stdout, "ToolCallRequested") || strings.Contains(at.stdout, "RunStarted") || !strings.Contains(at.stdout, "look c1: requested") {
			t.Errorf("%s: replay --at 4: exit %d\n%s", when, at.code, at.stdout)
		}
		if first := refold(t, "--data", l.s.Data, "replay", r.run(), "--at", "1"); !strings.Contains(first.stdout, "due   CallModel{Round:0 Attempt:1") {
			t.Errorf("%s: replay --at 1:\n%s", when, first.stdout)
		}
		if whole := refold(t, "--data", l.s.Data, "replay", r.run()); !strings.Contains(whole.stdout, "RunStarted") || !strings.Contains(whole.stdout, "RunCompleted") {
			t.Errorf("%s: replay:\n%s", when, whole.stdout)
		}
		for _, bad := range []string{"10", "-1"} {
			if out := refold(t, "--data", l.s.Data, "replay", r.run(), "--at="+bad); out.code != 2 || !strings.Contains(out.stderr, "from 1 to 9") {
				t.Errorf("%s: --at %s: exit %d\n%s", when, bad, out.code, out.stderr)
			}
		}
		if out := refold(t, "--data", l.s.Data, "replay", "nope"); out.code != 1 || !strings.Contains(out.stderr, "no run") {
			t.Errorf("%s: replay nope: exit %d\n%s", when, out.code, out.stderr)
		}
	}
	check("beside the server")
	l.p.kill(t)
	check("after its death")
	out := refold(t, "--data", l.s.Data, "--json", "rebuild")
	for _, line := range jsonLines(t, out.stdout) {
		empty := slices.Contains([]any{"approvals@1", "keys@1", "tenants@1", "references@2", "knowledge_bases@2", "library@1", "faq_entries@2", "faq_imports@1", "transfers@1"}, line["read_model"])
		if line["equal"] != true || line["documents"].(float64) == 0 && !empty {
			t.Errorf("rebuild: %v", line)
		}
	}
	if out.code != 0 || len(jsonLines(t, out.stdout)) < 5 {
		t.Errorf("rebuild: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := refold(t, "--data", l.s.Data, "rebuild", "history"); out.code != 0 || !strings.Contains(out.stdout, "equal to the old one") || strings.Count(out.stdout, "\n") != 1 {
		t.Errorf("rebuild history: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := refold(t, "--data", l.s.Data, "rebuild", "nope"); out.code != 2 || !strings.Contains(out.stderr, "history") {
		t.Errorf("rebuild nope: exit %d\n%s", out.code, out.stderr)
	}
}

// TestApprovalsCommand: people answer from the command line, with a server and
// without one.
func TestApprovalsCommand(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(func(r scripted.Request) scripted.Reply {
		if r.Messages[len(r.Messages)-1].Role == "tool" {
			return say("Done.")(r)
		}
		return mail(`{"to":"a@example.test","n":1}`)(r)
	})
	data := []string{"--data", l.s.Data}
	cli := func(args ...string) result {
		t.Helper()
		return refold(t, append(data[:2:2], args...)...)
	}
	if out := cli("approvals"); out.code != 0 || out.stdout != "" || !strings.Contains(out.stderr, "Nothing waits") {
		t.Errorf("an empty inbox: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	id := l.session(t)
	r := l.chat(t, id, "q")
	approval, _ := asked(t, r)
	if out := cli("approvals"); out.code != 0 || !strings.Contains(out.stdout, approval+"  pending  mail_send") {
		t.Errorf("the inbox: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if rows := jsonLines(t, cli("--json", "approvals", "list").stdout); len(rows) != 1 || rows[0]["id"] != approval {
		t.Errorf("the inbox in JSON: %v", rows)
	}
	if out := cli("approvals", "approve", approval, "--args", "{"); out.code != 2 {
		t.Errorf("--args {: exit %d\n%s", out.code, out.stderr)
	}
	if out := cli("approvals", "approve", "nope"); out.code != 1 || !strings.Contains(out.stderr, "no such approval") {
		t.Errorf("approve nope: exit %d\n%s", out.code, out.stderr)
	}
	if out := cli("approvals", "approve", approval, "--args", `{"to":"b@example.test","n":9007199254740993}`, "--reason", "fine"); out.code != 0 || out.stdout != "Approved.\n" {
		t.Errorf("approve: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if frames := r.rest(t); shown(frames, "answer") != "Done." {
		t.Errorf("the run did not go on: %s", wire(frames))
	}
	ran := count(t, l.s.Ledger)
	for line := range ran {
		if len(ran) != 1 || sorted(t, line) != `{"n":9007199254740993,"to":"b@example.test"}` {
			t.Errorf("ran with %v", ran)
		}
	}
	if out := cli("--json", "approvals", "reject", approval); out.code != 1 || !strings.Contains(decode(t, out.stdout)["error"].(string), "already been resolved") {
		t.Errorf("reject after it: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	// Without a server the decision is recorded; the next one goes on from it.
	r = l.chat(t, id, "again")
	approval, frames := asked(t, r)
	l.p.kill(t)
	if out := cli("approvals", "reject", approval, "--reason", "not now"); out.code != 0 || out.stdout != "Rejected.\n" {
		t.Errorf("reject: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	l.up(t)
	frames = append(frames, l.watch(t, id, r.run(), frames[len(frames)-1].id).rest(t)...)
	checkFeed(t, frames)
	if shown(frames, "answer") != "Done." || len(count(t, l.s.Ledger)) != 1 {
		t.Errorf("ledger %v, feed:\n%s", count(t, l.s.Ledger), wire(frames))
	}
	if out := cli("approvals", "list", "--status", "rejected"); !strings.Contains(out.stdout, approval) {
		t.Errorf("the inbox of the rejected: %s", out.stdout)
	}
}

// TestHelp: every command has examples, and wrong command lines exit 2.
func TestHelp(t *testing.T) {
	t.Parallel()
	commands := []string{"", "serve", "ask", "approvals", "approvals list", "approvals approve", "approvals reject", "replay", "events", "rebuild", "migrate", "version",
		"keys", "keys list", "keys create", "keys revoke", "tenants", "tenants list", "tenants create"}
	for _, c := range commands {
		out := refold(t, append(strings.Fields(c), "--help")...)
		if out.code != 0 || !strings.Contains(out.stdout, "Examples:\n") || !strings.Contains(out.stdout, "refold "+c) || out.stderr != "" {
			t.Errorf("%s --help: exit %d\n%s%s", c, out.code, out.stdout, out.stderr)
		}
	}
	data := filepath.Join(t.TempDir(), "data")
	for _, bad := range [][]string{{"--nope"}, {"nope"}, {"ask"}, {"ask", "--nope", "q"}, {"ask", " "}, {"ask", "--temperature", "3", "q"}, {"ask", "--model-timeout", "0s", "q"},
		{"ask", "--dir", "/no/such/dir", "q"}, {"replay"}, {"approvals", "approve"}, {"approvals", "list", "--status", "x"}, {"events", "--limit", "x"}, {"--config", "/no/such/file", "version"}} {
		out := refold(t, append([]string{"--data", data}, bad...)...)
		if out.code != 2 || !strings.HasPrefix(out.stderr, "refold: ") || out.stdout != "" {
			t.Errorf("%v: exit %d\n%s%s", bad, out.code, out.stdout, out.stderr)
		}
	}
	if out := refold(t); out.code != 0 || !strings.Contains(out.stdout, "Usage: refold <command>") {
		t.Errorf("no arguments: exit %d\n%s", out.code, out.stdout)
	}
	if out := refold(t, "version"); out.code != 0 || !strings.HasPrefix(out.stdout, "refold dev") {
		t.Errorf("version: exit %d %s", out.code, out.stdout)
	}
	if v := decode(t, refold(t, "version", "--json").stdout); v["version"] == "" || len(v) != 1 {
		t.Errorf("version --json: %v", v)
	}
	if out := refold(t, "--data", data, "migrate"); out.code != 0 || !strings.HasPrefix(out.stdout, "The schema went from version 0 to ") {
		t.Errorf("migrate: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := refold(t, "--data", data, "--json", "migrate"); out.code != 0 || decode(t, out.stdout)["from"] != decode(t, out.stdout)["to"] {
		t.Errorf("migrate again: exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}

// TestBadRecord: a record that can't be used is said in words, by every command.
func TestBadRecord(t *testing.T) {
	dir := t.TempDir()
	text, damaged, locked := filepath.Join(dir, "text"), filepath.Join(dir, "damaged"), filepath.Join(dir, "locked")
	if err := os.MkdirAll(text, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(text, "refold.db"), []byte(strings.Repeat("This is no database. ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := refold(t, "--data", damaged, "ask", "--dir", docs(t), "How do I restore a backup?"); out.code != 0 {
		t.Fatal(out.stderr)
	}
	file := filepath.Join(damaged, "refold.db")
	raw, err := os.ReadFile(file)
	if err != nil || len(raw) < 20000 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	for i := 4096; i < len(raw); i++ {
		raw[i] = byte(i * 7)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, settings{Data: locked})
	if err := os.Remove(filepath.Join(locked, "server.json")); err != nil { // not to be found, only in the way
		t.Fatal(err)
	}
	all := [][]string{{"ask", "q"}, {"approvals"}, {"rebuild"}, {"migrate"}, {"serve", "--addr", "127.0.0.1:0"}}
	for _, c := range []struct {
		data, part string
		commands   [][]string
	}{
		{text, "not a SQLite database", append(all, []string{"events"}, []string{"replay", "x"})},
		{damaged, "the file is damaged", append(all, []string{"events"}, []string{"replay", "x"})},
		{locked, "in use by process", all},
	} {
		for _, args := range c.commands {
			out := refold(t, append([]string{"--data", c.data}, args...)...)
			if out.code != 1 || !strings.Contains(out.stderr, c.part) || out.stdout != "" {
				t.Errorf("%v on %s: exit %d\n%s%s", args, filepath.Base(c.data), out.code, out.stdout, out.stderr)
			}
		}
	}
	if out := refold(t, "--data", locked, "events"); out.code != 0 { // reading is free
		t.Errorf("events beside a server: exit %d\n%s", out.code, out.stderr)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(raw) {
		t.Errorf("the damaged file was changed (%v)", err)
	}
}
