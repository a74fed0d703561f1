package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"refold/tests/scripted"
)

// docs makes a folder of files in two languages.
func docs(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"backup.md": "# Backups\n\nBackups are made every night at two.\n\nTo restore a backup, stop the server and run the restore script with the date.\n",
		"备份.md":     "# 备份\n\n备份每天凌晨两点进行。\n\n恢复备份时，先停止服务器，再运行恢复脚本。\n",
		"other.md":  "# Colours\n\nThe roof is red.\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestAskOffline: an answer with quotes and their places, from a folder, with
// nothing configured and no server; and the same beside a server.
func TestAskOffline(t *testing.T) {
	t.Parallel()
	dir, data := docs(t), filepath.Join(t.TempDir(), "data")
	l := newLab(t, func(s *settings) { s.ModelURL = "" })
	for _, at := range []string{data, l.s.Data} {
		for _, c := range []struct{ question, quote, place, not string }{
			{"How do I restore a backup?", "> To restore a backup, stop the server and run the restore script with the date.", "(backup.md:5)", "roof"},
			{"如何恢复备份？", "> 恢复备份时，先停止服务器，再运行恢复脚本。", "(备份.md:5)", "roof"},
		} {
			r := refold(t, "--data", at, "ask", "--dir", dir, c.question)
			if r.code != 0 || !strings.Contains(r.stdout, c.quote+"\n"+c.place) || strings.Contains(r.stdout, c.not) {
				t.Errorf("%s: exit %d\n%s\n%s", c.question, r.code, r.stdout, r.stderr)
			}
			if !strings.Contains(r.stderr, "On the record: run ") || strings.Contains(r.stdout, "On the record") {
				t.Errorf("the place on the record: %s", r.stderr)
			}
		}
	}
	var rows []struct{ Title string }
	l.do(t, "GET", "/api/v1/sessions", nil).data(t, 200, &rows)
	if len(rows) != 2 || rows[1].Title != "How do I restore a backup?" {
		t.Errorf("the server's sessions: %+v", rows)
	}
	// The question from standard input; JSON for programs.
	r := refoldIn(t, nil, strings.NewReader("How do I restore a backup?\n"), "--data", data, "--json", "ask", "--dir", dir, "-")
	lines := jsonLines(t, r.stdout)
	if r.code != 0 || lines[0]["response_type"] != "agent_query" || lines[len(lines)-1]["response_type"] != "complete" {
		t.Errorf("--json: exit %d\n%s", r.code, r.stdout)
	}
	session := lines[0]["session_id"].(string)
	if r := refold(t, "--data", data, "ask", "--session", session, "--dir", dir, "And when are backups made?"); r.code != 0 || !strings.Contains(r.stdout, "every night at two") {
		t.Errorf("the next turn: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := refold(t, "--data", data, "ask", "--session", "nope", "q"); r.code != 1 || !strings.Contains(r.stderr, "no such session") {
		t.Errorf("an unknown session: exit %d\n%s", r.code, r.stderr)
	}
}

// TestAskExitCodes: what a script learns from how ask ended.
func TestAskExitCodes(t *testing.T) {
	t.Parallel()
	empty := scripted.Say(scripted.Reasoning("..."))
	for _, c := range []struct {
		name  string
		steps []scripted.Step
		code  int
		part  string
	}{
		{"answered", []scripted.Step{say("Yes.")}, 0, "On the record"},
		{"refused", []scripted.Step{scripted.Fail(401, "bad key")}, 3, "The run failed: LLM call failed"},
		{"lying server", []scripted.Step{scripted.Respond(200, map[string]string{"Content-Type": "text/html"}, "<html><title>Router login</title></html>")}, 3, "The run failed: LLM call failed"},
		{"no real answer", []scripted.Step{empty, empty, empty}, 4, "(ended: empty: the model said nothing"},
	} {
		model := scripted.New(t, c.steps...)
		r := refold(t, "--data", filepath.Join(t.TempDir(), "data"), "ask", "--model-url", model.URL, "--model", "m", "q")
		if r.code != c.code || !strings.Contains(r.stderr, c.part) {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.name, r.code, c.code, r.stdout, r.stderr)
		}
		if c.code == 3 && r.stdout != "" {
			t.Errorf("%s: standard output has %q", c.name, r.stdout)
		}
	}
	// Nobody there: said in words that help, after the attempts.
	r := refold(t, "--data", filepath.Join(t.TempDir(), "data"), "ask", "--model-url", "http://127.0.0.1:9/v1", "q")
	if r.code != 3 || !strings.Contains(r.stderr, "cannot reach the model server at 127.0.0.1:9") {
		t.Errorf("no model server: exit %d\n%s", r.code, r.stderr)
	}
}

// TestInterrupt: Ctrl-C stops the run, keeps what there is, and exits 130, with
// a server and without.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, served := range []bool{false, true} {
		gate := make(chan struct{})
		l := newLab(t, nil, held(gate, []string{"One ", "two "}, []string{"three."}))
		data := l.s.Data
		if !served {
			if code := l.p.term(t); code != 0 {
				t.Errorf("exit %d", code)
			}
		}
		r := begin(t, "--data", data, "ask", "--json", "--model-url", l.model.URL, "--model", "m", "q")
		r.reads(t, `"content":"two "`)
		if rest, code := r.interrupt(t); code != 130 || !strings.Contains(rest, `"response_type":"stop"`) || strings.Contains(rest, "three") {
			t.Errorf("served %v: exit %d, %q\n%s", served, code, rest, r.stderr)
		}
		close(gate)
		if !served {
			l.up(t)
		}
		var rows []struct {
			Status  string
			Session string
			ID      string
		}
		l.do(t, "GET", "/api/v1/runs", nil).data(t, 200, &rows)
		if len(rows) != 1 || rows[0].Status != "stopped" {
			t.Fatalf("served %v: runs %+v", served, rows)
		}
		if m := l.message(t, rows[0].Session, rows[0].ID); m.Content != "One two " || m.EndReason != "user" {
			t.Errorf("served %v: stored %+v", served, m)
		}
	}
}

