package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const markerReserve = 200

// Truncate keeps text within limit runes: the first 70 % and the last 30 % of
// what is left after 200 runes for the marker between them, which gives the
// numbers. The answer is valid UTF-8 (bad bytes become U+FFFD) and, with the
// marker, at most limit runes.
//
// Exception: a limit of 200 or less leaves no room for the marker. Then limit
// runes of text are kept and the marker comes on top, at most 200 runes more;
// with a limit of 0 or less only the marker is left.
func Truncate(text string, limit int) (string, bool) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	total := utf8.RuneCountInString(text)
	limit = max(limit, 0)
	if total <= limit {
		return text, false
	}
	keep := limit
	if limit > markerReserve {
		keep = limit - markerReserve
	}
	tail := keep * 3 / 10
	head := keep - tail
	left := text[:runeOffset(text, head)]
	right := text[len(text)-runeOffsetBack(text, tail):]
	return fmt.Sprintf("%s\n... [output truncated: %d characters, %d left out; this is the first %d and the last %d] ...\n%s",
		left, total, total-keep, head, tail, right), true
}

// runeOffset gives the bytes of the first n runes, at most all.
func runeOffset(s string, n int) int {
	at := 0
	for ; n > 0 && at < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
	return at
}

// runeOffsetBack gives the bytes of the last n runes, at most all.
func runeOffsetBack(s string, n int) int {
	size := 0
	for ; n > 0 && size < len(s); n-- {
		_, w := utf8.DecodeLastRuneInString(s[:len(s)-size])
		size += w
	}
	return size
}

// Sanitize makes text storable everywhere: NUL becomes the visible "␀"
// (U+2400), each run of bytes that is no valid UTF-8, halves of surrogate pairs
// among them, becomes "�" (U+FFFD). All else stays, also the six
// characters \u0000 written out.
func Sanitize(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\u2400")
}

// SanitizeJSON does the same for the strings in JSON text, where NUL and lone
// surrogates hide in escapes: \u0000 becomes \u2400, a half becomes \ufffd.
// Invalid JSON comes back with its bytes sanitised only.
func SanitizeJSON(raw []byte) []byte {
	text := Sanitize(string(raw))
	if !strings.Contains(text, `\u`) {
		return []byte(text)
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '\\' || i+1 >= len(text) {
			b.WriteByte(text[i])
			i++
			continue
		}
		unit, ok := codeUnit(text[i:])
		if !ok {
			b.WriteString(text[i : i+2]) // two bytes, so that \\u0000 stays text
			i += 2
			continue
		}
		size := 6
		switch {
		case unit == 0:
			b.WriteString(`\u2400`)
		case unit >= 0xD800 && unit < 0xDC00:
			if low, ok := codeUnit(text[i+6:]); ok && low >= 0xDC00 && low < 0xE000 {
				size = 12
				b.WriteString(text[i : i+size])
			} else {
				b.WriteString(`\ufffd`)
			}
		case unit >= 0xDC00 && unit < 0xE000:
			b.WriteString(`\ufffd`)
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return []byte(b.String())
}

// codeUnit reads a \uXXXX escape at the start of s.
func codeUnit(s string) (unit int, ok bool) {
	if !strings.HasPrefix(s, `\u`) || !hex4(s[2:]) {
		return 0, false
	}
	_, err := fmt.Sscanf(s[2:6], "%04x", &unit)
	return unit, err == nil
}
