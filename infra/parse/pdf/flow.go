package pdf

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// flow joins the lines of a page into paragraphs: a line that is about as long as
// the longest and does not end a sentence goes on in the next. Words that are
// divided at the end of a line become one; text without spaces is joined without.
// What looks like a heading or code to Markdown is escaped.
func flow(s string) string {
	lines := strings.Split(s, "\n")
	longest := 0
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
		longest = max(longest, width(lines[i]))
	}
	var b []byte
	open := false // the last line goes on
	for _, l := range lines {
		if l == "" {
			open = false
			continue
		}
		switch {
		case open:
			b = join(b, l)
		case len(b) > 0:
			b = append(b, "\n\n"...)
		}
		if !open {
			for _, mark := range []string{"#", "```", "~~~"} {
				if strings.HasPrefix(l, mark) {
					b = append(b, '\\')
				}
			}
		}
		b = append(b, l...)
		open = width(l)*10 >= longest*7 && !ends(l)
	}
	return strings.ReplaceAll(string(b), "\u00ad", "-")
}

// join puts what lies between two lines of a paragraph.
func join(text []byte, next string) []byte {
	last, size := utf8.DecodeLastRune(text)
	first, _ := utf8.DecodeRuneInString(next)
	if last == '\u00ad' || last == '-' && unicode.IsLower(first) {
		if before, _ := utf8.DecodeLastRune(text[:len(text)-size]); unicode.IsLower(before) {
			return text[:len(text)-size]
		}
	}
	if wide(last) || wide(first) {
		return text
	}
	return append(text, ' ')
}

func ends(l string) bool {
	r, _ := utf8.DecodeLastRuneInString(strings.TrimRight(l, `"'”’」』）)]`))
	return strings.ContainsRune(".!?:;。！？：；…", r)
}

func wide(r rune) bool {
	return r >= 0x2e80 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff || r >= 0xff00 && r <= 0xffef || r >= 0x20000 && r <= 0x3ffff
}

func width(l string) int {
	n := 0
	for _, r := range l {
		if n++; wide(r) {
			n++
		}
	}
	return n
}
