// Package tool is what a tool is, without running one: its definition, its
// side-effect class, the registry that orders definitions, and the pure steps
// that a call passes through (name and id normalisation, argument parsing and
// repair, casting, output limits). It imports the standard library only.
// Start reading at Definition, then Arguments.
package tool

import (
	"context"
	"encoding/json"
	"time"
)

// Effect is what running a tool may do to the world. It decides what a crash
// between intent and result means.
type Effect string

const (
	// ReadOnly tools may run again at any time: a lost attempt is repeated.
	ReadOnly Effect = "read_only"
	// Idempotent tools change the world but honour the idempotency key, so that
	// running one again with the same key has no further effect.
	Idempotent Effect = "idempotent"
	// SideEffect tools change the world, each time they run. A lost attempt is
	// UNKNOWN: never repeated without a person's decision.
	SideEffect Effect = "side_effect"
)

// Repeatable tells whether a lost attempt may run again by itself.
func (e Effect) Repeatable() bool { return e == ReadOnly || e == Idempotent }

// Limits and defaults of every tool.
const (
	DefaultTimeout = 60 * time.Second
	DefaultOutput  = 16000 // runes of output that the model sees
)

// Definition is what the model and the policy know about a tool. Schema is the
// JSON Schema of its arguments, an object schema.
type Definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Effect      Effect          `json:"effect"`
	Timeout     time.Duration   `json:"timeout,omitempty"`    // 0 = DefaultTimeout
	MaxOutput   int             `json:"max_output,omitempty"` // runes; 0 = DefaultOutput
	Approval    bool            `json:"approval,omitempty"`   // a person must agree before each call
	Title       string          `json:"title,omitempty"`      // for people, in hints: "Search files"
	Sensitive   bool            `json:"sensitive,omitempty"`  // arguments never appear in hints or traces
	Untrusted   bool            `json:"untrusted,omitempty"`  // output holds text from outside: frame it (see Untrusted)
	Sources     bool            `json:"sources,omitempty"`    // output names sources in tags: give them handles (see domain/citation)
	// Handles says which arguments hold ids that the model knows by a handle, at any
	// depth, and of what.
	Handles map[string]string `json:"handles,omitempty"`
}

// What a handle in an argument stands for; HandleSQL is a text with handles as
// quoted literals.
const (
	HandleChunk    = "chunk"
	HandleDocument = "document"
	HandleBase     = "base"
	HandlePage     = "page"
	HandleSQL      = "sql"
)

// Call is one invocation as a tool sees it. Arguments are a JSON object, cast
// and validated against the schema.
type Call struct {
	Tenant, Session, Run string
	ID                   string // the call's id, unique in the run
	IdempotencyKey       string // the same for every attempt of the call
	Attempt              int    // from 1
	Workspace            string // absolute directory given to the run, "" if none
	Arguments            json.RawMessage
	Scope                Scope // the knowledge that the run may see
	Retrieval            Retrieval
	Model                string      // name of the run's model, for tools that ask one
	Quick                bool        // a stage of a quick answer, not a model's own call
	State                State       // what earlier calls of this run recorded
	Earlier              []Reference // evidence of earlier turns; for the search of a quick answer
}

// State gives a tool read access to the record of its own run.
type State interface {
	// Results gives the data of the successful earlier calls of a tool in this
	// run, in order.
	Results(toolName string) []json.RawMessage
}

// Result is what a tool answers. Output is text for the model, Data is for the
// UI and the record (a JSON object, may be nil; key display_type selects the
// UI's renderer). A failed result has Error set and may still have Output.
type Result struct {
	Output string          `json:"output"`
	Data   json.RawMessage `json:"data,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Failed makes a failed result.
func Failed(message string) Result { return Result{Error: message} }

// Tool is something that can be run. Run must obey ctx, which carries the
// tool's deadline. A Go error is for faults of the tool itself; what the model
// should read goes into Result.Error. Both become failed results.
type Tool interface {
	Definition() Definition
	Run(ctx context.Context, c Call) (Result, error)
}