// TestAskPrintsTheAnswerOnly: where standard output is no terminal it gets the
// answer that counts, and nothing that was shown before it.
func TestAskPrintsTheAnswerOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, scripted.Say(scripted.Text("I will look first. "), call("c1", "look", `{"at":"x"}`)),
		scripted.Stream(scripted.Data(`{"choices":[{"index":0,"delta":{"content":"Half an ans"}}]}`), scripted.Reset()), say("Final ", "answer."))
	r := refold(t, "--data", l.s.Data, "ask", "q")
	if r.code != 0 || r.stdout != "Final answer.\n" {
		t.Errorf("exit %d, standard output %q\n%s", r.code, r.stdout, r.stderr)
	}
}

// TestAskLeavesOthersAlone: a short-lived process moves its own run only, and a
// run whose server has died goes on when a server comes.
func TestAskLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, held(gate, []string{"One "}, nil), say("Mine."))
	id := l.session(t)
	orphan := l.chat(t, id, "orphan?")
	orphan.until(t, isAnswer("One "))
	l.p.kill(t)
	r := refold(t, "--data", l.s.Data, "ask", "--model-url", l.model.URL, "--model", "scripted", "mine?")
	if r.code != 0 || r.stdout != "Mine.\n" {
		t.Fatalf("exit %d, %q\n%s", r.code, r.stdout, r.stderr)
	}
	if n := len(l.model.Requests()); n != 2 {
		t.Errorf("the model was asked %d times; the orphan is not for this process", n)
	}
	l.model.Push(say("Orphan's answer."))
	l.up(t)
	if got := shown(l.watch(t, id, orphan.run(), "").rest(t), "answer"); got != "Orphan's answer." {
		t.Errorf("the orphan was answered with %q", got)
	}
}

// TestAskGoesOnWithoutItsServer: the server dies under a question; the command
// line takes its run over.
func TestAskGoesOnWithoutItsServer(t *testing.T) {
	t.Parallel()
	for _, tenant := range []string{"1", "2"} {
		gate := make(chan struct{})
		l := newLab(t, nil, held(gate, []string{"One "}, nil), say("Done."))
		l.newTenant(t, "Acme")
		r := begin(t, "--data", l.s.Data, "--tenant", tenant, "ask", "--json", "--model-url", l.model.URL, "--model", "scripted", "q")
		r.reads(t, `"content":"One "`)
		l.p.kill(t)
		rest, code := r.wait(t)
		if code != 0 || !strings.Contains(rest, `"content":"Done."`) || !strings.Contains(rest, `"reason":"recovered"`) {
			t.Errorf("tenant %s: exit %d\n%s\n%s", tenant, code, rest, r.stderr)
		}
		close(gate)
	}
}

