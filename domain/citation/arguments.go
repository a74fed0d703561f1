package citation

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"refold/domain/tool"
)

// DecodeArguments gives the arguments of a call with ids for the handles in the
// fields that the tool's definition names (tool.Definition.Handles), and the
// handles that stand for nothing, in which case the call must not run. A handle
// of a part stands for the whole where the whole is asked for. Arguments that
// are no JSON object come back as they are.
func (r *Registry) DecodeArguments(d tool.Definition, args string) (decoded string, unknown []string) {
	if len(d.Handles) == 0 {
		return args, nil
	}
	fields, ok := object(args)
	if !ok {
		return args, nil
	}
	changed := false
	var walk func(v any) any
	resolve := func(want, text string) string {
		if want == tool.HandleSQL {
			out := literal.ReplaceAllStringFunc(text, func(q string) string {
				if s, ok := r.Source(q[1 : len(q)-1]); ok {
					return "'" + strings.ReplaceAll(s.ID, "'", "''") + "'"
				}
				return q
			})
			changed = changed || out != text
			return out
		}
		t := strings.TrimSpace(text)
		if !handle.MatchString(t) {
			return text
		}
		s, ok := r.Source(t)
		id := ""
		if ok {
			id = s.as(want)
		}
		if id == "" {
			if !slices.Contains(unknown, t) {
				unknown = append(unknown, t)
			}
			return text
		}
		changed = true
		return id
	}
	field := func(want string, v any) any {
		switch v := v.(type) {
		case string:
			return resolve(want, v)
		case []any:
			for i, item := range v {
				if text, ok := item.(string); ok {
					v[i] = resolve(want, text)
				} else {
					v[i] = walk(item)
				}
			}
			return v
		}
		return walk(v)
	}
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, item := range v {
				if want, ok := d.Handles[name]; ok {
					v[name] = field(want, item)
				} else {
					v[name] = walk(item)
				}
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		}
		return v
	}
	walk(fields)
	if !changed {
		return args, unknown
	}
	return encode(fields, args), unknown
}

// EncodeArguments gives the arguments of an earlier call as the model wrote them.
func (r *Registry) EncodeArguments(args string) string {
	if r.Empty() {
		return args
	}
	args = r.ids().Replace(args)
	for k, h := range r.handles {
		if k.kind == Page {
			args = strings.ReplaceAll(args, `"`+k.id+`"`, `"`+h+`"`)
			if quoted, err := json.Marshal(k.id); err == nil { // as encoders that are careful with HTML write it
				args = strings.ReplaceAll(args, string(quoted), `"`+h+`"`)
			}
		}
	}
	return args
}

// literal is a handle as a quoted SQL string.
var literal = regexp.MustCompile(`(?i)'[cdb][1-9][0-9]{0,5}'`)

// as gives the id of the kind that is wanted, "" if the source has none.
func (s Source) as(want string) string {
	switch {
	case want == tool.HandleChunk && s.Kind == Chunk, want == tool.HandleDocument && s.Kind == Document,
		want == tool.HandleBase && s.Kind == Base, want == tool.HandlePage && s.Kind == Page:
		return s.ID
	case want == tool.HandleDocument && s.Kind == Chunk:
		return s.Document
	case want == tool.HandleBase && (s.Kind == Chunk || s.Kind == Document):
		return s.Base
	}
	return ""
}

func object(args string) (map[string]any, bool) {
	dec := json.NewDecoder(strings.NewReader(args))
	dec.UseNumber()
	var fields map[string]any
	return fields, dec.Decode(&fields) == nil && fields != nil && !dec.More()
}

func encode(fields map[string]any, old string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return old
	}
	return strings.TrimSuffix(b.String(), "\n")
}
