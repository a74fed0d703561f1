package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTerm is the longest term, in bytes; longer words are cut. It bounds what
// base64 and the like do to an index.
const maxTerm = 64

// maxParts is into how many parts an identifier is split at most.
const maxParts = 16

// Terms cuts a text into the terms it is indexed by, in order, repeated as they
// repeat. Words are lower-cased, without accents, and English ones are stemmed.
// Identifiers and numbers are a term as a whole and one for each part (foo_bar,
// fooBar, v1.2). Scripts without spaces give overlapping pairs, and the last
// character of each run for itself, so that every character begins some term. A
// term is at most 64 bytes of letters, digits, combining marks and _ - . + #,
// and never begins with a mark.
func Terms(text string) []string {
	var out []string
	cut(text, func(term string, _ role) { out = append(out, term) })
	return out
}

// role says where a term comes from.
type role int

const (
	whole  role = iota
	last        // the last character of a run of two or more
	single      // a run of one character
)

// cut calls emit for each term of a text.
func cut(text string, emit func(term string, r role)) {
	text = fold(text)
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case dense(r):
			i += pairs(text[i:], emit)
		case wordly(r) && !unicode.IsMark(r):
			end := wordEnd(text, i)
			word(text[i:end], emit)
			i = end
		default:
			i += n
		}
	}
}

// pairs emits the terms of the run of dense characters that a text begins with,
// and tells how long it is.
func pairs(text string, emit func(string, role)) (end int) {
	before, at := -1, 0 // where the two latest characters begin
	for end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		if !dense(r) {
			break
		}
		if before = at; end == 0 {
			before = -1
		}
		at = end
		end += n
		if before >= 0 {
			emit(text[before:end], whole)
		}
	}
	if before < 0 {
		emit(text[at:end], single)
	} else {
		emit(text[at:end], last)
	}
	return end
}

// dense tells whether a character belongs to a script that puts no space between
// words.
func dense(r rune) bool {
	switch {
	case r < 0x0e00:
		return false
	case r >= 0x4e00 && r <= 0x9fff, r >= 0x3400 && r <= 0x4dbf, r >= 0x3041 && r <= 0x3096, r >= 0x30a1 && r <= 0x30fa, r == 0x30fc, r == 0x3005, r >= 0xac00 && r <= 0xd7a3:
		return true
	case r >= 0x0e01 && r <= 0x0eff, r >= 0x1000 && r <= 0x109f, r >= 0x1780 && r <= 0x17ff:
		return unicode.IsLetter(r) || unicode.IsMark(r) // Thai, Lao, Burmese, Khmer
	case r >= 0x20000 && r <= 0x3ffff, r >= 0xf900 && r <= 0xfaff:
		return unicode.Is(unicode.Han, r)
	}
	return false
}

// wordly tells whether a character is part of words of scripts with spaces.
func wordly(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	return !dense(r) && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r))
}

// wordEnd gives the end of the word that begins at i: letters and digits, single
// joiners between them, and the plus signs or the hash of C++ and C#.
func wordEnd(text string, i int) int {
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		if wordly(r) {
			i += n
			continue
		}
		if next, _ := utf8.DecodeRuneInString(text[i+n:]); joiner(r) && wordly(next) && (r != ',' || thousands(text, i)) {
			i += n
			continue
		}
		break
	}
	for _, tail := range []string{"++", "#"} {
		if rest := text[i:]; strings.HasPrefix(rest, tail) {
			if next, _ := utf8.DecodeRuneInString(rest[len(tail):]); !wordly(next) {
				return i + len(tail)
			}
		}
	}
	return i
}

func joiner(r rune) bool {
	return r == '_' || r == '-' || r == '.' || r == '\'' || r == ','
}

// thousands tells whether the comma at i groups digits, as in 1,000.
func thousands(text string, i int) bool {
	digit := func(k int) bool { return k >= 0 && k < len(text) && text[k] >= '0' && text[k] <= '9' }
	return digit(i-1) && digit(i+1) && digit(i+2) && digit(i+3) && !digit(i+4)
}

