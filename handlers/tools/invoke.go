// Package tools runs tools: the pipeline that every call passes through, and
// the built-in tools, one file each, with name, schema, effect and prompt text
// side by side. It imports domain and the ports of handlers; what touches the
// world beyond the workspace goes through a port. Start reading at Invoker.
package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"refold/domain/tool"
)

// DefaultGrace is how long a tool may go on after its deadline before its call
// is given up.
const DefaultGrace = 5 * time.Second

const maxError = 4000 // runes of an error that the model reads

// Invoker runs calls. It never fails and never panics: whatever goes wrong is a
// failed result. Safe for concurrent use.
type Invoker struct {
	Registry  *tool.Registry
	Validator tool.Validator
	Log       *slog.Logger  // for stack traces; nil = slog.Default()
	Grace     time.Duration // 0 = DefaultGrace
}

// Request is one call to run.
type Request struct {
	Name      string
	Call      tool.Call // Arguments as parsed; blank counts as {}
	Malformed error     // why the arguments could not be parsed: nothing runs
	MaxOutput int       // runes; the agent's limit, 0 = tool.DefaultOutput
}

// Outcome is what became of a call.
type Outcome struct {
	// Result as the model reads it: sanitised, Output within its limit, Error with
	// tool.ErrorHint at its end. Output of a tool whose definition says Untrusted
	// is not framed yet: the prompt frames it with tool.Untrusted.
	Result tool.Result
	// Full is the whole output, sanitised; equal to Result.Output unless Truncated.
	Full      string
	Truncated bool
	// Ran tells whether the tool was started: false for an unknown name and bad
	// arguments.
	Ran bool
	// Abandoned tells that the tool did not return within the grace after its
	// deadline. What it did, or still does, is unknown.
	Abandoned bool
}

// Invoke runs one call: look-up, cast, validation, the run under the
// definition's timeout (and whatever ctx allows), clean-up of the output. The
// limit of the output is the agent's, or the tool's own if that is higher.
func (i *Invoker) Invoke(ctx context.Context, req Request) Outcome {
	name := tool.NormalizeName(req.Name)
	t, ok := i.Registry.Get(name)
	if !ok {
		return i.finish(tool.Failed(unknown(name, i.Registry.Names())), req, tool.Definition{})
	}
	def, _ := i.Registry.Definition(name)
	if req.Malformed != nil {
		return i.finish(tool.Failed(req.Malformed.Error()+". Nothing was run: make the call again with complete, valid JSON."), req, def)
	}
	args := req.Call.Arguments
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	args, err := tool.Cast(def.Schema, args)
	if err != nil {
		return i.finish(tool.Failed("Parameter validation failed: "+err.Error()), req, def)
	}
	if i.Validator != nil {
		if problems := i.Validator.Validate(def.Schema, args); len(problems) > 0 {
			return i.finish(tool.Failed("Parameter validation failed: "+strings.Join(problems, "; ")), req, def)
		}
	}
	req.Call.Arguments = args
	result, abandoned := i.run(ctx, t, def, req.Call)
	out := i.finish(result, req, def)
	out.Ran, out.Abandoned = true, abandoned
	return out
}

func unknown(name string, known []string) string {
	text := fmt.Sprintf("There is no tool named %q.", name)
	if near := tool.Nearest(name, known); len(near) > 0 {
		return text + " Tools with similar names: " + strings.Join(near, ", ") + "."
	}
	if len(known) == 0 {
		return text + " No tools are available."
	}
	more := ""
	if len(known) > 30 {
		known, more = known[:30], ", ..."
	}
	return text + " Available tools: " + strings.Join(known, ", ") + more + "."
}

// run gives the tool's result, or a failed one in its place. The tool has its
// own goroutine, so that one that ignores its context cannot hold up the turn.
func (i *Invoker) run(ctx context.Context, t tool.Tool, def tool.Definition, call tool.Call) (tool.Result, bool) {
	limit := def.Timeout
	if limit <= 0 {
		limit = tool.DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return tool.Failed(ended(err, limit)), false
	}
	done := make(chan tool.Result, 1)
	go func() { done <- i.guard(ctx, t, def, call, limit) }()
	select {
	case r := <-done:
		return r, false
	case <-ctx.Done():
	}
	grace := i.Grace
	if grace <= 0 {
		grace = DefaultGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-done:
		return r, false
	case <-timer.C:
		return tool.Failed(ended(ctx.Err(), limit) + " It did not react, so what it has done is not known."), true
	}
}

func (i *Invoker) guard(ctx context.Context, t tool.Tool, def tool.Definition, call tool.Call, limit time.Duration) (r tool.Result) {
	defer func() {
		if p := recover(); p != nil {
			log := i.Log
			if log == nil {
				log = slog.Default()
			}
			log.ErrorContext(ctx, "tool panicked", "tool", def.Name, "run", call.Run, "call", call.ID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			r = tool.Failed("The tool broke down because of a fault in itself, not in the arguments.")
		}
	}()
	r, err := t.Run(ctx, call)
	if err != nil {
		text := err.Error()
		if cause := ctx.Err(); cause != nil && errors.Is(err, cause) {
			text = ended(cause, limit)
		}
		r.Error = strings.TrimSpace(r.Error + "\n" + text)
	}
	if r.Error == "" && r.Output == "" && len(r.Data) == 0 {
		return tool.Failed("The tool gave no result.")
	}
	if len(r.Data) > 0 {
		if d := bytes.TrimSpace(r.Data); !json.Valid(d) || d[0] != '{' {
			r.Data = nil
			if !bytes.Equal(d, []byte("null")) && r.Error == "" {
				r.Error = "The tool gave no valid result."
			}
		}
	}
	return r
}

func ended(cause error, limit time.Duration) string {
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Sprintf("The tool did not finish in time (at most %s).", limit)
	}
	return "The call was stopped before it was finished."
}

func (i *Invoker) finish(r tool.Result, req Request, def tool.Definition) Outcome {
	limit := req.MaxOutput
	if limit <= 0 {
		limit = tool.DefaultOutput
	}
	limit = max(limit, def.MaxOutput)
	full := tool.Sanitize(r.Output)
	out := Outcome{Full: full}
	out.Result.Output, out.Truncated = tool.Truncate(full, limit)
	if len(r.Data) > 0 {
		out.Result.Data = tool.SanitizeJSON(r.Data)
	}
	if r.Error != "" {
		text, _ := tool.Truncate(tool.Sanitize(strings.TrimSpace(r.Error)), maxError)
		text = strings.TrimSpace(strings.TrimSuffix(text, tool.ErrorHint))
		out.Result.Error = strings.TrimSpace(text + "\n" + tool.ErrorHint)
	}
	return out
}
