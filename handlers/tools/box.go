package tools

import (
	"context"
	"log/slog"

	"refold/domain/tool"
	"refold/handlers"
)

// Box makes an Invoker the toolbox of the runner.
type Box struct{ *Invoker }

var _ handlers.Toolbox = Box{}

// Hash is the hash of the tool's current definition, "" if there is none.
func (b Box) Hash(name string) string { return b.Registry.Hash(name) }

// Invoke runs a call. What the model reads is the output and, if the call
// failed, what went wrong.
func (b Box) Invoke(ctx context.Context, name string, call tool.Call, limit int) handlers.ToolOutcome {
	out := b.Invoker.Invoke(ctx, Request{Name: name, Call: call, MaxOutput: limit})
	o := handlers.ToolOutcome{Success: out.Result.Error == "", Output: out.Result.Output, Full: out.Full, Truncated: out.Truncated,
		Error: out.Result.Error, Data: out.Result.Data, Abandoned: out.Abandoned}
	if !o.Success {
		text := "Error: " + o.Error
		if o.Output != "" {
			text = o.Output + "\n" + text
		}
		o.Output = text
	}
	return o
}

// CleanRun releases what tools hold for a run.
func (b Box) CleanRun(ctx context.Context, runID string) {
	if err := b.Registry.CleanRun(ctx, runID); err != nil {
		slog.ErrorContext(ctx, "clean up the tools of a run", "run", runID, "error", err)
	}
}
