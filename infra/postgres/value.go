package postgres

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"refold/domain/event"
)

// maxEntry is how much of a value the index holds, in bytes. Longer values are
// sorted by their beginning and compared in full when filtered.
const maxEntry = 512

// key is an index value as bytes that sort like the value: empty for missing,
// then numbers, then strings.
type key []byte

const (
	kindNumber = 1
	kindText   = 2
)

// newKey gives a value as it is kept; bools are 0 and 1.
func newKey(v any) (key, error) {
	switch v := v.(type) {
	case string:
		return append(key{kindText}, v...), nil
	case int64:
		return binary.BigEndian.AppendUint64(key{kindNumber}, uint64(v)^(1<<63)), nil
	case bool:
		if v {
			return newKey(int64(1))
		}
		return newKey(int64(0))
	}
	return nil, fmt.Errorf("%w: an index value is a string, int64 or bool, not %T", event.ErrInvalid, v)
}

// value gives back a string or int64.
func (k key) value() (any, bool) {
	switch {
	case len(k) == 9 && k[0] == kindNumber:
		return int64(binary.BigEndian.Uint64(k[1:]) ^ (1 << 63)), true
	case len(k) > 0 && k[0] == kindText:
		return string(k[1:]), true
	}
	return nil, false
}

// entry is the key as the index holds it.
func (k key) entry() key { return k[:min(len(k), maxEntry)] }

// whole is the key if the index holds only its beginning, nil otherwise.
func (k key) whole() []byte {
	if len(k) > maxEntry {
		return k
	}
	return nil
}

// folded is the lower case of a string, nil if it is the same.
func (k key) folded() []byte {
	if len(k) == 0 || k[0] != kindText {
		return nil
	}
	if low := strings.ToLower(string(k[1:])); low != string(k[1:]) {
		return append(key{kindText}, low...)
	}
	return nil
}

// fields are the index values of a document, by name.
type fields []fieldKey

type fieldKey struct {
	name string
	key  key
}

func newFields(index map[string]any) (fields, error) {
	out := make(fields, 0, len(index))
	for name, v := range index {
		k, err := newKey(v)
		if err != nil {
			return nil, fmt.Errorf("index field %s: %w", name, err)
		}
		out = append(out, fieldKey{name, k})
	}
	slices.SortFunc(out, func(a, b fieldKey) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

// get gives a key, nil if the document does not have it.
func (f fields) get(name string) key {
	for _, v := range f {
		if v.name == name {
			return v.key
		}
	}
	return nil
}

// encode writes name and key one after the other, each with its length.
func (f fields) encode() []byte {
	b := []byte{}
	for _, v := range f {
		b = append(binary.AppendUvarint(b, uint64(len(v.name))), v.name...)
		b = append(binary.AppendUvarint(b, uint64(len(v.key))), v.key...)
	}
	return b
}

// decodeIndex reads what encode wrote.
func decodeIndex(b []byte) (map[string]any, error) {
	out := map[string]any{}
	next := func() ([]byte, bool) {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > math.MaxInt32 || int(n) > len(b)-k {
			return nil, false
		}
		part := b[k : k+int(n)]
		b = b[k+int(n):]
		return part, true
	}
	for len(b) > 0 {
		name, ok := next()
		part, ok2 := next()
		v, ok3 := key(part).value()
		if !ok || !ok2 || !ok3 {
			return nil, fmt.Errorf("%w: index values of a document", event.ErrCorrupt)
		}
		out[string(name)] = v
	}
	return out, nil
}