// TestServerTakesTheRecord: a server can always be started again. A command line
// that has taken a run over gives the record up to it; one that began with the
// record is waited for; one that lacks the run's model does not take it.
func TestServerTakesTheRecord(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, l *lab) *running {
		t.Helper()
		return begin(t, "--data", l.s.Data, "--json", "serve", "--addr", "127.0.0.1:0", "--model-url", l.model.URL, "--model", "scripted")
	}
	ends := func(t *testing.T, server, ask *running, with string) {
		t.Helper()
		if rest, code := ask.wait(t); code != 0 || !strings.Contains(rest, with) {
			t.Errorf("exit %d\n%s\n%s", code, rest, ask.stderr)
		}
		server.reads(t, `"url":`)
		if _, code := server.interrupt(t); code != 0 {
			t.Errorf("the server: exit %d\n%s", code, server.stderr)
		}
	}
	t.Run("taken over", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		l := newLab(t, nil, held(gate, []string{"One "}, nil), held(gate, []string{"Again "}, nil), say("Done."))
		r := begin(t, "--data", l.s.Data, "ask", "--json", "--model-url", l.model.URL, "--model", "scripted", "q")
		r.reads(t, `"content":"One "`)
		l.p.kill(t)
		r.reads(t, `"content":"Again "`) // the command line moves the run
		ends(t, serve(t, l), r, `"content":"Done."`)
		close(gate)
	})
	t.Run("two of them", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		defer close(gate)
		l := newLab(t, nil, held(gate, []string{"One "}, nil), held(gate, []string{"Two "}, nil))
		var both []*running
		for _, word := range []string{"One", "Two"} {
			r := begin(t, "--data", l.s.Data, "ask", "--json", "--model-url", l.model.URL, "--model", "scripted", "q")
			r.reads(t, `"content":"`+word+` "`)
			both = append(both, r)
		}
		l.model.Always(say("Done."))
		l.p.kill(t)
		for _, r := range both { // one takes the record, and moves the run of the other, too
			if rest, code := r.wait(t); code != 0 || !strings.Contains(rest, `"content":"Done."`) {
				t.Errorf("exit %d\n%s\n%s", code, rest, r.stderr)
			}
		}
	})
	t.Run("begun with the record", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		l := newLab(t, nil, held(gate, []string{"One "}, []string{"two."}))
		if code := l.p.term(t); code != 0 {
			t.Errorf("exit %d", code)
		}
		r := begin(t, "--data", l.s.Data, "ask", "--json", "--model-url", l.model.URL, "--model", "mine", "q")
		r.reads(t, `"content":"One "`)
		server := serve(t, l)
		server.stderr.has(t, "waits for a command line")
		close(gate)
		ends(t, server, r, `"content":"two."`)
	})
	t.Run("without the model", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		defer close(gate)
		l := newLab(t, nil, held(gate, []string{"One "}, nil), say("Done."))
		r := begin(t, "--data", l.s.Data, "ask", "--json", "q")
		r.reads(t, `"content":"One "`)
		l.p.kill(t)
		r.stderr.has(t, `Waiting for the server that went away: its run needs the model "scripted"`)
		ends(t, serve(t, l), r, `"content":"Done."`)
	})
}

// TestOutputCannotBeWritten: an answer, or the only copy of a key, that does not
// get out is said, and never exit 0.
func TestOutputCannotBeWritten(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, say("Hello."))
	for _, args := range [][]string{{"ask", "q"}, {"ask", "--json", "q"}, {"keys", "create", "x", "--can", "chat"}, {"events"}, {"tenants"}, {"version"}, {"--json", "version"}} {
		l.model.Push(say("Hello."))
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(guarded(t), refoldBinary, append([]string{"--data", l.s.Data}, args...)...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = full, &said
		err = cmd.Run()
		full.Close()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 || strings.Count(said.String(), "standard output can't be written") != 1 || !strings.Contains(said.String(), "no space left") {
			t.Errorf("%v: %v\n%s", args, err, said.String())
		}
	}
}

// TestDeadServersAddress: a server that was killed leaves its address behind;
// whoever has that address now is not taken for it.
func TestDeadServersAddress(t *testing.T) {
	t.Parallel()
	dead := newLab(t, nil)
	dead.p.kill(t)
	other := newLab(t, func(s *settings) { s.Addr = dead.p.addr })
	r := refold(t, "--data", dead.s.Data, "ask", "--dir", docs(t), "How do I restore a backup?")
	if r.code != 0 || !strings.Contains(r.stdout, "restore script") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	var rows []any
	other.do(t, "GET", "/api/v1/sessions", nil).data(t, 200, &rows)
	if len(rows) != 0 {
		t.Errorf("the question went to another record: %v", rows)
	}
}
