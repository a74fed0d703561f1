package handbook_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"refold/infra/handbook"
)

var update = flag.Bool("update", false, "write the pages anew")

// packages whose comments are pages.
var packages = []string{"domain", "domain/event", "domain/run", "domain/session", "domain/tool", "domain/agent", "domain/knowledge", "domain/search", "domain/chunk", "domain/citation",
	"commands", "projections", "handlers", "handlers/tools", "api", "infra/sqlite", "infra/postgres", "infra/openai", "infra/extractive", "infra/parse", "infra/web", "infra/app"}

// comment is the package comment of a folder as Markdown.
func comment(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob("../../" + folder + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", folder, err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc != nil && !strings.HasSuffix(name, "_test.go") {
			return fmt.Sprintf("# Package %s\n\n%s", folder, text(f.Doc))
		}
	}
	t.Fatalf("%s has no package comment", folder)
	return ""
}

func text(doc *ast.CommentGroup) string { return doc.Text() }

func TestPagesAreFresh(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{"README.md": readme}
	for _, p := range packages {
		want["package-"+strings.ReplaceAll(p, "/", "-")+".md"] = []byte(comment(t, p))
	}
	if *update {
		if err := os.RemoveAll("pages"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir("pages", 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range want {
			if err := os.WriteFile(filepath.Join("pages", name), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	have := handbook.Files()
	for _, f := range have {
		if !bytes.Equal(f.Content, want[f.Name]) {
			t.Errorf("%s is not what it copies; run: make handbook", f.Name)
		}
	}
	if len(have) != len(want) {
		t.Errorf("%d pages, want %d; run: make handbook", len(have), len(want))
	}
}
