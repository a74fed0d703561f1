package tools

import (
	"strings"
	"testing"
)

func TestLiterals(t *testing.T) {
	for pattern, want := range map[string]string{
		`disk`: "disk", `Disk full`: "disk full", `\b(?:disk|full)`: "disk,full", `disk.*full|full.*disk`: "disk,full", `(?-i)Disk`: "disk",
		`restor|restart`: "rest", `磁盘|写满`: "磁盘,写满", `café`: "caf", `(?-i)É`: "É", `a|b`: "", `x*`: "", `(?:disk)?`: "", `(?:disk)+`: "disk",
		`(?:disk){2,3}`: "disk", `(?:disk){0,3}`: "", `disk|.`: "", `.`: "", `\d+ MiB`: " mib", `^`: "", `func \w+\(`: "func ", "a\uFFFDbc": "bc",
	} {
		if got := strings.Join(literalsOf(pattern), ","); got != want {
			t.Errorf("%s: got %q, want %q", pattern, got, want)
		}
	}
}

// FuzzLiterals: what a pattern matches is never left out for its literals.
func FuzzLiterals(f *testing.F) {
	for _, c := range [][2]string{
		{"kill", "\u212aILL"}, {"sum|less", "le\u017f\u017f"}, {"É", "é"}, {"(?-i)É", "É"}, {"İx", "i\u0307x"}, {"disk.*full", "the DISK is Full"}, {"a\uFFFDb", "a\xffb"},
		{"(?:re)?sta(?:rt|ll)+", "STALLRT"}, {"磁盘(?:写满|不足)", "磁盘不足"}, {"[kK]elvin|ﬀ", "Kelvin"}, {"µm", "μm"}, {"ẞtraße", "ßtraße"},
	} {
		f.Add(c[0], []byte(c[1]))
	}
	f.Fuzz(func(t *testing.T, pattern string, text []byte) {
		re, err := compile(pattern)
		if err != nil {
			return
		}
		l := literalsOf(pattern)
		if re.Match(text) && !l.in(lowered(text)) && !foldable(text) {
			t.Errorf("%q matches %q, which has none of %q", pattern, text, l)
		}
	})
}
