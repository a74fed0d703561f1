package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"refold/domain/agent"
	"refold/domain/request"
	runs "refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
	"refold/infra/app"
	"refold/infra/openai"
	"refold/infra/postgres"
	"refold/tests/scripted"
)

const repository = "../.."

func readme(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// thousands writes a number as the README does.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// TestReadme_Numbers: the numbers in the README are those of the code, and
// stand in it as they are here.
func TestReadme_Numbers(t *testing.T) {
	t.Parallel()
	text := strings.Join(strings.Fields(readme(t)), " ")
	smart, ok := agent.Builtin(agent.SmartReasoning)
	if !ok {
		t.Fatal("no built-in agent")
	}
	quick, ok := agent.Builtin(agent.QuickAnswer)
	if !ok {
		t.Fatal("no built-in agent for quick answers")
	}
	asked, err := os.ReadFile(filepath.Join(repository, "tests/eval/retrieval/questions.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	seconds := func(d time.Duration) string { return fmt.Sprint(int(d.Seconds()), " s") }
	for want, sentence := range map[string]string{
		"Question 100,000 characters":                  "Question " + thousands(runs.MaxQuery) + " characters",
		"64 tool calls of a reply":                     fmt.Sprint(runs.MaxCalls) + " tool calls of a reply",
		"arguments of a call 1 MiB":                    fmt.Sprintf("arguments of a call %d MiB", runs.MaxArguments>>20),
		"of a result 16,000 characters":                "of a result " + thousands(tool.DefaultOutput) + " characters",
		"50 rounds of the built-in agent, 100 at most": fmt.Sprintf("%d rounds of the built-in agent, %d at most", smart.MaxRounds, runs.HardMaxRounds),
		"120 s a model call, 60 s a tool call, 600 s an approval": fmt.Sprintf("%s a model call, %s a tool call, %s an approval",
			seconds(runs.DefaultModelTimeout), seconds(tool.DefaultTimeout), seconds(runs.DefaultApprovalTimeout)),
		"200,000 unless told":                                  thousands(runs.DefaultContextTokens) + " unless told",
		"after three failures":                                 map[int]string{3: "after three failures"}[runs.MaxMemoryTries],
		"listens on 127.0.0.1:8080":                            "listens on " + app.DefaultAddr,
		"at least 16 characters":                               fmt.Sprintf("at least %d characters", app.MinKey),
		"may ask 100 times a second":                           fmt.Sprintf("may ask %d times a second", app.DefaultRate),
		"send 20 messages a second":                            fmt.Sprintf("send %d messages a second", app.DefaultChatRate),
		"1 to 255 printable characters":                        fmt.Sprintf("1 to %d printable characters", request.MaxKey),
		"at most 256 KiB":                                      fmt.Sprintf("at most %d KiB", tool.MaxStoredData>>10),
		"measures it with 50 questions":                        fmt.Sprintf("measures it with %d questions", strings.Count(string(asked), "\n")),
		"a cosine of 0.9":                                      fmt.Sprintf("a cosine of %v", quick.Retrieval.FAQDirect),
		"stand for 24 hours":                                   fmt.Sprintf("stand for %d hours", int(request.Retention.Hours())),
		"when one is gone for 20 s":                            "when one is gone for " + seconds(postgres.GoneAfter),
		"a pause that a provider asks for is kept, up to 60 s": "a pause that a provider asks for is kept, up to " + seconds(runs.MaxRetryAfter),
	} {
		if sentence != want {
			t.Errorf("the code says %q, this test %q", sentence, want)
		}
		if !strings.Contains(text, want) {
			t.Errorf("the README does not say %q", want)
		}
	}
	if runs.MaxQuery != session.MaxQuery || openai.DefaultCallTimeout != runs.DefaultModelTimeout {
		t.Error("two limits of one thing differ")
	}
}

// TestBodies: the largest bodies that are taken, and the smallest that are not.
func TestBodies(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("Yes."))
	padded := func(field string, size int) string {
		body := `{"` + field + `":"t","pad":"`
		return body + strings.Repeat("p", size-len(body)-2) + `"}`
	}
	id := l.session(t)
	for _, c := range []struct {
		path, field string
		limit       int
		status      int
	}{{"/api/v1/sessions", "title", 1 << 20, 201}, {"/api/v1/agent-chat/" + id, "query", 4 << 20, 200}} {
		if a := l.do(t, "POST", c.path, padded(c.field, c.limit)); a.status != c.status {
			t.Errorf("%s with %d bytes: HTTP %d %.200s", c.path, c.limit, a.status, a.body)
		}
		if a := l.do(t, "POST", c.path, padded(c.field, c.limit+1)); a.status != 413 {
			t.Errorf("%s with %d bytes: HTTP %d %.200s", c.path, c.limit+1, a.status, a.body)
		}
	}
}

var (
	goFile     = regexp.MustCompile("`((?:domain|commands|projections|handlers|api|infra|tests)/[a-z_/]+\\.go)`")
	makeTarget = regexp.MustCompile(`\bmake ([a-z][a-z-]*)\b`)
	variable   = regexp.MustCompile(`\b(?:REFOLD|OPENAI)_[A-Z_]+\b`)
)

// TestReadme_NamesWhatIsThere: files, targets of make and variables.
func TestReadme_NamesWhatIsThere(t *testing.T) {
	t.Parallel()
	text := readme(t)
	files := goFile.FindAllStringSubmatch(text, -1)
	if len(files) < 15 {
		t.Errorf("%d files are named", len(files))
	}
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(repository, f[1])); err != nil {
			t.Errorf("%s: %v", f[1], err)
		}
	}
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
		if m[1] != "a" && !strings.Contains(string(makefile), "\n"+m[1]+":") {
			t.Errorf("make %s is no target", m[1])
		}
	}
	help := refold(t, "serve", "--help").stdout + refold(t, "ask", "--help").stdout
	for _, name := range variable.FindAllString(text, -1) {
		if !strings.Contains(help, "$"+name) {
			t.Errorf("%s is in no --help", name)
		}
	}
	if _, err := exec.LookPath("make"); err != nil {
		t.Log("there is no make on this machine: make help is not run")
		return
	}
	list, err := exec.CommandContext(guarded(t), "make", "-C", repository, "help").CombinedOutput()
	if err != nil {
		t.Fatalf("make help: %v\n%s", err, list)
	}
	for _, name := range []string{"run", "test", "build", "bench", "fuzz", "lint", "schemathesis"} {
		if !strings.Contains(string(list), "make "+name) {
			t.Errorf("make help does not list %s:\n%s", name, list)
		}
	}
}

