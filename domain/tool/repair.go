package tool

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// What ParseArguments may repair. Each adds or removes only what cannot change
// the meaning; mixed ways of quoting keys, unquoted text values, open strings,
// unescaped inner quotes and brackets closed by the wrong kind are refused.
const (
	RepairNested  = "the object was encoded as a string"
	RepairBefore  = "removed text before the object"
	RepairAfter   = "removed text after the object"
	RepairComma   = "removed a trailing comma"
	RepairClosers = "added missing closing brackets"
	RepairEscape  = "kept an invalid escape as a literal backslash"
	RepairControl = "escaped a raw control character"
	RepairLiteral = "replaced a Python literal"
	RepairQuotes  = "replaced single quotes"
	RepairBareKey = "quoted a bare key"
	RepairSpace   = "ignored unusual white space"
)

const (
	maxDepth        = 10000 // as encoding/json
	errInnerQuote   = "unexpected text after a string: a quote inside the string is not escaped, or a comma is missing"
	errMixedKeys    = "keys are quoted in different ways, so a quote may be missing"
	errSecondObject = "there is more than one object or stray brackets around it"
)

// A single word before the object is a key without its braces, unless it is one
// of the words that introduce arguments.
var (
	loneKey = regexp.MustCompile(`^["'\x60]?[\p{L}\p{N}_.-]+["'\x60]?\s*[:=]$`)
	intro   = regexp.MustCompile(`(?i)^["'\x60]?(arguments?|args|parameters|params|input|json|output|call|answer)["'\x60]?\s*[:=]$`)
)

func repair(raw string) (Arguments, error) {
	start := strings.IndexByte(raw, '{')
	if start < 0 {
		return Arguments{}, &ArgumentError{Offset: 0, Near: near(raw, 0), Message: "there is no object in braces"}
	}
	r := &reader{text: raw, pos: start, lenient: true}
	before := strings.TrimFunc(raw[:start], unseen)
	fenced := false
	if i := strings.LastIndex(before, "```"); i >= 0 && !strings.ContainsAny(before[i:], "\n ") {
		before, fenced = strings.TrimFunc(before[:i], unseen), true
	}
	if raw[:start] != "" {
		r.note(RepairBefore)
	}
	if strings.ContainsAny(before, "}[]") || strings.HasSuffix(before, ",") {
		return Arguments{}, &ArgumentError{Offset: 0, Near: near(raw, 0), Message: errSecondObject}
	}
	if !fenced && loneKey.MatchString(before) && !intro.MatchString(before) {
		return Arguments{}, &ArgumentError{Offset: 0, Near: near(raw, 0),
			Message: "a key stands before the object: the outer braces are missing"}
	}
	n, err := r.value(0)
	if err != nil {
		return Arguments{}, err
	}
	rest := strings.TrimLeftFunc(raw[r.pos:], unseen)
	if rest != "" {
		r.note(RepairAfter)
		at := len(raw) - len(rest)
		if strings.ContainsAny(rest, "{}") || strings.ContainsAny(rest[:1], `,:[]"'`) {
			return Arguments{}, &ArgumentError{Offset: at, Near: near(raw, at), Message: errSecondObject}
		}
	}
	return Arguments{JSON: n.compact(), Repairs: r.repairs}, nil
}

// unseen tells white space and the zero-width characters that models emit.
func unseen(c rune) bool {
	return unicode.IsSpace(c) || c == '\uFEFF' || c == '\u200B' || c == '\u2060'
}

func blank(s string) bool { return strings.TrimFunc(s, unseen) == "" }

func (r *reader) note(what string) {
	if !slices.Contains(r.repairs, what) {
		r.repairs = append(r.repairs, what)
	}
}

// ended tells whether the text ends here, as far as JSON is concerned: at its
// end, at a closing fence, or at a model's special token.
func (r *reader) ended() bool {
	if r.pos >= len(r.text) {
		return true
	}
	rest := r.text[r.pos:]
	for _, p := range []string{"```", "~~~", "<|", "<\uFF5C", "</"} {
		if strings.HasPrefix(rest, p) {
			return r.lenient
		}
	}
	return false
}
