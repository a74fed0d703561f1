package handlers

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// thoughtReader extracts the string value of the key "thought" from the
// arguments of the thinking tool while they arrive, cut anywhere. It shows; it
// does not judge: what is wrong with the JSON is found when the call is parsed.
type thoughtReader struct {
	state   thoughtState
	key     strings.Builder
	depth   int
	escape  []byte // an unfinished escape sequence
	partial []byte // an unfinished UTF-8 sequence
	high    rune   // first half of a surrogate pair
}

type thoughtState int

const (
	outside    thoughtState = iota
	inKey                   // in a string that may be a key
	afterKey                // the string was "thought"; a colon must follow
	afterColon              // a quote must follow
	inValue
	finishedValue
)

// write takes the next piece and gives the text that it adds to the thought.
func (r *thoughtReader) write(piece string) string {
	var out strings.Builder
	for i := 0; i < len(piece); i++ {
		c := piece[i]
		switch r.state {
		case outside:
			switch c {
			case '{', '[':
				r.depth++
			case '}', ']':
				r.depth--
			case '"':
				r.key.Reset()
				r.state = inKey
			}
		case inKey:
			switch {
			case len(r.escape) > 0:
				r.escape = nil
				r.key.WriteByte('?')
			case c == '\\':
				r.escape = []byte{c}
			case c == '"':
				r.state = outside
				if r.depth == 1 && r.key.String() == "thought" {
					r.state = afterKey
				}
			default:
				r.key.WriteByte(c)
			}
		case afterKey:
			if c == ':' {
				r.state = afterColon
			} else if c > ' ' {
				r.state = outside
			}
		case afterColon:
			if c == '"' {
				r.state = inValue
			} else if c > ' ' {
				r.state = outside
			}
		case inValue:
			if r.value(&out, c) {
				r.state = finishedValue
			}
		case finishedValue:
			return out.String()
		}
	}
	return out.String()
}

// value takes one byte of the string; true at its end.
func (r *thoughtReader) value(out *strings.Builder, c byte) bool {
	if len(r.escape) > 0 {
		r.escape = append(r.escape, c)
		if r.escape[1] != 'u' {
			if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
				r.put(out, rune("\"\\/\b\f\n\r\t"[i]))
			} else {
				r.put(out, '\\')
				r.put(out, rune(c))
			}
			r.escape = nil
		} else if len(r.escape) == 6 {
			n, err := strconv.ParseUint(string(r.escape[2:]), 16, 32)
			r.escape = nil
			if err != nil {
				r.put(out, utf8.RuneError)
				return false
			}
			r.unit(out, rune(n))
		}
		return false
	}
	switch {
	case c == '"' && len(r.partial) == 0:
		r.unit(out, 0)
		return true
	case c == '\\':
		r.escape = []byte{c}
	case c < utf8.RuneSelf:
		r.partial = nil
		r.put(out, rune(c))
	default:
		r.partial = append(r.partial, c)
		if utf8.FullRune(r.partial) {
			ch, _ := utf8.DecodeRune(r.partial)
			r.partial = nil
			r.put(out, ch)
		}
	}
	return false
}

// unit takes a UTF-16 code unit of a \u escape; 0 only flushes a lone half.
func (r *thoughtReader) unit(out *strings.Builder, u rune) {
	if r.high != 0 {
		pair := utf16.DecodeRune(r.high, u)
		r.high = 0
		out.WriteRune(pair) // U+FFFD if the halves do not fit
		if pair != utf8.RuneError {
			return
		}
	}
	switch {
	case utf16.IsSurrogate(u) && u < 0xdc00:
		r.high = u
	case u != 0:
		out.WriteRune(u)
	}
}

func (r *thoughtReader) put(out *strings.Builder, c rune) {
	r.unit(out, 0)
	out.WriteRune(c)
}
