package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"refold/domain/run"
	"refold/domain/tool"
)

// maxToolData bounds the payload that a tool gives for the UI, in bytes.
const maxToolData = 1 << 20

// callTool runs the call that was claimed and gives the report.
func (a *actor) callTool(ctx context.Context, s run.State, call run.Call, claim run.ToolStarted) run.Command {
	r := a.runner
	var out ToolOutcome
	if call.Name == run.StageUnderstand && s.Start.Mode == run.ModeQuick {
		out = a.understand(ctx, s)
	} else {
		var earlier []tool.Reference
		if call.Name == run.StageSearch && s.Start.Mode == run.ModeQuick {
			earlier = a.evidence(ctx, s)
		}
		out = r.Tools.Invoke(ctx, call.Name, tool.Call{
			Tenant: a.key.tenant, Session: s.Start.Session, Run: a.key.run, ID: call.Call,
			IdempotencyKey: claim.Key, Attempt: claim.Attempt, Workspace: s.Start.Workspace,
			Scope: s.Start.Scope, Retrieval: s.Start.Retrieval, Model: s.ModelName(),
			Quick: s.Start.Mode == run.ModeQuick, Arguments: call.Args, State: s, Earlier: earlier,
		}, s.Start.Limits.MaxOutput)
	}
	if !out.Success {
		def, _ := s.Tool(call.Name)
		lost := run.RecordLostTool{Moment: a.moment(), Call: call.Call, Attempt: claim.Attempt}
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, errHandBack):
			lost.Reason = "the process ended while the call ran"
			return lost
		case (out.Abandoned || errors.Is(cause, context.DeadlineExceeded)) && !def.Effect.Repeatable():
			// It was cut off in the middle: "failed" would be a guess.
			lost.Reason = "the call did not answer in time"
			return lost
		case errors.Is(cause, errOver):
			return nil // cut off because the call is closed: nothing true to report
		}
	}
	now := r.Clock.Now().UTC()
	done := run.RecordTool{Call: call.Call, Attempt: claim.Attempt, Success: out.Success, Output: out.Output, Error: out.Error,
		Data: out.Data, Duration: now.Sub(claim.At), Now: now}
	done.Data = tool.Shrink(done.Data, maxToolData) // the output says it all
	if out.Truncated {
		done.Size = utf8.RuneCountInString(out.Full)
		digest, err := r.Blobs.Put(context.WithoutCancel(ctx), a.key.tenant, []byte(out.Full))
		if err != nil {
			// The model still gets the cut output; only paging through the rest
			// is lost, and the record says so by having no digest.
			a.log().Error("store the full result of a call", "call", call.Call, "error", err)
		}
		done.Result = digest
	}
	return done
}

// ReadResult gives the full output of a call of a run: from the blob store if
// it was cut. It implements the port of the tool read_tool_result.
func (r *Runner) ReadResult(ctx context.Context, tenant, runID, callID string) (string, error) {
	o, err := r.Commands.OpenRun(ctx, tenant, runID)
	if err != nil {
		return "", err
	}
	if text, mine, err := r.file(ctx, tenant, o.State, callID); mine {
		return text, err
	}
	call, ok := o.State.FindCall(callID)
	if !ok || call.Result == nil {
		return "", fmt.Errorf("there is no finished call %q in this run", callID)
	}
	if call.Result.Result == "" {
		return call.Result.Output, nil
	}
	blob, size, err := r.Blobs.Open(ctx, tenant, call.Result.Result)
	if err != nil {
		return "", fmt.Errorf("open the result of %s: %w", callID, err)
	}
	defer blob.Close()
	buf, err := io.ReadAll(blob)
	if err != nil || int64(len(buf)) != size {
		return "", fmt.Errorf("read the result of %s: %d of %d bytes: %v", callID, len(buf), size, err)
	}
	return string(buf), nil
}
