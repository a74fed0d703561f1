package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// string reads a quoted string and gives it as JSON text. Escapes that JSON
// knows stay as written, so "\new" keeps its line feed: what a backslash was
// meant to be is not guessed.
func (r *reader) string() (string, error) {
	start, q := r.pos, r.text[r.pos]
	if q == '\'' {
		r.note(RepairQuotes)
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := start + 1; i < len(r.text); {
		c := r.text[i]
		switch {
		case c == q:
			b.WriteByte('"')
			r.pos = i + 1
			return b.String(), nil
		case c == '\\':
			n, err := r.escape(&b, i, q)
			if err != nil {
				return "", err
			}
			if n == 0 {
				i = len(r.text)
			}
			i += n
		case c == '"':
			b.WriteString(`\"`)
			i++
		case c < ' ':
			r.note(RepairControl)
			b.WriteString(escapeControl(c))
			i++
		default:
			size := 1
			if c >= utf8.RuneSelf {
				var x rune
				if x, size = utf8.DecodeRuneInString(r.text[i:]); x == utf8.RuneError && size == 1 {
					b.WriteRune(utf8.RuneError)
					i++
					continue
				}
			}
			b.WriteString(r.text[i : i+size])
			i += size
		}
	}
	return "", &ArgumentError{Offset: start, Near: near(r.text, start), Truncated: true,
		Message: "the string that begins here is never closed"}
}

// escape reads the escape at i, writes it as JSON, and tells its length; 0 at
// the end of the text.
func (r *reader) escape(b *strings.Builder, i int, q byte) (int, error) {
	if i+1 >= len(r.text) {
		return 0, nil
	}
	c := r.text[i+1]
	// In a single-quoted string (Python, JavaScript) some escapes mean something
	// that they do not mean in JSON: which was meant would be a guess.
	if q == '\'' && strings.IndexByte("xaveUN/01234567\n\r", c) >= 0 {
		return 0, r.fail(i, "this escape has no clear meaning in single quotes")
	}
	switch {
	case q == '\'' && c == '\'':
		b.WriteByte('\'')
		return 2, nil
	case strings.IndexByte(`"\/bfnrt`, c) >= 0:
		b.WriteString(r.text[i : i+2])
		return 2, nil
	case c == 'u' && hex4(r.text[i+2:]):
		b.WriteString(r.text[i : i+6])
		return 6, nil
	}
	r.note(RepairEscape)
	b.WriteString(`\\`)
	return 1, nil
}

func hex4(s string) bool {
	if len(s) < 4 {
		return false
	}
	for i := range 4 {
		c := s[i] | 0x20
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') || s[i] < '0' {
			return false
		}
	}
	return true
}

func escapeControl(c byte) string {
	switch c {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return fmt.Sprintf(`\u%04x`, c)
}
