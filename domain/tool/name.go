package tool

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// NormalizeName removes white space, control and zero-width characters from
// both ends of a name, as models and chat templates add them.
func NormalizeName(name string) string {
	return strings.TrimFunc(strings.ToValidUTF8(name, ""), func(c rune) bool {
		return unseen(c) || unicode.IsControl(c) || unicode.Is(unicode.Cf, c)
	})
}

// Nearest gives up to 3 known names that are close to name, the closest first;
// nil if none is close. Case does not count.
func Nearest(name string, known []string) []string {
	type hit struct {
		name string
		far  int
	}
	var hits []hit
	low := strings.ToLower(cut(name, 256))
	if low == "" {
		return nil
	}
	for _, k := range known {
		kl := strings.ToLower(cut(k, 256))
		far := distance([]rune(low), []rune(kl))
		if len(low) >= 3 && len(kl) >= 3 && (strings.Contains(kl, low) || strings.Contains(low, kl)) {
			hits = append(hits, hit{k, min(far, 2)})
		} else if far <= max(1, min(len([]rune(low)), len([]rune(kl)))/3) {
			hits = append(hits, hit{k, far})
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(a.far, b.far), strings.Compare(a.name, b.name)) })
	var names []string
	for _, h := range hits[:min(3, len(hits))] {
		names = append(names, h.name)
	}
	return names
}

// distance counts the insertions, deletions, changes and swaps of neighbours
// that lead from a to b.
func distance(a, b []rune) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[(i+2)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}

// cut gives at most the first n bytes of s, on a rune boundary.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
