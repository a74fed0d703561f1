package sqlite

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
	"refold/projections"
)

// maxEntry is how much of a string the index holds, in bytes. Longer values are
// sorted by their beginning and compared in full when filtered.
const maxEntry = 512

// fields are the index values of a document as they are stored: by name, each
// int64 or string.
type fields []value

type value struct {
	name string
	v    any
}

// normal gives an index value as it is kept.
func normal(v any) (any, error) {
	switch v := v.(type) {
	case string, int64:
		return v, nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	}
	return nil, fmt.Errorf("%w: an index value is a string, int64 or bool, not %T", event.ErrInvalid, v)
}

func newFields(index map[string]any) (fields, error) {
	out := make(fields, 0, len(index))
	for name, v := range index {
		n, err := normal(v)
		if err != nil {
			return nil, fmt.Errorf("index field %s: %w", name, err)
		}
		out = append(out, value{name, n})
	}
	slices.SortFunc(out, func(a, b value) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

// get gives a value, nil if the document does not have it.
func (f fields) get(name string) any {
	for _, v := range f {
		if v.name == name {
			return v.v
		}
	}
	return nil
}

func (f fields) index() map[string]any {
	out := make(map[string]any, len(f))
	for _, v := range f {
		out[v.name] = v.v
	}
	return out
}

// encode writes name and value one after the other, lengths as varints.
func (f fields) encode() []byte {
	var b []byte
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	for _, v := range f {
		text(v.name)
		switch v := v.v.(type) {
		case int64:
			b = binary.AppendVarint(append(b, 'i'), v)
		case string:
			b = append(b, 's')
			text(v)
		}
	}
	return b
}

func decodeFields(raw []byte) (fields, error) {
	out := make(fields, 0, 8)
	text, at := string(raw), 0 // one string for all names and values
	word := func() (string, bool) {
		n, k := binary.Uvarint(raw[at:])
		if k <= 0 || n > uint64(len(raw)-at-k) {
			return "", false
		}
		at += k + int(n)
		return text[at-int(n) : at], true
	}
	for at < len(raw) {
		name, ok := word()
		if !ok || at == len(raw) {
			return nil, errFields
		}
		at++
		switch kind := raw[at-1]; kind {
		case 'i':
			n, k := binary.Varint(raw[at:])
			if k <= 0 {
				return nil, errFields
			}
			at += k
			out = append(out, value{name, n})
		case 's':
			v, ok := word()
			if !ok {
				return nil, errFields
			}
			out = append(out, value{name, v})
		default:
			return nil, errFields
		}
	}
	return out, nil
}

var errFields = fmt.Errorf("%w: index values of a document", event.ErrCorrupt)

// entry is a value as the index holds it: nil for missing, strings cut.
func entry(v any) any {
	if s, ok := v.(string); ok && len(s) > maxEntry {
		return s[:maxEntry]
	}
	return v
}

// order compares index entries as SQLite does: missing, numbers, strings.
func order(a, b any) int {
	switch a := a.(type) {
	case nil:
		if b == nil {
			return 0
		}
		return -1
	case int64:
		switch b := b.(type) {
		case nil:
			return 1
		case int64:
			return cmp.Compare(a, b)
		}
		return -1
	case string:
		if b, ok := b.(string); ok {
			return cmp.Compare(a, b)
		}
	}
	return 1
}

// inGroup is the filter operator that compares index entries, also missing ones.
const inGroup = "in group"

// holds tells whether a document passes all filters. Values of different types
// never match, nor does a missing value.
func (f fields) holds(where []projections.Where) bool {
	for _, w := range where {
		v := f.get(w.Field)
		if w.Op == inGroup {
			if entry(v) != w.Value {
				return false
			}
			continue
		}
		_, text := v.(string)
		if _, wanted := w.Value.(string); v == nil || text != wanted {
			return false
		}
		ok := false
		switch c := order(v, w.Value); w.Op {
		case "=":
			ok = c == 0
		case "<":
			ok = c < 0
		case "<=":
			ok = c <= 0
		case ">":
			ok = c > 0
		case ">=":
			ok = c >= 0
		case "contains":
			ok = text && strings.Contains(strings.ToLower(v.(string)), strings.ToLower(w.Value.(string)))
		}
		if !ok {
			return false
		}
	}
	return true
}

// bindEntry binds an index entry; a missing value is below every other.
func bindEntry(s *sqlite3.Stmt, param int, v any) error {
	switch v := v.(type) {
	case int64:
		return s.BindInt64(param, v)
	case string:
		return s.BindText(param, v)
	}
	return s.BindFloat(param, math.Inf(-1))
}

// columnEntry reads an index entry.
func columnEntry(s *sqlite3.Stmt, col int) any {
	switch s.ColumnType(col) {
	case sqlite3.INTEGER:
		return s.ColumnInt64(col)
	case sqlite3.TEXT:
		return s.ColumnText(col)
	}
	return nil
}
