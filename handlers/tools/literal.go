package tools

import (
	"bytes"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// literals are texts of which each match of a pattern has one, ASCII in lower
// case. Looking for them is far cheaper than matching. None means that there is
// no such list.
type literals []string

const (
	maxLiterals = 40
	minLiteral  = 2 // bytes
)

func literalsOf(pattern string) literals {
	tree, err := syntax.Parse("(?i)"+pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	list := neededBy(tree)
	if len(list) > maxLiterals {
		return nil
	}
	return list
}

func neededBy(re *syntax.Regexp) literals {
	switch re.Op {
	case syntax.OpLiteral:
		if text := longest(re.Rune, re.Flags&syntax.FoldCase != 0); len(text) >= minLiteral {
			return literals{text}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return neededBy(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return neededBy(re.Sub[0])
		}
	case syntax.OpAlternate:
		var list literals
		for _, sub := range re.Sub {
			one := neededBy(sub)
			if one == nil || len(list) > maxLiterals {
				return nil
			}
			list = append(list, one...)
		}
		return list
	case syntax.OpConcat:
		var best literals
		for _, sub := range re.Sub {
			if list := neededBy(sub); best == nil || list != nil && list.shortest() > best.shortest() {
				best = list
			}
		}
		return best
	}
	return nil
}

func (l literals) shortest() int {
	n := len(l[0])
	for _, s := range l {
		n = min(n, len(s))
	}
	return n
}

// longest is the longest stretch of a literal that stands in a matching text as
// it is, but for the case of ASCII letters.
func longest(runes []rune, fold bool) string {
	best, from := "", 0
	for i := range len(runes) + 1 {
		if i < len(runes) && runes[i] != utf8.RuneError && (!fold || runes[i] < utf8.RuneSelf || unicode.SimpleFold(runes[i]) == runes[i]) {
			continue
		}
		if text := string(runes[from:i]); len(text) > len(best) {
			best = text
		}
		from = i + 1
	}
	return string(lowered([]byte(best)))
}

// lowered is text with ASCII letters in lower case, byte for byte.
func lowered(text []byte) []byte {
	low := make([]byte, len(text))
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	return low
}

// foldable tells of text that has one of the two letters beyond ASCII which are
// the same as one in it when case does not count: the Kelvin sign and the long s.
func foldable(text []byte) bool {
	return bytes.Contains(text, []byte("\u212a")) || bytes.Contains(text, []byte("\u017f"))
}

// in tells whether a text, lowered, may match.
func (l literals) in(low []byte) bool {
	for _, s := range l {
		if bytes.Contains(low, []byte(s)) {
			return true
		}
	}
	return l == nil
}
