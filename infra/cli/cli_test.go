package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"refold/domain/event"
	"refold/domain/session"
	"refold/infra/app"
)

func TestPlainText_NothingSteersTheTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\n中文 é":          "a\tb\n中文 é",
		"\x1b[31mred\x07":     "·[31mred·",
		"rm \u202e fr-\u202c": "rm · fr-·",
		"\u2066a\u2069\u202a": "·a··",
		"\u009b2J\x7f":        "·2J·",
		"right‑to‑left שלום":  "right‑to‑left שלום",
		"joined 👩‍👩‍👧":        "joined 👩‍👩‍👧",
	} {
		if got := plainText(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for r := rune(0x2020); r < 0x2070; r++ {
		bidi := r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		if steers(r) != bidi {
			t.Errorf("%U", r)
		}
	}
}

func TestEscapeControls_SameValue(t *testing.T) {
	in := map[string]string{"a": "x\u202ey\u009b\x7f中\u2066"}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	got := escapeControls(raw)
	var out map[string]string
	if err := json.Unmarshal(got, &out); err != nil || out["a"] != in["a"] {
		t.Fatalf("%s: %v", got, err)
	}
	if strings.ContainsFunc(string(got), steers) || !strings.Contains(string(got), `\u202ey`) {
		t.Fatalf("%q", got)
	}
}

func TestReachable(t *testing.T) {
	for addr, want := range map[string]string{"127.0.0.1:8080": "http://127.0.0.1:8080", "0.0.0.0:1": "http://127.0.0.1:1", "[::]:2": "http://127.0.0.1:2",
		"[::1]:3": "http://[::1]:3", "10.0.0.5:4": "http://10.0.0.5:4"} {
		here, elsewhere := reachable(addr)
		if here != want || (elsewhere != "") != (strings.HasPrefix(addr, "0.0.0.0") || strings.HasPrefix(addr, "[::]:")) {
			t.Errorf("%s: %q, %q", addr, here, elsewhere)
		}
	}
}

func TestSpoken_RoutesAreCommands(t *testing.T) {
	for in, want := range map[string]string{
		session.ErrNotFound.Message:                                      "there is no such session; leave --session out to begin one",
		"there is no such API key; see GET /api/v1/tenants/:id/api-keys": "there is no such API key; see: refold keys",
		"no such thing; see GET /api/v1/things":                          "no such thing",
		"wait; then try again":                                           "wait; then try again",
	} {
		if got := spoken(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// TestRebuild_GoesOnAfterABrokenModel: one event that this version can't read
// breaks the read models that fold it. All of them are named, and the others
// are rebuilt.
func TestRebuild_GoesOnAfterABrokenModel(t *testing.T) {
	data := t.TempDir()
	db, err := app.OpenDatabase(t.Context(), app.Config{Data: data}, false)
	if err != nil {
		t.Fatal(err)
	}
	stream := event.Stream{Tenant: "1", Category: session.Category, ID: "s1"}
	if _, err := db.Events().Append(t.Context(), stream, event.NoStream(), event.New{ID: "e1", Type: "SessionArchived", Schema: 1, Time: time.Unix(1700000000, 0).UTC(), Data: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	code := Main(context.Background(), func() {}, []string{"--data", filepath.Clean(data), "rebuild"}, strings.NewReader(""), &out, &errOut)
	said := errOut.String()
	for _, name := range []string{"sessions", "history", "runs"} {
		if !strings.Contains(said, name+": ") || strings.Contains(out.String(), name+" ") {
			t.Errorf("%s is broken, and is not named:\n%s%s", name, out.String(), said)
		}
	}
	if code != ExitError || !strings.Contains(said, "read models could not be rebuilt (") || !strings.Contains(out.String(), "tenants ") || !strings.Contains(out.String(), "keys ") {
		t.Errorf("exit %d\n%s%s", code, out.String(), said)
	}
}

// Where the record is is said, and not who may open it.
func TestRecordOf(t *testing.T) {
	for store, want := range map[string]string{"": "/data", "postgres://u:secret@db:5433/refold?sslmode=disable": "the database db:5433/refold",
		"postgres:///refold?user=u&password=secret": "the database that --store names", "postgres://u:secret@:bad/": "the database that --store names"} {
		if got := recordOf(app.Config{Data: "/data", Store: store}); got != want {
			t.Errorf("%q: %q, want %q", store, got, want)
		}
	}
}

// A process of its own has no server, and no log that it could name.
func TestInternalErrorWithoutAServer(t *testing.T) {
	raw := []byte(`{"error":{"code":1007,"message":"internal error; the server's log has it under request r1"}}`)
	for own, want := range map[bool]string{false: "internal error; the server's log has it under request r1",
		true: "internal error; do the same again beside refold serve: its log says why"} {
		if got := (&client{own: own}).refused(500, raw); got.Error() != want {
			t.Errorf("%v: %v", own, got)
		}
	}
}
