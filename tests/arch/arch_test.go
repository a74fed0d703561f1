// Package arch checks that imports follow the arrows of the design: each folder
// imports only what its line of the table allows, and each outside package is
// imported by one folder.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "refold/"

// arrow says what the packages under a folder may import of this module, in
// their own code (tests may import everything). A pattern with /... also means
// all below it. The first line that fits a package counts.
type arrow struct {
	from string
	to   []string
}

var arrows = []arrow{
	{"domain/event", nil},
	{"domain/tool", nil},
	{"domain/agent", []string{"domain/tool"}},
	{"domain/...", []string{"domain", "domain/event", "domain/tool", "domain/agent"}},
	{"commands", []string{"domain/..."}},
	{"projections", []string{"domain/..."}},
	{"handlers", []string{"domain/...", "commands"}},
	{"handlers/retrieval", []string{"domain/...", "handlers"}},
	{"handlers/tools", []string{"domain/...", "handlers", "handlers/retrieval"}},
	{"api", []string{"domain/...", "commands", "projections"}},
	{"infra/app", []string{"..."}},
	{"infra/cli", []string{"..."}},
	{"infra/cmd/...", []string{"..."}},
	{"infra/analysis/line", nil},
	{"infra/analysis", []string{"domain/...", "handlers", "infra/analysis/line"}},
	{"infra/duckdb", []string{"infra/analysis/line"}},
	{"infra/web", []string{"domain/...", "handlers", "infra/markdown"}},
	{"infra/parse/...", []string{"handlers", "infra/parse/...", "infra/markdown"}},
	{"infra/sqlstore", []string{"domain/...", "projections"}},
	{"infra/sqlite", []string{"domain/...", "handlers", "projections", "migrations", "infra/sqlstore"}},
	{"infra/postgres", []string{"domain/...", "handlers", "projections", "migrations", "infra/sqlstore"}},
	{"infra/...", []string{"domain/...", "handlers", "projections", "migrations"}},
	{"migrations", nil},
	{"tests/...", []string{"..."}},
}

// outside says which folder may import which package that is not ours. Beside
// it only what may import everything may: the composition root, and tests. Both
// SQL stores migrate their tables with goose.
var outside = map[string]string{
	"github.com/duckdb/duckdb-go":                  "infra/duckdb",
	"codeberg.org/readeck/go-readability":          "infra/web",
	"github.com/alecthomas/kong":                   "infra/cli",
	"github.com/andybalholm/brotli":                "infra/web",
	"github.com/go-chi/chi":                        "api",
	"github.com/google/uuid":                       "api",
	"github.com/jackc/pgx":                         "infra/postgres",
	"github.com/JohannesKaufmann/html-to-markdown": "infra/markdown",
	"github.com/klauspost/compress":                "infra/web",
	"github.com/klippa-app/go-pdfium":              "infra/parse/pdf",
	"github.com/ncruces/go-sqlite3":                "infra/sqlite infra/viewquery",
	"github.com/pressly/goose":                     "infra/sqlite infra/postgres",
	"github.com/prometheus/client_golang":          "infra/metrics",
	"github.com/santhosh-tekuri/jsonschema":        "infra/jsonschema",
	"github.com/sashabaranov/go-openai":            "infra/openai",
	"github.com/temoto/robotstxt":                  "infra/web",
	"github.com/tetratelabs/wazero":                "infra/parse/pdf",
	"github.com/tiktoken-go/tokenizer":             "infra/tiktoken",
	"github.com/xuri/excelize":                     "infra/parse/xlsx",
	"golang.org/x/net":                             "infra/markdown infra/web infra/parse",
	"golang.org/x/sys":                             "infra/sqlite tests/services",
	"golang.org/x/text":                            "infra/parse/charset",
	"golang.org/x/time":                            "api infra/web",
}

type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", "refold/...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 15 {
		t.Fatalf("only %d packages are listed", len(all))
	}
	return all
}

func ours(importPath string) (folder string, ok bool) { return strings.CutPrefix(importPath, module) }

func standard(importPath string) bool {
	return !strings.Contains(strings.Split(importPath, "/")[0], ".")
}

func fits(pattern, folder string) bool {
	if pattern == "..." {
		return true
	}
	if base, all := strings.CutSuffix(pattern, "/..."); all {
		return folder == base || strings.HasPrefix(folder, base+"/")
	}
	return folder == pattern
}

