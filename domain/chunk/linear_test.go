package chunk

import (
	"fmt"
	"strings"
	"testing"
)

// worst are texts that would cost a careless splitter time that grows with the
// square of their length.
var worst = map[string]func(n int) string{
	"one line":            func(n int) string { return strings.Repeat("x", n) },
	"one line of words":   func(n int) string { return strings.Repeat("word ", n/5) },
	"one line of Chinese": func(n int) string { return strings.Repeat("没有标点的中文", n/21) },
	"sentences":           func(n int) string { return strings.Repeat("a. ", n/3) },
	"headings":            func(n int) string { return strings.Repeat("# h\n", n/4) },
	"nested headings":     func(n int) string { return strings.Repeat("# a\n## b\n### c\n#### d\nx\n", n/24) },
	"blank lines":         func(n int) string { return "a\n" + strings.Repeat("\n", n) + "b" },
	"blanks":              func(n int) string { return "a" + strings.Repeat(" ", n) + "b" },
	"open fences":         func(n int) string { return strings.Repeat("```\n~~~~\n", n/9) },
	"fences of all sizes": func(n int) string { return strings.Repeat("`````\n````\n```\n", n/15) },
	"code":                func(n int) string { return "```go\n" + strings.Repeat("\n", n) },
	"a wide table": func(n int) string {
		return "|" + strings.Repeat("a|", n/6) + "\n|" + strings.Repeat("-|", n/6) + "\n|" + strings.Repeat("1|", n/6)
	},
	"a long table":    func(n int) string { return "| a | b |\n|---|---|\n" + strings.Repeat("| 1 | 2 |\n", n/10) },
	"a table of bars": func(n int) string { return strings.Repeat("|\n", n/2) },
	"heads of tables": func(n int) string { return strings.Repeat("|a|\n|-|\n", n/8) },
	"list":            func(n int) string { return strings.Repeat("- a\n", n/4) },
	"rules":           func(n int) string { return strings.Repeat("---\n", n/4) },
	"underlines":      func(n int) string { return strings.Repeat("a\n---\n", n/6) },
	"points":          func(n int) string { return strings.Repeat(".", n) },
	"marks":           func(n int) string { return "a" + strings.Repeat("\u0301", n/2) },
	"flags":           func(n int) string { return strings.Repeat("🇨🇳", n/8) },
	"line breaks":     func(n int) string { return strings.Repeat("\r\n", n/2) + "a" + strings.Repeat("\r", n/2) },
	"bullets":         func(n int) string { return strings.Repeat("* ", n/2) },
	"closing marks":   func(n int) string { return strings.Repeat("a.\"", n/3) },
}

// What is read, and what the counter is given, stays below a constant number of
// passes over the text at both sizes.
func TestSplit_IsLinear(t *testing.T) {
	for name, make := range worst {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{20_000, 320_000} {
				text := make(n)
				counted, calls := 0, 0
				pieces, p := split(text, Options{ParentChild: true}, func(s string) int {
					counted += len(s)
					calls++
					return Estimate(s)
				})
				if counted > 8*n || p.work > 12*n || calls > n+len(pieces) {
					t.Errorf("%d bytes: %d counted in %d calls, %d read, %d pieces", n, counted, calls, p.work, len(pieces))
				}
			}
		})
	}
}

func TestSplit_TenMegabytesInOneLineAndManyHeadings(t *testing.T) {
	if pieces := Split(strings.Repeat("没有标点的中文", 500_000), Options{}, nil); len(pieces) < 3_500_000/512 {
		t.Errorf("%d pieces", len(pieces))
	}
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, "## Heading %d\n\nIts text.\n\n", i)
	}
	if pieces := Split(b.String(), Options{}, nil); len(pieces) < 10_000 || pieces[3].Context != "" && !strings.Contains(pieces[3].Content, pieces[3].Context) {
		t.Errorf("%d pieces, the fourth: %+v", len(pieces), pieces[3])
	}
}
