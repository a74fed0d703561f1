package sqlite

import (
	"bytes"
	"encoding/json"
	"strings"

	"refold/domain/event"
)

// encodeMeta gives the metadata as JSON, so that people can read the table; nil
// if there is none.
func encodeMeta(m event.Metadata) []byte {
	if m == (event.Metadata{}) {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(m) // a struct of strings always encodes
	return bytes.TrimRight(b.Bytes(), "\n")
}

// decodeMeta reads what encodeMeta wrote. Metadata nearly never holds a
// character that JSON escapes; without one the values are cut out of one
// string, several times faster than a decoder.
func decodeMeta(raw []byte) (m event.Metadata, err error) {
	if len(raw) == 0 {
		return m, nil
	}
	if bytes.IndexByte(raw, '\\') < 0 && raw[0] == '{' && raw[len(raw)-1] == '}' {
		if m, ok := cutMeta(string(raw[1 : len(raw)-1])); ok {
			return m, nil
		}
	}
	err = json.Unmarshal(raw, &m)
	return m, err
}

// cutMeta reads members of the form "name":"value" without escapes.
func cutMeta(s string) (m event.Metadata, ok bool) {
	for {
		if len(s) == 0 || s[0] != '"' {
			return m, false
		}
		name, rest, found := strings.Cut(s[1:], `":"`)
		if !found {
			return m, false
		}
		value, rest, found := strings.Cut(rest, `"`)
		if !found {
			return m, false
		}
		switch name {
		case "correlation":
			m.Correlation = value
		case "causation":
			m.Causation = value
		case "command":
			m.Command = value
		case "actor":
			m.Actor = value
		case "trace":
			m.Trace = value
		default:
			return m, false
		}
		if rest == "" {
			return m, true
		}
		if rest[0] != ',' {
			return m, false
		}
		s = rest[1:]
	}
}
