// Package jsonschema checks tool arguments against JSON Schema. It implements
// tool.Validator and imports domain/tool and santhosh-tekuri/jsonschema only.
// Start reading at Validator; problem.go holds the wording.
package jsonschema

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	lib "github.com/santhosh-tekuri/jsonschema/v6"

	"refold/domain/tool"
)

const (
	maxCompiled = 512 // schemas kept compiled
	maxDigits   = 400 // of a number, and of its exponent's value: arithmetic is exact
	location    = "mem:///schema.json"
)

var _ tool.Validator = (*Validator)(nil)

// Validator compiles each schema once, by digest, and keeps the last 512. Draft
// 2020-12 holds where a schema names no draft that is known. A $ref reaches
// only into its own schema: nothing is read from disk or network. Patterns that
// Go's RE2 cannot express are not enforced. Safe for concurrent use.
type Validator struct {
	mu       sync.Mutex
	compiled map[[32]byte]outcome
	order    [][32]byte // oldest first
}

type outcome struct {
	schema *lib.Schema
	err    error
}

// New makes an empty Validator.
func New() *Validator { return &Validator{compiled: map[[32]byte]outcome{}} }

// Validate implements tool.Validator. A problem reads "path: what is wrong", at
// most 20 of them.
func (v *Validator) Validate(schema, args json.RawMessage) (problems []string) {
	defer func() {
		// Schemas come from other people's servers: a fault of the library there is
		// one call's failure.
		if p := recover(); p != nil {
			problems = []string{fmt.Sprintf("the arguments cannot be checked: %v", p)}
		}
	}()
	s, err := v.compile(schema)
	if err != nil {
		return []string{"the tool's own schema cannot be used: " + oneLine(err)}
	}
	value, err := lib.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return []string{"the arguments are not valid JSON"}
	}
	if at, ok := hugeNumber(value, nil); ok {
		return []string{join(at) + ": the number is too large"}
	}
	var failed *lib.ValidationError
	if err := s.Validate(value); errors.As(err, &failed) {
		return describe(failed)
	} else if err != nil {
		return []string{oneLine(err)}
	}
	return nil
}

func (v *Validator) compile(schema json.RawMessage) (*lib.Schema, error) {
	key := sha256.Sum256(schema)
	v.mu.Lock()
	o, ok := v.compiled[key]
	v.mu.Unlock()
	if ok {
		return o.schema, o.err
	}
	o.schema, o.err = compile(schema)
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.compiled[key]; !ok {
		if len(v.order) >= maxCompiled {
			delete(v.compiled, v.order[0])
			v.order = slices.Delete(v.order, 0, 1)
		}
		v.compiled[key] = o
		v.order = append(v.order, key)
	}
	return o.schema, o.err
}

func compile(schema json.RawMessage) (*lib.Schema, error) {
	if len(bytes.TrimSpace(schema)) == 0 {
		schema = json.RawMessage(`{}`)
	}
	doc, err := lib.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, errors.New("it is not valid JSON")
	}
	if m, ok := doc.(map[string]any); ok {
		if draft, _ := m["$schema"].(string); !strings.Contains(draft, "//json-schema.org/draft") {
			delete(m, "$schema")
		}
		delete(m, "$id") // a base URL would turn local references into remote ones
	}
	c := lib.NewCompiler()
	c.DefaultDraft(lib.Draft2020)
	c.UseLoader(closed{})
	c.UseRegexpEngine(pattern)
	if err := c.AddResource(location, doc); err != nil {
		return nil, err
	}
	return c.Compile(location)
}

// closed refuses every reference that leaves the schema.
type closed struct{}

func (closed) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference %q leaves the schema", url)
}

// anything stands for a pattern that RE2 cannot express.
type anything string

func (anything) MatchString(string) bool { return true }
func (p anything) String() string        { return string(p) }

func pattern(s string) (lib.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return anything(s), nil
	}
	return re, nil
}

func hugeNumber(v any, at []string) ([]string, bool) {
	switch v := v.(type) {
	case json.Number:
		s := strings.ToLower(v.String())
		if len(s) > maxDigits {
			return at, true
		}
		if _, exp, ok := strings.Cut(s, "e"); ok {
			n, err := strconv.Atoi(exp)
			return at, err != nil || n > maxDigits || n < -maxDigits
		}
	case []any:
		for i, item := range v {
			if at, ok := hugeNumber(item, append(at, strconv.Itoa(i))); ok {
				return at, true
			}
		}
	case map[string]any:
		for k, item := range v {
			if at, ok := hugeNumber(item, append(at, k)); ok {
				return at, true
			}
		}
	}
	return nil, false
}

func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}