// violations lists what a package imports against the arrows.
func violations(folder string, imports []string) []string {
	i := slices.IndexFunc(arrows, func(a arrow) bool { return fits(a.from, folder) })
	if i < 0 {
		return []string{folder + " has no line in the table of arrows"}
	}
	var out []string
	for _, im := range imports {
		if to, ok := ours(im); ok {
			allowed := slices.ContainsFunc(arrows[i].to, func(p string) bool { return fits(p, to) })
			if !allowed || strings.HasPrefix(to, "tests/") && !strings.HasPrefix(folder, "tests/") {
				out = append(out, folder+" imports "+to)
			}
			continue
		}
		if standard(im) {
			continue
		}
		home := home(im)
		if home == "" {
			out = append(out, folder+" imports "+im+", which has no line in the table of outside packages")
		} else if !slices.Contains(strings.Fields(home), folder) && !slices.Contains(arrows[i].to, "...") {
			out = append(out, folder+" imports "+im+"; only "+home+" may")
		}
	}
	return out
}

func home(importPath string) string {
	for p := importPath; p != "."; p = path.Dir(p) {
		if h, ok := outside[p]; ok {
			return h
		}
	}
	return ""
}

func TestArrows(t *testing.T) {
	used, folders := map[string]bool{}, map[string]bool{}
	for _, p := range packages(t) {
		folder, ok := ours(p.ImportPath)
		if !ok {
			t.Errorf("%s is not of this module", p.ImportPath)
			continue
		}
		folders[folder] = true
		for _, v := range violations(folder, p.Imports) {
			t.Error(v)
		}
		for _, im := range p.Imports {
			for q := im; q != "."; q = path.Dir(q) {
				used[q] = true
			}
		}
	}
	for name, home := range outside {
		if folders[strings.Fields(home)[0]] && !used[name] {
			t.Errorf("%s has a line in the table, and nobody imports it", name)
		}
	}
}

// Each outside package has its line in the README, and each line there is of one.
func TestReadme_NamesTheOutsidePackages(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## What it is made of")
	table, _, _ = strings.Cut(table, "## Limits")
	named := regexp.MustCompile("`([A-Za-z0-9.-]+(?:/[A-Za-z0-9._-]+)+)`")
	lines := map[string]bool{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			for _, m := range named.FindAllStringSubmatch(cells[1], -1) {
				lines[m[1]] = true
			}
		}
	}
	for name := range outside {
		_, short, _ := strings.Cut(name, "/") // without the host
		found := false
		for line := range lines {
			if strings.HasPrefix(line, short) || strings.HasPrefix(line, name) {
				found = true
				delete(lines, line)
			}
		}
		if !found {
			t.Errorf("%s has no line in the README", name)
		}
	}
	for line := range lines {
		t.Errorf("%s has a line in the README, and nobody imports it", line)
	}
}

// Domain packages are pure also in what they take from the standard library.
func TestDomainIsPure(t *testing.T) {
	for _, p := range packages(t) {
		folder, _ := ours(p.ImportPath)
		if !fits("domain/...", folder) {
			continue
		}
		for _, bad := range []string{"net", "net/http", "os", "os/exec", "io/fs", "math/rand", "math/rand/v2", "crypto/rand", "database/sql", "log", "log/slog"} {
			if slices.Contains(p.Imports, bad) {
				t.Errorf("%s imports %s", folder, bad)
			}
		}
	}
}

// The check itself must see what it is there for.
func TestArrows_CatchWhatIsForbidden(t *testing.T) {
	for _, c := range []struct{ folder, im string }{
		{"domain/event", "refold/domain"}, {"domain/run", "refold/commands"}, {"domain/run", "refold/domain/session"}, {"commands", "refold/handlers"},
		{"projections", "refold/commands"}, {"handlers", "refold/infra/memory"}, {"handlers/tools", "refold/commands"}, {"api", "refold/handlers"},
		{"infra/sqlite", "refold/commands"}, {"infra/sqlite", "refold/infra/memory"}, {"api", "refold/tests/scenario"}, {"infra/app", "refold/tests/scripted"},
		{"domain/run", "github.com/google/uuid"}, {"handlers", "github.com/go-chi/chi/v5"}, {"api", "github.com/prometheus/client_golang/prometheus"}, {"handlers", "refold/infra/metrics"}, {"commands", "github.com/google/uuid"}, {"api", "example.com/unknown"}, {"elsewhere", "fmt"},
	} {
		if len(violations(c.folder, []string{c.im})) == 0 {
			t.Errorf("%s may import %s", c.folder, c.im)
		}
	}
	for _, c := range []struct{ folder, im string }{
		{"domain/run", "refold/domain/tool"}, {"api", "github.com/go-chi/chi/v5/middleware"}, {"infra/memory", "refold/projections"}, {"infra/app", "refold/api"},
		{"tests/e2e", "refold/infra/app"}, {"commands", "errors"},
	} {
		if v := violations(c.folder, []string{c.im}); len(v) > 0 {
			t.Error(v)
		}
	}
}
