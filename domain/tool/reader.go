package tool

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reader parses JSON with the tolerance that repair allows. On strict JSON it
// repairs nothing, with or without lenient.
type reader struct {
	text    string
	pos     int
	lenient bool
	repairs []string
	keys    byte // how the keys are quoted so far: '"', '\'', 'b' bare, 0 none seen
}

func (r *reader) fail(at int, format string, a ...any) error {
	return &ArgumentError{Offset: at, Near: near(r.text, at), Message: fmt.Sprintf(format, a...)}
}

func (r *reader) cut(message string) error {
	return &ArgumentError{Offset: r.pos, Near: near(r.text, r.pos), Message: message, Truncated: true}
}

func (r *reader) space() {
	for r.pos < len(r.text) {
		c, size := utf8.DecodeRuneInString(r.text[r.pos:])
		if !unseen(c) {
			return
		}
		if !strings.ContainsRune(" \t\r\n", c) {
			r.note(RepairSpace)
		}
		r.pos += size
	}
}

func (r *reader) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, r.fail(r.pos, "nested too deep")
	}
	r.space()
	if r.ended() {
		return nil, r.cut("a value is missing")
	}
	switch c := r.text[r.pos]; {
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.array(depth)
	case c == '"' || c == '\'':
		raw, err := r.string()
		return &node{kind: '"', raw: raw}, err
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	}
	return r.literal()
}

func (r *reader) object(depth int) (*node, error) {
	n := &node{kind: '{'}
	index := map[string]int{}
	r.pos++
	for first := true; ; first = false {
		r.space()
		if r.ended() {
			return nil, r.cut("the object ends where a key should stand")
		}
		if r.text[r.pos] == '}' {
			if !first {
				r.note(RepairComma)
			}
			r.pos++
			return n, nil
		}
		key, err := r.key()
		if err != nil {
			return nil, err
		}
		r.space()
		if r.ended() {
			return nil, r.cut("the object ends after a key")
		}
		if r.text[r.pos] != ':' {
			return nil, r.fail(r.pos, "a colon is missing after the key %s", key)
		}
		r.pos++
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		name := unquote(key)
		if i, seen := index[name]; seen {
			n.items[i] = v
		} else {
			index[name] = len(n.items)
			n.names, n.keys, n.items = append(n.names, name), append(n.keys, key), append(n.items, v)
		}
		done, err := r.next('}', ']')
		if done || err != nil {
			return n, err
		}
	}
}

func (r *reader) array(depth int) (*node, error) {
	n := &node{kind: '['}
	r.pos++
	for first := true; ; first = false {
		r.space()
		if r.ended() {
			return nil, r.cut("the list ends where a value should stand")
		}
		if r.text[r.pos] == ']' {
			if !first {
				r.note(RepairComma)
			}
			r.pos++
			return n, nil
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, v)
		done, err := r.next(']', '}')
		if done || err != nil {
			return n, err
		}
	}
}

// next reads what follows a complete value: a comma, the closer, or the end of
// the text, where the closer is added.
func (r *reader) next(closer, wrong byte) (done bool, err error) {
	r.space()
	if r.ended() {
		r.note(RepairClosers)
		return true, nil
	}
	switch c := r.text[r.pos]; {
	case c == ',':
		r.pos++
		return false, nil
	case c == closer:
		r.pos++
		return true, nil
	case c == wrong:
		return false, r.fail(r.pos, "%q stands where %q or a comma should stand", c, closer)
	case endsString(r.text[:r.pos]):
		return false, r.fail(r.pos, errInnerQuote)
	}
	return false, r.fail(r.pos, "a comma or %q is missing", closer)
}

func endsString(before string) bool {
	before = strings.TrimRightFunc(before, unseen)
	return strings.HasSuffix(before, `"`) || strings.HasSuffix(before, "'")
}

func (r *reader) key() (string, error) {
	start := r.pos
	kind := r.text[r.pos]
	var key string
	var err error
	switch {
	case kind == '"' || kind == '\'':
		if key, err = r.string(); err != nil {
			return "", err
		}
	default:
		end := start
		for end < len(r.text) {
			c, size := utf8.DecodeRuneInString(r.text[end:])
			if !(c == '_' || c == '$' || unicode.IsLetter(c) || unicode.IsDigit(c)) {
				break
			}
			end += size
		}
		if end == start || r.text[start] >= '0' && r.text[start] <= '9' {
			return "", r.fail(start, "a key in double quotes should stand here")
		}
		kind, key = 'b', quote(r.text[start:end])
		r.pos = end
		if end == len(r.text) {
			return "", r.cut("the object ends in a key")
		}
		r.note(RepairBareKey)
	}
	if r.keys != 0 && r.keys != kind {
		return "", r.fail(start, errMixedKeys)
	}
	r.keys = kind
	return key, nil
}

func alnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// number reads a number by the grammar of JSON.
func (r *reader) number() (*node, error) {
	start, s := r.pos, r.text
	digits := func() bool {
		from := r.pos
		for r.pos < len(s) && s[r.pos] >= '0' && s[r.pos] <= '9' {
			r.pos++
		}
		return r.pos > from
	}
	bad := func() (*node, error) {
		if r.pos >= len(s) {
			return nil, r.cut("the text ends in a number")
		}
		return nil, r.fail(start, "this is not a JSON number")
	}
	if s[r.pos] == '-' {
		r.pos++
	}
	if from := r.pos; !digits() || s[from] == '0' && r.pos-from > 1 {
		return bad()
	}
	if r.pos < len(s) && s[r.pos] == '.' {
		r.pos++
		if !digits() {
			return bad()
		}
	}
	if r.pos < len(s) && (s[r.pos] == 'e' || s[r.pos] == 'E') {
		r.pos++
		if r.pos < len(s) && (s[r.pos] == '+' || s[r.pos] == '-') {
			r.pos++
		}
		if !digits() {
			return bad()
		}
	}
	if r.pos < len(s) && (alnum(s[r.pos]) || strings.IndexByte("._+-", s[r.pos]) >= 0) {
		return bad()
	}
	return &node{kind: 'v', raw: s[start:r.pos]}, nil
}

func (r *reader) literal() (*node, error) {
	start := r.pos
	end := start
	for end < len(r.text) && (alnum(r.text[end]) || r.text[end] == '_') {
		end++
	}
	word := r.text[start:end]
	raw, ok := map[string]string{"true": "true", "false": "false", "null": "null",
		"True": "true", "False": "false", "None": "null"}[word]
	if !ok {
		if end == len(r.text) && end > start {
			r.pos = end
			return nil, r.cut("the text ends in an unquoted value")
		}
		return nil, r.fail(start, "a value should stand here; text values need double quotes")
	}
	if raw != word {
		r.note(RepairLiteral)
	}
	r.pos = end
	return &node{kind: 'v', raw: raw}, nil
}