// word emits the terms of one word.
func word(w string, emit func(string, role)) {
	if len(w) <= maxTerm && plainLower(w) {
		emit(stem(w), whole)
		return
	}
	if len(w) > 4*maxTerm {
		w = w[:4*maxTerm]
	}
	bare := strings.ReplaceAll(w, ",", "")
	lower := strings.ToLower(bare)
	if s, ok := strings.CutSuffix(lower, "'s"); ok {
		lower, bare = s, bare[:len(s)]
	}
	lower = strings.ReplaceAll(lower, "'", "")
	if plainLower(lower) && !mixed(bare) {
		emit(stem(shorten(lower)), whole)
		return
	}
	if plainLower(lower) {
		emit(stem(shorten(lower)), whole)
	} else {
		emit(shorten(lower), whole)
	}
	if len(w) > maxTerm {
		return // no word that anybody would look for in parts
	}
	parts := split(bare)
	if len(parts) < 2 {
		return
	}
	for _, p := range parts {
		if p = strings.ToLower(p); plainLower(p) {
			p = stem(p)
		}
		if len(p) > 1 || p[0] >= '0' && p[0] <= '9' {
			emit(p, whole)
		}
	}
}

// shorten cuts a term at maxTerm, between characters.
func shorten(t string) string {
	if len(t) <= maxTerm {
		return t
	}
	n := maxTerm
	for !utf8.RuneStart(t[n]) {
		n--
	}
	return t[:n]
}

func plainLower(w string) bool {
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return false
		}
	}
	return true
}

// mixed tells whether capitals stand inside a word, as in fooBar.
func mixed(w string) bool {
	upper, lower := false, false
	for i := range len(w) {
		if i > 0 && w[i] >= 'A' && w[i] <= 'Z' {
			upper = true
		}
		if w[i] >= 'a' && w[i] <= 'z' {
			lower = true
		}
	}
	return upper && lower
}

// split gives the parts of an identifier: between joiners, between letters and
// digits, and where capitals begin a word (fooBar, HTTPServer).
func split(w string) []string {
	var out []string
	class := func(b byte) int {
		switch {
		case b >= '0' && b <= '9':
			return 1
		case b >= 'A' && b <= 'Z':
			return 2
		case b == '_' || b == '-' || b == '.' || b == '+' || b == '#' || b == '\'':
			return 0
		}
		return 3
	}
	start := 0
	flush := func(end int) {
		if end > start && len(out) < maxParts {
			out = append(out, w[start:end])
		}
	}
	for i := range len(w) {
		c := class(w[i])
		if c == 0 {
			flush(i)
			start = i + 1
			continue
		}
		if i == start || i == 0 {
			continue
		}
		before := class(w[i-1])
		switch {
		case (c == 1) != (before == 1), c == 2 && before == 3:
			flush(i)
			start = i
		case c == 3 && before == 2 && i-1 > start && w[i] < utf8.RuneSelf: // the S of HTTPServer
			flush(i - 1)
			start = i - 1
		}
	}
	flush(len(w))
	return out
}

// latin folds the letters from U+00C0 to U+017F.
const latin = "AAAAAAeCEEEEIIIIdNOOOOO oUUUUYtsaaaaaaeceeeeiiiidnooooo ouuuuytyAaAaAaCcCcCcCcDdddEeEeEeEeEeGgGgGgGgHhhhIiIiIiIiIiiiJjKkkLlLlLlllllNnNnNnnnnOoOoOoeeRrRrRrSsSsSsSsTtTtttUuUuUuUuUuUuWwYyYZzZzZzs"

// fold makes one form of the forms of a text: full-width letters and digits
// become the common ones, accents and marks that are drawn over Latin letters go,
// as do characters that nobody sees. It gives the same string if nothing is to be done.
func fold(text string) string {
	ascii := 0
	for ascii < len(text) && text[ascii] < utf8.RuneSelf {
		ascii++
	}
	if ascii == len(text) {
		return text
	}
	at := strings.IndexFunc(text, folded)
	if at < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	b.WriteString(text[:at])
	for _, r := range text[at:] {
		switch {
		case r >= 0xff01 && r <= 0xff5e:
			b.WriteRune(r - 0xfee0)
		case r >= 0xc0 && r < 0x180:
			b.WriteByte(latin[r-0xc0])
		case r == 0x2019, r == 0x2bc:
			b.WriteByte('\'')
		case r >= 0x2010 && r <= 0x2012:
			b.WriteByte('-')
		case r == 0x3000, r == utf8.RuneError:
			b.WriteByte(' ')
		case folded(r): // unseen
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func folded(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r == 0xad, r >= 0xc0 && r < 0x180, r == 0x2bc, r >= 0x300 && r <= 0x36f, r >= 0x200b && r <= 0x200f,
		r >= 0x2010 && r <= 0x2012, r == 0x2019, r == 0x2060, r == 0x3000, r == 0xfeff, r >= 0xfe00 && r <= 0xfe0f, r >= 0xff01 && r <= 0xff5e, r == utf8.RuneError:
		return true
	}
	return false
}
