package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Arguments are what a model passed to a tool, once parsed.
type Arguments struct {
	// JSON is one compact object: keys in the order written, each once (the last
	// value of a repeated key counts), digits of numbers as written.
	JSON json.RawMessage
	// Repairs says what had to be repaired, each kind once, in the order found;
	// empty when the text parsed strictly. A caller that may have received a cut
	// text (finish reason length) accepts only arguments without repairs.
	Repairs []string
}

// ArgumentError says why arguments were refused. Nothing has run.
type ArgumentError struct {
	Offset    int    // in bytes, from the start of the raw text
	Near      string // a few characters from there, "" at the end of the text
	Message   string // what is wrong there
	Truncated bool   // the text ends in the middle of a string or an object
}

func (e *ArgumentError) Error() string {
	where := "at the end of the text"
	if e.Near != "" {
		where = fmt.Sprintf("near %q", e.Near)
	}
	return fmt.Sprintf("the arguments are not a valid JSON object: %s (byte %d, %s)", e.Message, e.Offset, where)
}

// ParseArguments reads the raw arguments of a call. Blank text and null mean
// {}. Text that is not strictly JSON is repaired only where the meaning cannot
// change (the Repair constants); everything else is an *ArgumentError.
func ParseArguments(raw string) (Arguments, error) {
	if blank(raw) || strings.TrimSpace(raw) == "null" {
		return Arguments{JSON: json.RawMessage("{}")}, nil
	}
	if json.Valid([]byte(raw)) {
		return parseStrict(raw)
	}
	return repair(raw)
}

func parseStrict(raw string) (Arguments, error) {
	start := strings.IndexFunc(raw, func(r rune) bool { return !strings.ContainsRune(" \t\r\n", r) })
	switch raw[start] {
	case '{':
		r := &reader{text: raw, pos: start}
		n, err := r.value(0)
		if err != nil {
			return Arguments{}, err
		}
		return Arguments{JSON: n.compact()}, nil
	case '"':
		// Some models encode the object once more, as a string.
		var inner string
		if err := json.Unmarshal([]byte(raw), &inner); err == nil {
			if blank(inner) {
				return Arguments{JSON: json.RawMessage("{}"), Repairs: []string{RepairNested}}, nil
			}
			if in := strings.TrimSpace(inner); strings.HasPrefix(in, "{") && json.Valid([]byte(in)) {
				args, err := parseStrict(in)
				args.Repairs = append([]string{RepairNested}, args.Repairs...)
				return args, err
			}
		}
	}
	return Arguments{}, &ArgumentError{Offset: start, Near: near(raw, start),
		Message: "a JSON object in braces is needed, this is another kind of value"}
}

// Canonical gives the one form of a JSON value that equal values share: keys
// sorted by their bytes, no white space, strings escaped in one manner. Digits
// of numbers stay as written, so 1 and 1.0 differ. For comparing calls and for
// approval digests.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(raw) {
		return nil, errors.New("canonical form: not valid JSON")
	}
	r := &reader{text: string(raw)}
	r.space()
	n, err := r.value(0)
	if err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	var b bytes.Buffer
	n.write(&b, true)
	return b.Bytes(), nil
}

// Digest is the sha256, in hex, of a call: its tool's name and its canonical
// arguments. An approval is bound to it.
func Digest(name string, canonical json.RawMessage) string {
	h := sha256.New()
	h.Write([]byte(name))
	h.Write([]byte{0})
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil))
}

// node is a JSON value whose scalars keep their text.
type node struct {
	kind  byte     // '{', '[', '"', or 'v' for number, true, false, null
	raw   string   // scalars: valid JSON text
	names []string // objects: decoded keys, each once
	keys  []string // objects: the keys' JSON text
	items []*node
}

func (n *node) get(name string) *node {
	if i := slices.Index(n.names, name); i >= 0 {
		return n.items[i]
	}
	return nil
}

func (n *node) compact() json.RawMessage {
	var b bytes.Buffer
	n.write(&b, false)
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer, canonical bool) {
	text := func(raw string) string {
		if canonical {
			return quote(unquote(raw))
		}
		return raw
	}
	switch n.kind {
	case '{':
		order := make([]int, len(n.items))
		for i := range order {
			order[i] = i
		}
		if canonical {
			slices.SortFunc(order, func(x, y int) int { return strings.Compare(n.names[x], n.names[y]) })
		}
		b.WriteByte('{')
		for k, i := range order {
			if k > 0 {
				b.WriteByte(',')
			}
			b.WriteString(text(n.keys[i]))
			b.WriteByte(':')
			n.items[i].write(b, canonical)
		}
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		for i, v := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			v.write(b, canonical)
		}
		b.WriteByte(']')
	case '"':
		b.WriteString(text(n.raw))
	default:
		b.WriteString(n.raw)
	}
}

// unquote decodes a JSON string that is known to be valid.
func unquote(raw string) string {
	var s string
	_ = json.Unmarshal([]byte(raw), &s)
	return s
}

// quote encodes s as a JSON string without escaping HTML characters.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

// near cuts up to 24 runes of text from a place in it.
func near(text string, at int) string {
	if at >= len(text) {
		return ""
	}
	rest := text[at:]
	end, n := 0, 0
	for end < len(rest) && n < 24 {
		_, size := utf8.DecodeRuneInString(rest[end:])
		end += size
		n++
	}
	return strings.ToValidUTF8(rest[:end], "\uFFFD")
}
