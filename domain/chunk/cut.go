package chunk

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxCluster is the most bytes of a character that are kept together.
const maxCluster = 64

// sentences calls yield for each sentence from from to to, with what follows it
// up to the next one.
func sentences(text string, from, to int, yield func(from, to int)) {
	start, i := from, from
	for i < to {
		r, n := utf8.DecodeRuneInString(text[i:to])
		i += n
		if !endsSentence(text, start, i, to, r) {
			continue
		}
		for i < to {
			r, n := utf8.DecodeRuneInString(text[i:to])
			if !isClosing(r) && !isBlank(r) && !isStop(r) {
				break
			}
			i += n
		}
		yield(start, i)
		start = i
	}
	if start < to {
		yield(start, to)
	}
}

func isStop(r rune) bool {
	switch r {
	case '。', '！', '？', '；', '｡', '…', '⋯', '।', '॥', '؟', '۔', '։', '።', '!', '?':
		return true
	}
	return false
}

func isClosing(r rune) bool {
	switch r {
	case '"', '\'', ')', ']', '}', '*', '_', '”', '’', '」', '』', '）', '】', '》', '〉', '»':
		return true
	}
	return false
}

// endsSentence tells whether a sentence that began at start ends with r, which
// ends at i.
func endsSentence(text string, start, i, to int, r rune) bool {
	switch r {
	case '。', '！', '？', '；', '｡', '।', '॥', '؟', '۔', '։', '።':
		return true
	case '.', '!', '?', ';', '…', '⋯':
	default:
		return false
	}
	next, size := utf8.DecodeRuneInString(text[i:to])
	for k := 0; k < 4 && size > 0 && (isClosing(next) || isStop(next)); k++ {
		i += size
		next, size = utf8.DecodeRuneInString(text[i:to])
	}
	if size > 0 && !unicode.IsSpace(next) && !isWide(next) {
		return false
	}
	return r != '.' || !abbreviated(text[start:i])
}

// abbreviated tells whether the point at the end of s belongs to a word as in
// "e.g.", "Dr." or "J. Smith", or numbers a list.
func abbreviated(s string) bool {
	s = strings.TrimRight(s, ".")
	word := s
	if len(word) > 16 {
		word = word[len(word)-16:]
	}
	if i := strings.LastIndexAny(word, " \t\r\n("); i >= 0 {
		word = word[i+1:]
	}
	if utf8.RuneCountInString(word) <= 1 {
		return !strings.HasSuffix(word, ")") && word != "" && !isWide(firstRune(word))
	}
	switch strings.ToLower(word) {
	case "mr", "mrs", "ms", "dr", "prof", "st", "no", "vs", "etc", "fig", "figs", "eq", "e.g", "i.e", "cf", "al", "inc", "ltd", "approx", "vol", "pp":
		return true
	}
	return strings.Trim(word, "0123456789") == "" && len(word) <= 3 && len(s) <= 4
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// separated is sentences for a separator: each part ends with one.
func separated(text string, from, to int, separator string, yield func(from, to int)) {
	for from < to {
		i := strings.Index(text[from:to], separator)
		if i < 0 {
			break
		}
		yield(from, from+i+len(separator))
		from += i + len(separator)
	}
	if from < to {
		yield(from, to)
	}
}

// units calls yield for parts of at most size bytes, cut behind white space or
// punctuation where there is some, and never inside a character of up to maxCluster
// bytes.
func units(text string, from, to, size int, yield func(from, to int)) {
	for from < to {
		if to-from <= size {
			yield(from, to)
			return
		}
		cut, soft := from, from
		for i := from; i < to; {
			end := cluster(text, i, to)
			if end-from > size && cut > from {
				break
			}
			if r, _ := utf8.DecodeLastRuneInString(text[i:end]); unicode.IsSpace(r) || isWide(r) && unicode.IsPunct(r) || strings.ContainsRune(",;:", r) {
				soft = end
			}
			cut, i = end, end
		}
		if soft-from >= size/4 && soft > from && cut < to {
			cut = soft
		}
		yield(from, cut)
		from = cut
	}
}

// cluster is where the character that begins at i ends: a rune with what combines
// with it, a flag, an emoji of several, a line break.
func cluster(text string, i, to int) int {
	limit := min(to, i+maxCluster)
	r, n := utf8.DecodeRuneInString(text[i:to])
	i += n
	flag := isFlag(r)
	for i < limit {
		next, n := utf8.DecodeRuneInString(text[i:to])
		if i+n > limit {
			break
		}
		switch {
		case r == '\r' && next == '\n', r == '\u200d', hangul(r, next):
		case flag && isFlag(next):
			flag = false
		case extends(next):
			i += n
			if next == '\u200d' {
				r = next
			}
			continue
		default:
			return i
		}
		r = next
		i += n
	}
	return i
}

func isFlag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// extends tells whether a rune is part of the character before it.
func extends(r rune) bool {
	return r >= 0x300 && (unicode.In(r, unicode.Mn, unicode.Me, unicode.Mc) || r == '\u200d' || r == '\u200c' ||
		r >= 0x1f3fb && r <= 0x1f3ff || r >= 0xe0020 && r <= 0xe007f)
}

// hangul tells whether two jamo are of one syllable.
func hangul(a, b rune) bool {
	lead, vowel := a >= 0x1100 && a <= 0x115f, a >= 0x1160 && a <= 0x11a7
	syllable, tail := a >= 0xac00 && a <= 0xd7a3, a >= 0x11a8 && a <= 0x11ff
	switch {
	case b >= 0x1100 && b <= 0x115f:
		return lead
	case b >= 0x1160 && b <= 0x11a7:
		return lead || vowel || syllable
	case b >= 0x11a8 && b <= 0x11ff:
		return vowel || tail || syllable
	case b >= 0xac00 && b <= 0xd7a3:
		return lead
	}
	return false
}

// isWide tells whether a rune is of a script that is written without spaces, or
// of its punctuation.
func isWide(r rune) bool {
	return r >= 0x2e80 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe4f ||
		r >= 0xff00 && r <= 0xffef || r >= 0xac00 && r <= 0xd7a3 || r >= 0x20000 && r <= 0x3ffff
}
