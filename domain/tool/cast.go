package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// Cast brings the top-level arguments to the types that the schema declares,
// where a model plainly meant them: a JSON-encoded string or a single value for
// an array, a JSON-encoded string for an object, "true"/"yes"/1 for a boolean,
// a numeric string for a number, a number or boolean for a string. A null for
// an optional property that may not be null is left out. A property that
// differs from a declared one only in case gets the declared name. Digits stay
// as written, save that an integer loses a zero fraction or exponent (5.0, 1e3).
// What cannot be cast stays as it is, for the validator to name. The error
// means that args is no JSON object, or that two spellings of one property
// stand in it.
func Cast(schema, args json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(args) {
		return nil, errors.New("arguments are not valid JSON")
	}
	r := &reader{text: string(args)}
	n, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if n.kind != '{' {
		return nil, errors.New("arguments are not a JSON object")
	}
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return n.compact(), nil
	}
	out := &node{kind: '{'}
	for i, name := range n.names {
		key, v := n.keys[i], n.items[i]
		if _, ok := s.Properties[name]; !ok {
			for declared := range s.Properties {
				if strings.EqualFold(declared, name) {
					if n.get(declared) != nil || out.get(declared) != nil {
						return nil, fmt.Errorf("%s is given twice, in different spellings", declared)
					}
					name, key = declared, quote(declared)
					break
				}
			}
		}
		types := schemaTypes(s.Properties[name])
		if v.raw == "null" && len(types) > 0 && !slices.Contains(types, "null") && !slices.Contains(s.Required, name) {
			continue
		}
		out.names, out.keys, out.items = append(out.names, name), append(out.keys, key), append(out.items, cast(v, types))
	}
	return out.compact(), nil
}

// schemaTypes gives the types a property may have, nil if it does not say.
func schemaTypes(schema json.RawMessage) []string {
	var s struct {
		Type  json.RawMessage   `json:"type"`
		AnyOf []json.RawMessage `json:"anyOf"`
		OneOf []json.RawMessage `json:"oneOf"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var one string
	var many []string
	if json.Unmarshal(s.Type, &one) == nil && one != "" {
		return []string{one}
	}
	if json.Unmarshal(s.Type, &many) == nil && len(many) > 0 {
		return many
	}
	for _, sub := range append(s.AnyOf, s.OneOf...) {
		t := schemaTypes(sub)
		if t == nil {
			return nil // a branch that takes anything
		}
		many = append(many, t...)
	}
	return many
}

var (
	integer = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)$`)
	numeric = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?$`)
)

func typeOf(n *node) string {
	switch {
	case n.kind == '{':
		return "object"
	case n.kind == '[':
		return "array"
	case n.kind == '"':
		return "string"
	case n.raw == "true" || n.raw == "false":
		return "boolean"
	case n.raw == "null":
		return "null"
	case integer.MatchString(n.raw):
		return "integer"
	}
	return "number"
}

func cast(n *node, types []string) *node {
	have := typeOf(n)
	if slices.Contains(types, have) || have == "integer" && slices.Contains(types, "number") || have == "null" {
		return n
	}
	for _, want := range []string{"integer", "number", "boolean", "object", "array", "string"} {
		if slices.Contains(types, want) {
			if v := castTo(n, have, want); v != nil {
				return v
			}
		}
	}
	return n
}

// castTo gives nil where the value cannot be meant as the wanted type.
func castTo(n *node, have, want string) *node {
	text := ""
	if have == "string" {
		text = strings.TrimSpace(unquote(n.raw))
	}
	switch want {
	case "integer":
		if have == "number" {
			text = n.raw
		}
		if integer.MatchString(text) {
			return &node{kind: 'v', raw: text}
		}
		if len(text) <= 64 && numeric.MatchString(text) {
			if v, ok := new(big.Rat).SetString(text); ok && v.IsInt() {
				return &node{kind: 'v', raw: v.Num().String()}
			}
		}
	case "number":
		if numeric.MatchString(text) {
			return &node{kind: 'v', raw: text}
		}
	case "boolean":
		if have == "integer" {
			text = n.raw
		}
		switch strings.ToLower(text) {
		case "true", "yes", "1":
			return &node{kind: 'v', raw: "true"}
		case "false", "no", "0":
			return &node{kind: 'v', raw: "false"}
		}
	case "object", "array":
		open := map[string]string{"object": "{", "array": "["}[want]
		if strings.HasPrefix(text, open) && json.Valid([]byte(text)) {
			r := &reader{text: text}
			if v, err := r.value(1); err == nil {
				return v
			}
		}
		if want == "array" && have != "object" {
			return &node{kind: '[', items: []*node{n}}
		}
	case "string":
		if n.kind == 'v' {
			return &node{kind: '"', raw: quote(n.raw)}
		}
	}
	return nil
}
