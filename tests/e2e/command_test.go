package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"refold/tests/scripted"
)

// TestAskRemembersTheFolder: who goes on with a session goes on with its folder.
func TestAskRemembersTheFolder(t *testing.T) {
	t.Parallel()
	dir, data := docs(t), filepath.Join(t.TempDir(), "data")
	first := jsonLines(t, refold(t, "--data", data, "--json", "ask", "--dir", dir, "How do I restore a backup?").stdout)
	session := first[0]["session_id"].(string)
	on := func() result {
		t.Helper()
		return refold(t, "--data", data, "ask", "--session", session, "And when are backups made?")
	}
	if r := on(); r.code != 0 || !strings.Contains(r.stdout, "every night at two") {
		t.Errorf("without a server: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	p := start(t, settings{Data: data})
	if r := on(); r.code != 0 || !strings.Contains(r.stdout, "every night at two") {
		t.Errorf("beside a server: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	p.kill(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if r := on(); strings.Contains(r.stdout, "every night") || !strings.Contains(r.stderr, "Note: the folder of this session, "+dir+", is not there any more") {
		t.Errorf("without the folder: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// TestErrorsOfTheCommandLine: they speak of commands, not of routes; of a wrong
// configuration as of a wrong flag; and in JSON where that was asked for.
func TestErrorsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	for _, c := range []struct{ args, part string }{
		{"ask --agent nobody q", "leave --agent out"}, {"--tenant 7 ask q", "see: refold tenants"}, {"--tenant 7 keys", "see: refold tenants"},
		{"keys revoke 99", "see: refold keys"}, {"ask --session nope q", "no such session"}, {"approvals approve nope", "no such approval"},
	} {
		r := refold(t, append([]string{"--data", data}, strings.Fields(c.args)...)...)
		if r.code != 1 || !strings.Contains(r.stderr, c.part) || strings.Contains(r.stderr, "/api/") {
			t.Errorf("%s: exit %d\n%s", c.args, r.code, r.stderr)
		}
	}
	file := func(text string) string {
		path := filepath.Join(dir, "config.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for text, part := range map[string]string{
		`{"adr":"x"}`: "unknown field", `{`: "ends too early, in line 1", "": "ends too early", `[]`: "the file must be an object", "\ufeff{\n\"addr\": 7}": `line 2: "addr" must be a text, not number`,
		`{"models":{}}`: `"models" must be a list`, "{\n,}": "line 2", `{} {}`: "something follows", `{"default_model":"x"}`: "is not configured", `{"fallback_models":["x"]}`: "is not configured",
		`{"addr":"0.0.0.0:0"}`: "refusing to listen", `{"api_key":"short"}`: "at least 16 characters", `{"roots":["/no/such/folder"]}`: "no folder",
		`{"chat_rate":"fast"}`: "20/s", `{"store":"mysql://x"}`: "postgres://", `{"models":[{"name":"a","base_url":"nowhere"}]}`: "http",
		`{"models":[{"name":"a","api_key_env":"REFOLD_E2E_NOT_SET"}]}`: "REFOLD_E2E_NOT_SET", `{"models":[{"name":"a"},{"name":"a"}]}`: "two models", `{"models":[{"name":"a","context_tokens":5}]}`: "too small",
	} {
		r := refold(t, "--data", data, "--config", file(text), "serve")
		if r.code != 2 || !strings.Contains(r.stderr, part) || r.stdout != "" {
			t.Errorf("%s: exit %d\n%s%s", text, r.code, r.stdout, r.stderr)
		}
	}
	for _, args := range [][]string{{"--json", "--nope"}, {"ask", "--json", "--nope", "q"}, {"--json", "nope"}, {"--json", "ask"}, {"--json", "ask", "--temperature", "3", "q"}, {"--json", "--config", file("{"), "serve"}} {
		r := refold(t, append([]string{"--data", data}, args...)...)
		if r.code != 2 || r.stderr != "" || decode(t, r.stdout)["error"] == "" {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	for args, part := range map[string]string{"events --after 3": `--after "3" is no position`, "events --limit=-1": "--limit", "ask --nope q": "Try: refold ask --help", "nope": "Try: refold --help"} {
		if r := refold(t, append([]string{"--data", data}, strings.Fields(args)...)...); r.code != 2 || !strings.Contains(r.stderr, part) || r.stdout != "" {
			t.Errorf("%s: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	for _, c := range []struct{ data, args, part string }{{data, "events --run nope", `nothing of a run "nope"`}, {filepath.Join(dir, "nothing"), "events", "there is no record"}, {filepath.Join(dir, "nothing"), "replay x", "there is no record"}} {
		if r := refold(t, append([]string{"--data", c.data}, strings.Fields(c.args)...)...); r.code != 1 || !strings.Contains(r.stderr, c.part) || r.stdout != "" {
			t.Errorf("%s: exit %d\n%s%s", c.args, r.code, r.stdout, r.stderr)
		}
	}
	if help, same := refold(t, "help", "ask"), refold(t, "ask", "--help"); help.code != 0 || help.stdout != same.stdout {
		t.Errorf("refold help ask: exit %d\n%s%s", help.code, help.stdout, help.stderr)
	}
	if r := refold(t, "--data", data, "ask", "--nope", "--", "--json"); r.code != 2 || !strings.HasPrefix(r.stderr, "refold: ") || r.stdout != "" {
		t.Errorf("a question that is --json: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, args := range [][]string{{"--version"}, {"--version", "ask"}} {
		if r := refold(t, args...); r.code != 0 || !strings.HasPrefix(r.stdout, "refold dev") || strings.Count(r.stdout, "\n") != 1 {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	if r := refold(t, "serve", "--help"); !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), "at least 16 characters") {
		t.Errorf("serve --help:\n%s", r.stdout)
	}
	r := refold(t, "--data", data, "ask", "--model-url", "http://127.0.0.1:9/v1", "--model", "m", "q")
	if r.code != 3 || !strings.Contains(r.stderr, "--model-url") || !strings.Contains(r.stderr, "REFOLD_MODEL_URL") {
		t.Errorf("nobody there: exit %d\n%s", r.code, r.stderr)
	}
}

// TestServeSaysHowToReachIt: the URL is one that works, also where all addresses
// are listened to, and the example has the place of the key, not the key.
func TestServeSaysHowToReachIt(t *testing.T) {
	t.Parallel()
	const key = "a-key-of-sixteen-or-more"
	for _, c := range []struct {
		args   []string
		curl   string
		others bool
	}{
		{[]string{"serve", "--addr", "127.0.0.1:0"}, "curl http://127.0.0.1:PORT/api/v1/sessions", false},
		{[]string{"serve", "--addr", "0.0.0.0:0", "--api-key", key}, `curl -H "X-API-Key: $REFOLD_API_KEY" http://127.0.0.1:PORT/api/v1/sessions`, true},
	} {
		p := begin(t, append([]string{"--data", filepath.Join(t.TempDir(), "data")}, c.args...)...)
		line, err := p.out.ReadString('\n')
		if err != nil {
			t.Fatal(err, p.stderr)
		}
		_, url, _ := strings.Cut(strings.TrimSpace(line), "serves on ")
		_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		p.reads(t, "Try next")
		p.reads(t, strings.ReplaceAll(c.curl, "PORT", port)+"\n")
		if a := (client{base: url}).do(t, "GET", "/healthz", nil); a.status != 200 {
			t.Errorf("%s: HTTP %d", url, a.status)
		}
		if rest, code := p.interrupt(t); code != 0 || strings.Contains(rest+line, key) {
			t.Errorf("exit %d\n%s%s", code, rest, p.stderr)
		}
	}
}

// TestSecondAskHasNoFolderOfAnother: the folder is the session's own.
func TestSecondAskHasNoFolderOfAnother(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.model.Always(say("Yes."))
	dir := docs(t)
	first := jsonLines(t, refold(t, "--data", l.s.Data, "--json", "ask", "--dir", dir, "q").stdout)[0]["session_id"].(string)
	second := jsonLines(t, refold(t, "--data", l.s.Data, "--json", "ask", "q").stdout)[0]["session_id"].(string)
	for _, session := range []string{first, second} {
		refold(t, "--data", l.s.Data, "ask", "--session", session, "q")
	}
	offered := func(r scripted.Request) bool {
		for _, d := range r.Tools {
			if d.Function.Name == "read_file" {
				return true
			}
		}
		return false
	}
	for i, want := range []bool{true, false, true, false} {
		if got := offered(l.model.Requests()[i]); got != want {
			t.Errorf("request %d: files offered: %v", i, got)
		}
	}
}
