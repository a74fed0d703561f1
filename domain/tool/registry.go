package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"sync"
)

// Validator checks arguments against a schema. Implementation: infra/jsonschema.
type Validator interface {
	// Validate gives the problems in plain English, sorted, each naming the
	// place; empty if args satisfy schema. A schema that cannot be used is a
	// problem too. Safe for concurrent use.
	Validate(schema, args json.RawMessage) []string
}

// Cleaner is a tool that holds something for a run (a process, a directory, a
// connection).
type Cleaner interface {
	// Clean releases what the tool holds for a run. Called once the run is over,
	// also if the tool was never run.
	Clean(ctx context.Context, runID string) error
}

// ErrDuplicate says that a tool of this name is registered already.
var ErrDuplicate = errors.New("a tool of this name exists already")

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Registry holds the tools by name. The zero value is empty and ready. Safe for
// concurrent use.
type Registry struct {
	mu      sync.RWMutex
	entries map[string]entry
}

type entry struct {
	tool Tool
	def  Definition
	hash string // of the definition
}

// Register adds a tool. The first tool of a name stays: a second one is
// refused with ErrDuplicate, so that no later source can take the place of a
// built-in. Also refused are names that providers do not take (1 to 64 of A-Z
// a-z 0-9 _ -), unknown effects and schemas that are not of an object. The
// definition is read once, here.
func (r *Registry) Register(t Tool) error {
	def := t.Definition()
	fail := func(err error) error { return fmt.Errorf("register tool %q: %w", def.Name, err) }
	if !nameForm.MatchString(def.Name) {
		return fail(errors.New("the name must be 1 to 64 letters, digits, _ or -"))
	}
	if !slices.Contains([]Effect{ReadOnly, Idempotent, SideEffect}, def.Effect) {
		return fail(fmt.Errorf("unknown effect %q", def.Effect))
	}
	var shape struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(def.Schema, &shape); err != nil || shape.Type != "object" {
		return fail(errors.New(`the schema must be a JSON Schema with "type":"object"`))
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, def.Schema); err != nil {
		return fail(err)
	}
	def.Schema = compact.Bytes()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.entries[def.Name]; taken {
		return fail(ErrDuplicate)
	}
	if r.entries == nil {
		r.entries = map[string]entry{}
	}
	r.entries[def.Name] = entry{t, def, def.Hash()}
	return nil
}

// Get gives the tool of a name.
func (r *Registry) Get(name string) (Tool, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.entries[name]
	return e.tool, ok
}

// Definition gives the definition of a name, as it was registered.
func (r *Registry) Definition(name string) (Definition, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.entries[name]
	return e.def, ok
}

// Names gives all names, sorted.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := make([]string, 0, len(r.entries))
	for name := range r.entries {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Definitions gives all definitions, sorted by name. The same tools give the
// same bytes, whatever the order of registration, so that providers can cache
// prompts. The caller must not change the schemas.
func (r *Registry) Definitions() []Definition {
	defs := make([]Definition, 0)
	for _, name := range r.Names() {
		if def, ok := r.Definition(name); ok {
			defs = append(defs, def)
		}
	}
	return defs
}

// CleanRun lets every Cleaner release what it holds for the run. All are tried,
// also after an error or a panic of one; the errors come back joined.
func (r *Registry) CleanRun(ctx context.Context, runID string) error {
	var errs []error
	for _, name := range r.Names() {
		t, _ := r.Get(name)
		if c, ok := t.(Cleaner); ok {
			if err := clean(ctx, c, runID); err != nil {
				errs = append(errs, fmt.Errorf("clean tool %s after run %s: %w", name, runID, err))
			}
		}
	}
	return errors.Join(errs...)
}

func clean(ctx context.Context, c Cleaner, runID string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.Clean(ctx, runID)
}

// Hash is the hash of a name's definition, "" if there is none.
func (r *Registry) Hash(name string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.entries[name].hash
}
