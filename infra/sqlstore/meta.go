package sqlstore

import (
	"bytes"
	"encoding/json"
	"strings"

	"refold/domain/event"
)

// EncodeMeta gives the metadata as JSON, so that people can read the table; nil
// if there is none.
func EncodeMeta(m event.Metadata) []byte {
	if m == (event.Metadata{}) {
		return nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(m) // a struct of strings always encodes
	return bytes.TrimRight(b.Bytes(), "\n")
}

// DecodeMeta reads what EncodeMeta wrote. Metadata nearly never holds a
// character that JSON escapes; without one the values are cut out of the string
// as they are, several times faster than a decoder.
func DecodeMeta(text string) (m event.Metadata, err error) {
	if text == "" {
		return m, nil
	}
	if strings.IndexByte(text, '\\') < 0 {
		if m, ok := cutMeta(text); ok {
			return m, nil
		}
	}
	err = json.Unmarshal([]byte(text), &m)
	return m, err
}

// cutMeta reads members in the order in which EncodeMeta writes them.
func cutMeta(s string) (m event.Metadata, ok bool) {
	for _, f := range [...]struct {
		name  string
		value *string
	}{
		{`"correlation":"`, &m.Correlation}, {`"causation":"`, &m.Causation}, {`"command":"`, &m.Command},
		{`"actor":"`, &m.Actor}, {`"trace":"`, &m.Trace},
	} {
		if len(s) <= 1 || s[1:min(len(s), len(f.name)+1)] != f.name {
			continue
		}
		s = s[len(f.name)+1:]
		end := strings.IndexByte(s, '"')
		if end < 0 {
			return m, false
		}
		*f.value, s = s[:end], s[end+1:]
	}
	return m, s == "}"
}