// TestReadme_FirstQuestion: the first command of the README answers from this
// repository, offline, with quotes and their places.
func TestReadme_FirstQuestion(t *testing.T) {
	t.Parallel()
	r := refold(t, "--data", filepath.Join(t.TempDir(), "data"), "ask", "--dir", repository, "How does a run survive a crash?")
	if r.code != 0 || !regexp.MustCompile(`(?m)^> .+\n\(\S+:\d+\)$`).MatchString(r.stdout) || !strings.Contains(strings.ToLower(r.stdout), "crash") {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	nothing := refold(t, "--data", filepath.Join(t.TempDir(), "data"), "ask", "--dir", docs(t), "Who won the regatta at Henley?")
	if nothing.code != 0 || strings.Contains(nothing.stdout, "\n> ") {
		t.Errorf("nothing found: exit %d\n%s%s", nothing.code, nothing.stdout, nothing.stderr)
	}
}

// TestReadme_ConfigurationFile: the examples are ones.
func TestReadme_ConfigurationFile(t *testing.T) {
	t.Parallel()
	for begin, fits := range map[string]func(app.Config) bool{
		`{"addr"`: func(c app.Config) bool {
			return c.Addr == "127.0.0.1:8080" && len(c.Models) == 2 && c.Default == "fast" && c.Models[1].APIKeyEnv == "DEEP_KEY" && len(c.Roots) == 1 && c.Data != ""
		},
		`{"embeddings"`: func(c app.Config) bool {
			return len(c.Embeddings) == 1 && len(c.Rerankers) == 1 && len(c.WebSearch) == 2 && c.WebSearch[0].Provider == "searxng" && c.WebSearch[1].APIKeyEnv == "TAVILY_KEY" && len(c.AllowNet) == 1
		},
	} {
		_, rest, _ := strings.Cut(readme(t), "\n    "+begin)
		text, _, _ := strings.Cut(begin+rest, "\n\n")
		text = strings.Replace(text, "/srv/docs", t.TempDir(), 1) // a folder must be there
		path := filepath.Join(t.TempDir(), "refold.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var c app.Config
		if err := c.ReadFile(path); err != nil || !fits(c) {
			t.Errorf("%v\n%s\n%+v", err, text, c)
		}
		// A process starts with it.
		r := refoldIn(t, []string{"TAVILY_KEY=k", "DEEP_KEY=k"}, nil, "--config", path, "--data", filepath.Join(t.TempDir(), "data"), "kb", "list")
		if r.code != 0 {
			t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
}

// TestConfiguration_WhatWins: flags over the environment over the file; the names
// that other tools use are understood, and ours win over them.
func TestConfiguration_WhatWins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model := func(answer string) *scripted.Server {
		s := scripted.New(t)
		s.Always(say(answer))
		return s
	}
	file, other, ours, flag := model("file"), model("other"), model("ours"), model("flag")
	config := filepath.Join(dir, "refold.json")
	raw, err := json.Marshal(map[string]any{"data": filepath.Join(dir, "from-file"), "models": []map[string]any{
		{"name": "a", "base_url": file.URL, "model": "m", "api_key": "file-key"}, {"name": "b", "base_url": file.URL, "model": "second", "context_tokens": 2048}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	understood := []string{"OPENAI_BASE_URL=" + other.URL, "OPENAI_API_KEY=other-key", "OPENAI_MODEL=other-model"}
	named := append(understood[:3:3], "REFOLD_MODEL_URL="+ours.URL, "REFOLD_MODEL_KEY=our-key", "REFOLD_MODEL=our-model")
	for _, c := range []struct {
		answer, key, model string
		env, args          []string
		at                 *scripted.Server
	}{
		{"file", "file-key", "m", nil, nil, file},
		{"file", "", "second", nil, []string{"--model", "b"}, file},
		{"file", "", "second", []string{"REFOLD_MODEL=b"}, nil, file},
		{"other", "other-key", "other-model", understood, nil, other},
		{"ours", "our-key", "our-model", named, nil, ours},
		{"flag", "flag-key", "flag-model", named, []string{"--model-url", flag.URL, "--model-key", "flag-key", "--model", "flag-model"}, flag},
	} {
		r := refoldIn(t, c.env, nil, append([]string{"--config", config, "ask"}, append(c.args, "q")...)...)
		reqs := c.at.Requests()
		if r.code != 0 || r.stdout != c.answer+"\n" || len(reqs) == 0 {
			t.Errorf("%v %v: exit %d\n%s%s", c.env, c.args, r.code, r.stdout, r.stderr)
			continue
		}
		last := reqs[len(reqs)-1]
		if got := last.Header.Get("Authorization"); c.key != "" && got != "Bearer "+c.key || last.Model != c.model {
			t.Errorf("%v %v: key %q, model %q", c.env, c.args, got, last.Model)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "from-file", "refold.db")); err != nil {
		t.Errorf("the data directory of the file: %v", err)
	}
	// Data and address; the window of a model.
	long := strings.Repeat("word ", 4000)
	for name, c := range map[string]struct{ env, args []string }{
		"the file's":        {nil, []string{"--model", "b"}},
		"the environment's": {[]string{"REFOLD_CONTEXT_TOKENS=3000"}, nil},
		"the flag's":        {[]string{"REFOLD_CONTEXT_TOKENS=100000"}, []string{"--context-tokens", "3000"}},
	} {
		if r := refoldIn(t, c.env, nil, append([]string{"--config", config, "ask"}, append(c.args, long)...)...); r.code != 3 || !strings.Contains(r.stderr, "window") {
			t.Errorf("%s window: exit %d\n%s", name, r.code, r.stderr)
		}
	}
	for _, c := range []struct {
		env, args []string
		data      string
	}{
		{[]string{"REFOLD_DATA=" + filepath.Join(dir, "env"), "REFOLD_ADDR=127.0.0.1:0"}, nil, "env"},
		{[]string{"REFOLD_DATA=" + filepath.Join(dir, "env"), "REFOLD_ADDR=nonsense"}, []string{"--data", filepath.Join(dir, "flag"), "--addr", "127.0.0.1:0"}, "flag"},
	} {
		p := served(t, c.env, append([]string{"--config", config, "serve"}, c.args...)...)
		if filepath.Base(p.hello["data"].(string)) != c.data {
			t.Errorf("%v %v: %v", c.env, c.args, p.hello)
		}
		p.interrupt(t)
	}
	// The key of the server.
	raw, err = json.Marshal(map[string]string{"api_key": "the-key-of-the-file"})
	if err == nil {
		err = os.WriteFile(config, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	named = []string{"REFOLD_API_KEY=the-key-of-the-environment"}
	for _, c := range []struct {
		key       string
		env, args []string
	}{{"the-key-of-the-file", nil, nil}, {"the-key-of-the-environment", named, nil}, {"the-key-of-the-flag", named, []string{"--api-key", "the-key-of-the-flag"}}} {
		p := served(t, c.env, append([]string{"--config", config, "--data", filepath.Join(dir, "keyed"), "serve", "--addr", "127.0.0.1:0"}, c.args...)...)
		for _, key := range []string{"the-key-of-the-file", "the-key-of-the-environment", "the-key-of-the-flag"} {
			want := map[bool]int{true: 200, false: 401}[key == c.key]
			if a := (client{base: p.hello["url"].(string)}).with("X-API-Key", key).do(t, "GET", "/api/v1/sessions", nil); a.status != want {
				t.Errorf("%v %v: %s is HTTP %d", c.env, c.args, key, a.status)
			}
		}
		p.interrupt(t)
	}
}

// product is the product's own server, started by its command line.
type product struct {
	*running
	hello map[string]any
}

func served(t testing.TB, env []string, args ...string) *product {
	t.Helper()
	p := &product{running: &running{cmd: exec.CommandContext(guarded(t), refoldBinary, append([]string{"--json"}, args...)...), stderr: &lockedBuffer{}}}
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.cmd.Stderr = bufio.NewReader(out), p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, p.stderr)
	}
	p.hello = decode(t, line)
	return p
}

// TestLogLevel: a line of JSON for each request, and none with --log-level warn.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	for level, lines := range map[string]int{"info": 1, "warn": 0} {
		p := served(t, nil, "--data", filepath.Join(t.TempDir(), "data"), "serve", "--addr", "127.0.0.1:0", "--log-level", level)
		c := client{base: p.hello["url"].(string)}
		const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
		if a := c.with("traceparent", "00-"+trace+"-00f067aa0ba902b7-01").with("X-Request-ID", "r-1").do(t, "GET", "/api/v1/sessions", nil); a.status != 200 {
			t.Fatalf("HTTP %d", a.status)
		}
		p.interrupt(t)
		found := 0
		for _, line := range strings.Split(strings.TrimSpace(p.stderr.String()), "\n") {
			if line == "" {
				continue
			}
			if v := decode(t, line); v["msg"] == "answered" {
				found++
				if v["trace"] != trace || v["request"] != "r-1" || v["tenant"] != "1" {
					t.Errorf("%s", line)
				}
			}
		}
		if found != lines {
			t.Errorf("%s: %d lines of requests:\n%s", level, found, p.stderr)
		}
	}
}

// TestTrace: the trace of a request is in every event that it leads to.
func TestTrace(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil, scripted.Say(call("c1", "look", `{"at":"x"}`)), say("Done."))
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	id := l.session(t)
	r := l.with("traceparent", "00-"+trace+"-00f067aa0ba902b7-01").chat(t, id, "q")
	r.rest(t)
	events := jsonLines(t, refold(t, "--data", l.s.Data, "events", "--run", r.run(), "--category", "run").stdout)
	for _, e := range append(events, jsonLines(t, refold(t, "--data", l.s.Data, "events", "--run", id).stdout)[1]) {
		if got := e["meta"].(map[string]any)["trace"]; got != trace {
			t.Errorf("%s has the trace %v", e["type"], got)
		}
	}
	if len(events) != 9 {
		t.Errorf("%d events", len(events))
	}
	// The line of the request names what it was about.
	l.p.term(t)
	for line := range strings.Lines(l.p.log.String()) {
		var v struct{ Msg, Run, Session, Trace, Tenant, Request string }
		if json.Unmarshal([]byte(line), &v) == nil && v.Msg == "answered" && v.Run == r.run() {
			if v.Session != id || v.Trace != trace || v.Tenant != "1" || v.Request == "" {
				t.Errorf("%s", line)
			}
			return
		}
	}
	t.Errorf("no line has the run:\n%s", l.p.log)
}

// TestReadme_Curl: its examples, sent as curl sends them: as a form.
func TestReadme_Curl(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("Yes."))
	post := func(path, body, key string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(guarded(t), "POST", l.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(raw)
	}
	res, body := post("/api/v1/sessions", `{"title":"Hello"}`, "")
	if res.StatusCode != 201 {
		t.Fatalf("HTTP %d %s", res.StatusCode, body)
	}
	id := decode(t, body)["data"].(map[string]any)["id"].(string)
	_, first := post("/api/v1/agent-chat/"+id, `{"query":"What is new?"}`, "order-7")
	again, second := post("/api/v1/agent-chat/"+id, `{"query":"What is new?"}`, "order-7")
	if again.Header.Get("Idempotency-Replayed") != "true" || !strings.Contains(first, `"content":"Yes."`) || !strings.Contains(second, `"content":"Yes."`) || len(l.messages(t, id)) != 2 {
		t.Errorf("the first answer:\n%s\nagain:\n%s", first, second)
	}
}

// TestStopWithAQueue: a stop ends the run in progress; what is queued goes on.
func TestStopWithAQueue(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, held(gate, []string{"One "}, nil), say("Second."))
	id := l.session(t)
	first := l.chat(t, id, "first?")
	first.until(t, isAnswer("One "))
	queued := l.chatWith(t, id, ask("second?", "enqueue"))
	l.do(t, "POST", "/api/v1/sessions/"+id+"/stop", map[string]any{"message_id": first.run()}).same(t, 200, `{"success":true,"message":"Generation stopped"}`)
	if got := shown(queued.rest(t), "answer"); got != "Second." {
		t.Errorf("the queued message was answered with %q", got)
	}
	if m := l.message(t, id, first.run()); m.Outcome != "stopped" {
		t.Errorf("%+v", m)
	}
}

// TestAskExitCodes_Partial: 4 is an answer that is not quite one.
func TestAskExitCodes_Partial(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil,
		scripted.Say(scripted.Text("Half an ans"), scripted.Finish("length")),
		scripted.Say(call("c1", "look", `{"at":"x"}`)), scripted.Fail(401, "no"), say("About noon."))
	for _, c := range []struct{ stdout, part string }{{"Half an ans\n", "(ended: length: the model reached"}, {"About noon.\n", "(ended: model_failed: the model failed"}} {
		if r := refold(t, "--data", l.s.Data, "ask", "q"); r.code != 4 || r.stdout != c.stdout || !strings.Contains(r.stderr, c.part) {
			t.Errorf("exit %d, %q\n%s", r.code, r.stdout, r.stderr)
		}
	}
	gate := make(chan struct{})
	defer close(gate)
	l.model.Push(held(gate, []string{"One "}, nil))
	r := begin(t, "--data", l.s.Data, "ask", "--json", "q")
	r.reads(t, `"content":"One "`)
	var rows []struct{ ID, Session string }
	l.do(t, "GET", "/api/v1/runs?status=running", nil).data(t, 200, &rows)
	if len(rows) != 1 {
		t.Fatalf("%+v", rows)
	}
	l.do(t, "POST", "/api/v1/sessions/"+rows[0].Session+"/stop", map[string]any{"message_id": rows[0].ID})
	if rest, code := r.wait(t); code != 4 || !strings.Contains(rest, `"response_type":"stop"`) {
		t.Errorf("stopped by somebody else: exit %d\n%s", code, rest)
	}
}

// TestModels_StandIn: a model's other endpoint answers when the first refuses; when
// both do, the run moves on to the model that fallback_models names, on the record.
func TestModels_StandIn(t *testing.T) {
	t.Parallel()
	first, second, deep := scripted.New(t), scripted.New(t), scripted.New(t)
	first.Always(scripted.Fail(401, "no"))
	second.Push(say("The second."))
	second.Push(scripted.Fail(401, "no"))
	deep.Push(say("Deep."))
	config, data := filepath.Join(t.TempDir(), "refold.json"), filepath.Join(t.TempDir(), "data")
	raw, err := json.Marshal(map[string]any{"fallback_models": []string{"deep"}, "models": []any{
		map[string]any{"name": "fast", "base_url": first.URL, "model": "m", "endpoints": []any{map[string]any{"base_url": second.URL}}}, map[string]any{"name": "deep", "base_url": deep.URL, "model": "large"}}})
	if err == nil {
		err = os.WriteFile(config, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for n, answer := range []string{"The second.\n", "Deep.\n"} {
		if r := refold(t, "--config", config, "--data", data, "ask", "q"); r.code != 0 || r.stdout != answer {
			t.Errorf("question %d: exit %d, %q\n%s", n, r.code, r.stdout, r.stderr)
		}
		moves := strings.Count(refold(t, "--data", data, "events", "--category", "run").stdout, `"type":"ModelSwitched"`)
		if moves != n {
			t.Errorf("after question %d the record has %d moves", n, moves)
		}
	}
}
