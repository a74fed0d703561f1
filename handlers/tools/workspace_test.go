package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"refold/domain/tool"
)

// tree makes a workspace of path -> content; a content "-> x" makes a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "work")
	for name, content := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, full)
		} else {
			err = os.WriteFile(full, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func in(t *testing.T, dir string, x tool.Tool, args string) tool.Result {
	t.Helper()
	got, err := x.Run(context.Background(), tool.Call{Workspace: dir, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return got
}

func sample(t *testing.T) string {
	return tree(t, map[string]string{
		"a.txt":              "\xef\xbb\xbfAlpha one\r\nbeta two\r\n\r\nALPHA three",
		"docs/real.md":       "# Real\nalpha in docs\n",
		"docs/deep/note.md":  "nothing\n",
		"src/main.go":        "package main\n\nfunc main() {\n\tprintln(\"alpha\")\n}\n",
		"bin.dat":            "alpha\x00\x01",
		"bad.txt":            "alpha \xff\xfe end\n",
		"empty.txt":          "",
		".git/config":        "alpha",
		".env":               "alpha",
		"node_modules/m.js":  "alpha",
		"ok.md":              "-> docs/real.md",
		"ref.md":             "-> /etc/hostname",
		"data":               "-> ..",
		"loop":               "-> .",
		"dangling":           "-> nowhere",
		"data2/up":           "-> ../../outside.txt",
		"with\nnewline.text": "alpha\n",
	})
}

func TestListFiles(t *testing.T) {
	dir := sample(t)
	for args, want := range map[string]string{
		`{}`:                                  "a.txt\t37\nbad.txt\t13\nbin.dat\t7\ndocs/deep/note.md\t8\ndocs/real.md\t21\nempty.txt\t0\nok.md\t21\nsrc/main.go\t48\nwith\uFFFDnewline.text\t6\n[9 files]",
		`{"recursive":false,"max_results":4}`: "a.txt\t37\nbad.txt\t13\nbin.dat\t7\ndata2/\t-\n[3 files; more exist: give a path or raise max_results]",
		`{"path":"docs/"}`:                    "docs/deep/note.md\t8\ndocs/real.md\t21\n[2 files]",
		`{"path":"./docs/../docs/deep"}`:      "docs/deep/note.md\t8\n[1 files]",
		`{"path":".git"}`:                     ".git/config\t5\n[1 files]",
		`{"path":"` + dir + `/src"}`:          "src/main.go\t48\n[1 files]",
		`{"path":"loop/docs/deep"}`:           "loop/docs/deep/note.md\t8\n[1 files]",
	} {
		got := in(t, dir, ListFiles{}, args)
		if got.Error != "" || got.Output != want {
			t.Errorf("%s\n got %q %s\nwant %q", args, got.Output, got.Error, want)
		}
	}
	if got := in(t, dir, ListFiles{}, `{"path":"docs"}`); string(got.Data) !=
		`{"display_type":"file_list","path":"docs","count":2,"truncated":false,"files":[{"path":"docs/deep/note.md","size":8},{"path":"docs/real.md","size":21}]}` {
		t.Errorf("%s", got.Data)
	}
	if got := in(t, dir, ListFiles{}, `{"path":"a.txt"}`); !strings.Contains(got.Error, "not a directory") {
		t.Errorf("%+v", got)
	}
}

func TestGrepFiles(t *testing.T) {
	dir := sample(t)
	for args, want := range map[string]string{
		`{"pattern":"alpha"}`: "a.txt:1: Alpha one\na.txt:4: ALPHA three\nbad.txt:1: alpha \uFFFD end\ndocs/real.md:2: alpha in docs\nok.md:2: alpha in docs\nsrc/main.go:4: \tprintln(\"alpha\")\n" +
			"with\uFFFDnewline.text:1: alpha\n[7 matches in 6 files; 1 files left out as binary]",
		`{"pattern":"(?-i)alpha","path":"a.txt"}`:                      "[0 matches in 0 files]",
		`{"pattern":"alpha","glob":"*.md"}`:                            "docs/real.md:2: alpha in docs\nok.md:2: alpha in docs\n[2 matches in 2 files]",
		`{"pattern":"alpha","glob":"{src,docs}/**/*.{go,md}"}`:         "docs/real.md:2: alpha in docs\nsrc/main.go:4: \tprintln(\"alpha\")\n[2 matches in 2 files]",
		`{"pattern":"alpha","glob":"*.txt","max_results":2}`:           "a.txt:1: Alpha one\na.txt:4: ALPHA three\n[2 matches in 1 files; more exist: narrow the pattern or the path, or raise max_results]",
		`{"pattern":"alpha","path":"a.txt","context_lines":1}`:         "a.txt:1: Alpha one\na.txt-2- beta two\na.txt-3- \na.txt:4: ALPHA three\n[2 matches in 1 files]",
		`{"pattern":"func|\\}","path":"src","context_lines":1}`:        "src/main.go-2- \nsrc/main.go:3: func main() {\nsrc/main.go-4- \tprintln(\"alpha\")\nsrc/main.go:5: }\n[2 matches in 1 files]",
		`{"pattern":"# real|nothing","path":"docs","context_lines":1}`: "docs/deep/note.md:1: nothing\n--\ndocs/real.md:1: # Real\ndocs/real.md-2- alpha in docs\n[2 matches in 2 files]",
		`{"pattern":"two$"}`:                                           "a.txt:2: beta two\n[1 matches in 1 files; 1 files left out as binary]",
	} {
		got := in(t, dir, GrepFiles{}, args)
		if got.Error != "" || got.Output != want {
			t.Errorf("%s\n got %q %s\nwant %q", args, got.Output, got.Error, want)
		}
	}
	got := in(t, dir, GrepFiles{}, `{"pattern":"alpha","path":"a.txt"}`)
	if want := `{"display_type":"file_matches","pattern":"alpha","path":"a.txt","match_count":2,"file_count":1,"truncated":false,"files":[{"path":"a.txt","lines":[1,4]}]}`; string(got.Data) != want {
		t.Errorf("%s", got.Data)
	}
}

func TestGrepFilesShowsTheHitInLongLines(t *testing.T) {
	dir := tree(t, map[string]string{"long.txt": strings.Repeat("中", 4000) + "needle" + strings.Repeat("x", 4000) + "\n"})
	got := in(t, dir, GrepFiles{}, `{"pattern":"needle"}`)
	line, _, _ := strings.Cut(got.Output, "\n")
	if want := "long.txt:1: [11700 bytes …] " + strings.Repeat("中", 100) + "needle" + strings.Repeat("x", 394) + " [… 3606 bytes]"; line != want {
		t.Errorf("%s", line)
	}
}

func TestP78_Patterns(t *testing.T) {
	dir := tree(t, map[string]string{"a.txt": strings.Repeat("a", 50000) + "!\nf(x) [y]\n"})
	for pattern, want := range map[string]string{
		`(x{500}){500}`:                      "repeats too much",
		`(x{1001})`:                          "repeats too much",
		strings.Repeat("(.{1000})?", 20):     "too costly",
		`(?=a)b`:                             "look-ahead",
		`[`:                                  `escape it: \[`,
		`f(x`:                                `escape it: f\(x`,
		`*.go`:                               `nothing to repeat`,
		`\1`:                                 `does not know`,
		`a\`:                                 "single backslash",
		" ":                                  "empty",
		strings.Repeat("x", 501):             "at most 500",
		`(a+)+$`:                             "",
		`(a|aa)+$`:                           "",
		`f\(x\) \[y\]`:                       "",
		strings.Repeat("(a?a*)*", 50) + "b?": "",
	} {
		args, _ := json.Marshal(map[string]any{"pattern": pattern})
		got := in(t, dir, GrepFiles{}, string(args))
		if want == "" && got.Error != "" || want != "" && !strings.Contains(got.Error, want) {
			t.Errorf("%s: %q, want %q", pattern, got.Error, want)
		}
	}
	for _, glob := range []string{"[", "{a", "a}", "[]"} {
		if got := in(t, dir, GrepFiles{}, fmt.Sprintf(`{"pattern":"a","glob":%q}`, glob)); !strings.Contains(got.Error, "glob") {
			t.Errorf("%s: %+v", glob, got)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := sample(t)
	for args, want := range map[string]string{
		`{"path":"a.txt"}`:                         "a.txt (lines 1-4 of 4)\n   1| Alpha one\n   2| beta two\n   3| \n   4| ALPHA three",
		`{"path":"a.txt","offset":2,"limit":1}`:    "a.txt (lines 2-2 of 4)\n   2| beta two\n[more lines follow: go on with offset 3]",
		`{"path":"ok.md"}`:                         "ok.md (lines 1-2 of 2)\n   1| # Real\n   2| alpha in docs",
		`{"path":"empty.txt"}`:                     "empty.txt (lines 0-0 of 0)",
		`{"path":"bad.txt"}`:                       "bad.txt (lines 1-1 of 1)\n   1| alpha \uFFFD end",
		`{"path":"` + dir + `/docs/deep/note.md"}`: "docs/deep/note.md (lines 1-1 of 1)\n   1| nothing",
	} {
		if got := in(t, dir, ReadFile{}, args); got.Error != "" || got.Output != want {
			t.Errorf("%s\n got %q %s\nwant %q", args, got.Output, got.Error, want)
		}
	}
	for args, want := range map[string]string{
		`{"path":"a.txt","offset":5}`: "has 4 lines: line 5 lies past its end",
		`{"path":"bin.dat"}`:          "binary file of 7 bytes",
		`{"path":"docs"}`:             "is a directory",
		`{"path":"main.go"}`:          "Did you mean: src/main.go?",
		`{"path":"docs/rael.md"}`:     "Did you mean: docs/real.md",
		`{"path":"a.txt/b"}`:          "cannot be opened",
		`{"path":"a\u0000"}`:          "NUL",
	} {
		if got := in(t, dir, ReadFile{}, args); !strings.Contains(got.Error, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	got := in(t, dir, ReadFile{}, `{"path":"a.txt","limit":2}`)
	if want := `{"display_type":"file_content","path":"a.txt","start_line":1,"end_line":2,"total_lines":4,"truncated":true}`; string(got.Data) != want {
		t.Errorf("%s", got.Data)
	}
}

func TestReadFileStreamsHugeFiles(t *testing.T) {
	var b strings.Builder
	for i := range 400000 {
		fmt.Fprintf(&b, "line number %d of a huge file\n", i+1)
	}
	b.WriteString(strings.Repeat("中", 100000))
	dir := tree(t, map[string]string{"huge.log": b.String()})
	got := in(t, dir, ReadFile{}, `{"path":"huge.log","offset":399999}`)
	want := "huge.log (lines 399999-400001 of 400001)\n399999| line number 399999 of a huge file\n400000| line number 400000 of a huge file\n400001| " +
		strings.Repeat("中", 500) + " [… 298500 bytes]"
	if got.Output != want {
		t.Errorf("%.300s", got.Output)
	}
	if got := in(t, dir, GrepFiles{}, `{"pattern":"number 7 "}`); got.Output != "[0 matches in 0 files; 1 files left out as larger than 8 MiB]" {
		t.Error(got.Output)
	}
	// A page ends before it would be cut in the middle.
	page := in(t, dir, ReadFile{}, `{"path":"huge.log","limit":2000}`)
	if n := len([]rune(page.Output)); n > tool.DefaultOutput || !strings.Contains(page.Output, "[more lines follow: go on with offset ") {
		t.Errorf("%d runes", n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, x := range []tool.Tool{ReadFile{}, GrepFiles{}, ListFiles{}} {
		if _, err := x.Run(ctx, tool.Call{Workspace: dir, Arguments: json.RawMessage(`{"path":"","pattern":"x"}`)}); err == nil && x.Definition().Name != ReadFileName {
			t.Errorf("%s does not obey its context", x.Definition().Name)
		}
	}
	if _, err := (ReadFile{}).Run(ctx, tool.Call{Workspace: dir, Arguments: json.RawMessage(`{"path":"huge.log"}`)}); err == nil {
		t.Error("read_file does not obey its context")
	}
}

func TestP58_NothingLeavesTheWorkspace(t *testing.T) {
	dir := sample(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "outside.txt"), []byte("SECRET alpha\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"ref.md", "data/outside.txt", "data", "data2/up", "../outside.txt", "docs/../../outside.txt", "/etc/passwd", dir + "/../outside.txt",
		filepath.Dir(dir) + "/outside.txt", dir + "x", "..", "pipe", "loop/loop/data/outside.txt", "/"} {
		path, _ := json.Marshal(p)
		for _, x := range []tool.Tool{ReadFile{}, GrepFiles{}, ListFiles{}} {
			got := in(t, dir, x, fmt.Sprintf(`{"pattern":"","path":%s}`, path))
			if x.Definition().Name == GrepFilesName {
				got = in(t, dir, x, fmt.Sprintf(`{"pattern":".","path":%s}`, path))
			}
			if got.Error == "" || strings.Contains(got.Error+got.Output, "SECRET") {
				t.Errorf("%s %s: %+v", x.Definition().Name, p, got)
			}
		}
	}
	if got := in(t, dir, GrepFiles{}, `{"pattern":"secret"}`); !strings.HasPrefix(got.Output, "[0 matches") {
		t.Error(got.Output)
	}
	for _, x := range []tool.Tool{ReadFile{}, GrepFiles{}, ListFiles{}} {
		for _, d := range []string{"", filepath.Join(dir, "gone")} {
			if got := in(t, d, x, `{"pattern":"a","path":"a.txt"}`); !strings.Contains(got.Error, "workspace") {
				t.Errorf("%s: %+v", x.Definition().Name, got)
			}
		}
	}
}

func TestP58_SwappedForLinkWhileReading(t *testing.T) {
	dir := tree(t, map[string]string{"sub/a.txt": "inside\n"})
	outside := filepath.Join(filepath.Dir(dir), "secret")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "a.txt"), []byte("SECRET\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		sub, kept, link := filepath.Join(dir, "sub"), filepath.Join(dir, "kept"), filepath.Join(dir, "link")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(sub, kept)
			_ = os.Symlink(outside, link)
			_ = os.Rename(link, sub)
			_ = os.Remove(sub)
			_ = os.Rename(kept, sub)
		}
	}()
	for range 300 {
		for _, x := range []tool.Tool{ReadFile{}, GrepFiles{}} {
			got := in(t, dir, x, `{"path":"sub/a.txt","pattern":"e"}`)
			if strings.Contains(got.Output+got.Error, "SECRET") {
				t.Fatalf("%s read what lies outside", x.Definition().Name)
			}
		}
		if got := in(t, dir, GrepFiles{}, `{"pattern":"e"}`); strings.Contains(got.Output, "SECRET") {
			t.Fatal("grep_files read what lies outside")
		}
	}
	close(stop)
	<-done
}

func TestBuiltInDefinitions(t *testing.T) {
	i := invoker(t, Thinking{}, TodoWrite{}, &ReadToolResult{}, ListFiles{}, GrepFiles{}, ReadFile{})
	for _, def := range i.Registry.Definitions() {
		if def.Effect != tool.ReadOnly || def.Title == "" || len(def.Description) < 80 {
			t.Errorf("%+v", def)
		}
		for _, other := range i.Registry.Names() {
			if other != ThinkingName && strings.Contains(def.Description, other) {
				t.Errorf("%s speaks of %s, which may not be offered", def.Name, other)
			}
		}
	}
}
