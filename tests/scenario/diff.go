package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Equal fails the test if two values differ as JSON, and shows where.
func Equal(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := Diff(lines([]any{want}), lines([]any{got})); d != "" {
		t.Fatalf("%s (- wanted, + got):\n%s", what, d)
	}
}

// Text writes values as people read them, for messages and golden files.
func Text[E any](values []E) string { return strings.Join(lines(values), "\n") }

// lines are the values as indented JSON under the name of their type.
func lines[E any](values []E) []string {
	var out []string
	for _, v := range values {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		name := "nil"
		if t := reflect.TypeOf(v); t != nil {
			name = t.Name()
		}
		if err := enc.Encode(v); err != nil {
			fmt.Fprintf(&b, "%+v (%v)", v, err)
		}
		out = append(out, strings.Split(strings.TrimSpace(name+" "+b.String()), "\n")...)
	}
	return out
}

// Diff compares two texts line by line and shows what changed with two lines
// around it; "" if they are equal.
func Diff(want, got []string) string {
	// Longest common subsequence; the texts of tests are short.
	n, m := len(want), len(got)
	lcs := make([][]int, n+1)
	for i := range lcs {
		lcs[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if want[i] == got[j] {
				lcs[i][j] = lcs[i+1][j+1] + 1
			} else {
				lcs[i][j] = max(lcs[i+1][j], lcs[i][j+1])
			}
		}
	}
	var out []string
	var changed []bool
	put := func(mark, line string) {
		out, changed = append(out, mark+line), append(changed, mark != "  ")
	}
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case i < n && j < m && want[i] == got[j]:
			put("  ", want[i])
			i, j = i+1, j+1
		case i < n && (j == m || lcs[i+1][j] >= lcs[i][j+1]):
			put("- ", want[i])
			i++
		default:
			put("+ ", got[j])
			j++
		}
	}
	return around(out, changed)
}

func around(all []string, changed []bool) string {
	const context = 2
	var b strings.Builder
	skipped, any := false, false
	for i, line := range all {
		near := false
		for k := max(0, i-context); k <= min(len(all)-1, i+context); k++ {
			near = near || changed[k]
		}
		if !near {
			skipped = true
			continue
		}
		if skipped && any {
			b.WriteString("  ...\n")
		}
		skipped, any = false, true
		b.WriteString(line + "\n")
	}
	return b.String()
}
