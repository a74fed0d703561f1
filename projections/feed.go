package projections

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tool"
)

// RunFeed folds the facts of one run into what its readers are shown. While a
// model call is in progress its pieces are shown from the transient stream;
// when its closing fact comes, that fact says the same, and more if pieces were
// not shown yet. So a reader who was there and one who comes later get the same
// frames with the same ids.
type RunFeed struct {
	start *run.RunStarted
	names map[string]string // of calls that are shown and not answered
	order []string
	tools map[string]tool.Definition

	// The model call that is in progress, or the last one.
	call    *run.ModelCallStarted
	at      event.Position // of the fact that began it
	k       int            // frames of the call so far
	shown   int            // segments of the call so far
	thought int            // thinking blocks of the call so far
	open    string         // event id of the open thinking block
	blocks  []string       // event ids of all thinking blocks
	answer  string         // event id of the answer text, "" if none was shown
	answers int            // answer texts of the call so far
	length  int            // bytes of the answer text
	gone    bool           // the answer text was superseded
	aside   string         // event id of a thought written into tool arguments

	// Text that was shown and whose meaning the next fact says.
	hanging bool

	// Frames of facts that came while a model call was open. They follow the
	// call's own, so that those who were there and those who come later see one
	// order.
	held []Frame

	references []tool.Reference // of all results so far

	steps     int
	over      bool
	completed time.Time
}

// CompletedAt is when the run completed; zero if it goes on or ended otherwise.
func (f *RunFeed) CompletedAt() time.Time { return f.completed }

// Over tells whether the terminal frame was given.
func (f *RunFeed) Over() bool { return f.over }

// Call is the model call that is in progress, 0 if none is.
func (f *RunFeed) Call() int {
	if f.call == nil {
		return 0
	}
	return f.call.Call
}

// Fact folds the next fact of the run. Facts after the end give no frames.
func (f *RunFeed) Fact(r event.Recorded[run.Event]) []Frame {
	if f.over {
		return nil
	}
	if s, ok := r.Event.(run.RunStarted); ok {
		f.start, f.names, f.tools = &s, map[string]string{}, map[string]tool.Definition{}
		for _, d := range s.Tools {
			f.tools[d.Name] = d
		}
		ids := map[string]any{"session_id": s.Session, "assistant_message_id": s.Run}
		return []Frame{{ID: FrameID(r.Position, 0), Data: frameBody{ID: s.Request, Type: "agent_query", Done: true,
			Session: s.Session, Assistant: s.Run, Data: ids}.encode()}}
	}
	if f.start == nil {
		return nil
	}
	w := &frameWriter{feed: f, at: r.Position}
	switch e := r.Event.(type) {
	case run.MemoryConsolidated: // nothing of that call was shown
		f.call = nil
		w.frames, f.held = f.held, nil
	case run.ModelCallStarted:
		w.settle("steer") // only a message of a person lets a whole reply end nothing
		f.call, f.at, f.k, f.shown, f.thought = &e, r.Position, w.k, 0, 0
		f.open, f.blocks, f.answer, f.gone, f.aside = "", nil, "", false, ""
		f.answers, f.length = 0, 0
	case run.Thought:
		f.steps = max(f.steps, e.Round+1)
		w.frames = f.catchUp(e.Text, e.Reasoning, e.Shown)
		f.call, f.hanging = nil, true
		w.evidence(e.References)
	case run.ModelCallFailed:
		w.frames = f.catchUp(e.Text, e.Reasoning, e.Shown)
		f.call = nil
		w.failPending(e.Message)
		switch {
		case e.Purpose == run.PurposeMemory: // nothing of it was shown
		case e.Code == run.CodeLost:
			w.supersede("recovered")
		case !e.RetryAt.IsZero():
			w.supersede("retry")
		default:
			f.hanging = true // the next fact of the append says whether the text is kept
		}
	case run.ModelSwitched:
		w.settle("retry")
	case run.Nudged:
		if e.Reason != "loop" {
			w.settle("repeat")
		}
	case run.MessageSteered:
		w.put(frameBody{Type: "steered", Content: e.Text, Data: map[string]any{"message_id": e.Message}})
		if f.call != nil {
			f.held, w.frames = append(f.held, w.frames...), nil
		}
	case run.SynthesisRequested:
		w.settle("synthesis")
	case run.ToolCallRequested:
		w.settle("preamble")
		w.toolCall(e)
	case run.ToolCompleted:
		if !e.Late {
			w.toolResult(e)
		}
	case run.ApprovalRequired:
		w.approvalRequired(e)
	case run.ApprovalResolved:
		w.approvalResolved(e)
	case run.RunCompleted:
		f.completed = e.At
		w.completed(e)
	case run.RunFailed:
		w.failed(e)
	case run.RunStopped:
		if f.call != nil && e.Call == f.call.Call {
			w.frames = f.catchUp(e.Text, e.Reasoning, e.Shown)
			w.closeThinking(e.At)
		}
		f.call = nil
		w.settle("steer")
		w.failPending("the run was stopped")
		w.terminal(frameBody{Type: "stop", Content: "Generation stopped by user", Done: true, Data: f.ending(map[string]any{
			"session_id": f.start.Session, "message_id": f.start.Run, "reason": e.Reason}, run.OutcomeStopped, run.EndUser, false)})
	}
	return w.frames
}

// Delta folds pieces of the model call in progress; n counts the pieces that
// came before these in the call's transient stream. Pieces that were already
// shown are passed over.
func (f *RunFeed) Delta(n int, segments []run.Segment) []Frame {
	if f.call == nil || f.over {
		return nil
	}
	if skip := f.shown - n; skip > 0 {
		if skip >= len(segments) {
			return nil
		}
		segments = segments[skip:]
	}
	w := &frameWriter{feed: f, at: f.at, k: f.k}
	for _, s := range segments {
		w.segment(s)
		f.shown++
	}
	f.k = w.k
	return w.frames
}

// catchUp shows the pieces of a call that its closing fact knows and that were
// not shown yet, and then what was held back for its end.
func (f *RunFeed) catchUp(text, reasoning string, shown run.Shown) []Frame {
	var out []Frame
	if segments, err := shown.Expand(text, reasoning); err == nil && f.call != nil {
		out = f.Delta(0, segments)
	}
	out = append(out, f.held...)
	f.held = nil
	return out
}

// eventID groups the pieces of one block, for the client.
func (f *RunFeed) eventID(kind string, n int) string {
	call := 0
	if f.call != nil {
		call = f.call.Call
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s.%d.%s.%d", f.start.Run, call, kind, n))
	return hex.EncodeToString(sum[:4]) + "-" + kind
}

func (f *RunFeed) ending(data map[string]any, outcome, reason string, degraded bool) map[string]any {
	data["outcome"], data["end_reason"], data["degraded"], data["run_id"] = outcome, reason, degraded, f.start.Run
	return data
}

// frameWriter collects the frames that one fact, or one piece, causes.
type frameWriter struct {
	feed   *RunFeed
	at     event.Position
	k      int
	frames []Frame
}

func (w *frameWriter) put(b frameBody) {
	b.ID = w.feed.start.Request
	w.frames = append(w.frames, Frame{ID: FrameID(w.at, w.k), Data: b.encode()})
	w.k++
}

// say shows text, in more than one frame if it is long.
func (w *frameWriter) say(kind, text string, data map[string]any) {
	for _, piece := range pieces(text) {
		w.put(frameBody{Type: kind, Content: piece, Data: data})
	}
}

func (w *frameWriter) terminal(b frameBody) {
	w.put(b)
	w.frames[len(w.frames)-1].Terminal = true
	w.feed.over = true
}

// segment shows one piece of a reply.
func (w *frameWriter) segment(s run.Segment) {
	f := w.feed
	switch s.Kind {
	case run.SegThought:
		if f.open == "" {
			f.open = f.eventID("thought", f.thought)
			f.thought++
			f.blocks = append(f.blocks, f.open)
		}
		w.say("thinking", s.Text, map[string]any{"event_id": f.open})
	case run.SegClose:
		if f.open == "" {
			return
		}
		w.put(frameBody{Type: "thinking", Done: true, Data: map[string]any{"event_id": f.open, "duration_ms": s.MS,
			"completed_at": f.call.At.Add(time.Duration(s.MS) * time.Millisecond).Unix()}})
		f.open = ""
	case run.SegAnswer:
		if f.answer == "" || f.gone {
			f.answer, f.gone, f.length = f.eventID("answer", f.answers), false, 0
			f.answers++
		}
		f.length += len(s.Text)
		w.say("answer", s.Text, map[string]any{"event_id": f.answer})
	case run.SegCall:
		w.supersede("preamble")
		f.names[s.ID] = s.Name
		f.order = append(f.order, s.ID)
		w.put(frameBody{Type: "tool_call", Content: "Calling tool: " + s.Name, Data: map[string]any{"tool_name": s.Name,
			"tool_call_id": s.ID, "arguments": nil}})
	case run.SegTool:
		if f.aside == "" {
			f.aside = f.eventID("thinking", 0)
			f.blocks = append(f.blocks, f.aside)
		}
		w.say("thinking", s.Text, map[string]any{"event_id": f.aside, "source": "thinking_tool"})
	}
}

// closeThinking ends a thinking block that a stop has cut off.
func (w *frameWriter) closeThinking(at time.Time) {
	f := w.feed
	if f.open == "" {
		return
	}
	w.put(frameBody{Type: "thinking", Done: true, Data: map[string]any{"event_id": f.open,
		"duration_ms": max(0, at.Sub(f.call.At).Milliseconds()), "completed_at": at.Unix()}})
	f.open = ""
}

// supersede tells readers that text which they were shown does not count. The
// thinking of a failed attempt goes with its answer text; that of a reply stays.
func (w *frameWriter) supersede(reason string) {
	f := w.feed
	data := func(id string) map[string]any {
		return map[string]any{"event_id": id, "superseded": true, "reason": reason}
	}
	if reason == "retry" || reason == "recovered" || reason == "failed" {
		for _, id := range f.blocks {
			w.put(frameBody{Type: "thinking", Data: data(id)})
		}
		f.blocks, f.open, f.aside = nil, "", ""
	}
	if f.answer != "" && !f.gone {
		w.put(frameBody{Type: "answer", Data: data(f.answer)})
		f.gone = true
	}
	f.hanging = false
}

// settle says what hanging text has become.
func (w *frameWriter) settle(reason string) {
	if w.feed.hanging {
		w.supersede(reason)
	}
}

// failPending closes calls that were announced and will never be requested.
func (w *frameWriter) failPending(reason string) {
	f := w.feed
	for _, id := range f.order {
		if name, open := f.names[id]; open {
			w.put(frameBody{Type: "error", Content: reason, Data: map[string]any{"tool_name": name, "tool_call_id": id,
				"success": false, "error": reason, "duration_ms": 0}})
			delete(f.names, id)
		}
	}
	f.order = nil
}

func (w *frameWriter) toolCall(e run.ToolCallRequested) {
	f := w.feed
	if _, announced := f.names[e.Call]; !announced {
		f.order = append(f.order, e.Call)
	}
	f.names[e.Call] = e.Name
	data := map[string]any{"tool_name": e.Name, "tool_call_id": e.Call, "arguments": e.Args, "iteration": e.Round}
	if e.Raw != "" && e.Problem != "" {
		data["arguments"] = map[string]any{"_raw": e.Raw}
	}
	if hint := tool.CallHint(f.tools[e.Name], e.Args); hint != "" {
		data["hint"] = hint
	}
	w.put(frameBody{Type: "tool_call", Content: "Calling tool: " + e.Name, Data: data})
}

func (w *frameWriter) toolResult(e run.ToolCompleted) {
	f := w.feed
	data := map[string]any{}
	output, stored := tool.Stored(f.names[e.Call], e.Success, e.Output, e.Data)
	failure := tool.ForPeople(e.Error)
	shown := tool.DisplayType(e.Data) != ""
	if len(stored) > 0 {
		var payload map[string]json.RawMessage
		if json.Unmarshal(stored, &payload) == nil {
			for k, v := range payload {
				data[k] = v
			}
		}
	}
	if !shown {
		data["output"] = output
	}
	data["tool_name"], data["tool_call_id"], data["success"] = f.names[e.Call], e.Call, e.Success
	data["error"], data["duration_ms"] = failure, e.DurationMS
	if e.Reason != "" {
		data["reason"] = e.Reason
	}
	b := frameBody{Type: "tool_result", Data: data}
	if !e.Success {
		b.Type, b.Content = "error", failure
	}
	w.put(b)
	delete(f.names, e.Call)
	if i := slices.Index(f.order, e.Call); i >= 0 {
		f.order = slices.Delete(f.order, i, i+1)
	}
	if e.Success {
		w.evidence(tool.ReferencesOf(e.Data))
	}
}

// evidence shows all the evidence so far, if there is more than before.
func (w *frameWriter) evidence(found []tool.Reference) {
	if refs, more := tool.AddReferences(w.feed.references, found); more {
		w.feed.references = refs
		w.put(frameBody{Type: "references", References: refs, Data: map[string]any{"references": refs}})
	}
}

func (w *frameWriter) approvalRequired(e run.ApprovalRequired) {
	f := w.feed
	w.put(frameBody{Type: "tool_approval_required", Content: e.Question, Done: true, Data: map[string]any{
		"pending_id": e.Approval, "session_id": f.start.Session, "assistant_message_id": f.start.Run,
		"service_id": "", "service_name": "", "mcp_tool_name": e.Tool, "registered_tool_name": e.Tool,
		"description": f.tools[e.Tool].Description, "args": e.Args, "args_json": string(e.Args),
		"timeout_seconds": int64(e.Expires.Sub(e.At).Seconds()), "requested_at": e.At.Unix(), "tool_call_id": e.Call,
		"request_id": f.start.Request, "trigger": e.Trigger}})
}

func (w *frameWriter) approvalResolved(e run.ApprovalResolved) {
	data := map[string]any{"pending_id": e.Approval, "approved": e.Outcome == run.Approved, "reason": e.Reason}
	switch e.Outcome {
	case run.TimedOut:
		data["timed_out"] = true
	case run.Canceled:
		data["canceled"] = true
	}
	w.put(frameBody{Type: "tool_approval_resolved", Content: "Approval " + e.Outcome, Done: true, Data: data})
}

func (w *frameWriter) completed(e run.RunCompleted) {
	f := w.feed
	if e.Call == 0 { // a fixed text stands in for whatever was shown
		w.settle("repeat")
		f.answer, f.gone = "", false
	} else if f.answer != "" && !f.gone && f.length != len(e.Answer) {
		w.supersede("repeat") // a call was announced in the middle and never made
	}
	f.hanging = false
	id := f.answer
	if id == "" || f.gone {
		id = f.eventID("answer", f.answers)
		data := map[string]any{"event_id": id}
		if e.FallsBack() {
			data["is_fallback"] = true
		}
		w.say("answer", e.Answer, data)
	}
	done := map[string]any{"event_id": id, "duration_ms": e.DurationMS, "completed_at": e.At.Unix()}
	if e.FallsBack() {
		done["is_fallback"] = true
	}
	w.put(frameBody{Type: "answer", Done: true, Data: done})
	w.failPending("the run ended")
	usage := e.Usage
	w.terminal(frameBody{Type: "complete", Done: true, Usage: &usage, Data: f.ending(map[string]any{"total_steps": max(f.steps, e.Rounds),
		"total_duration_ms": e.DurationMS, "artifacts": []any{}}, run.OutcomeCompleted, e.EndReason, e.Degraded)})
}

func (w *frameWriter) failed(e run.RunFailed) {
	f := w.feed
	if e.Call == 0 {
		w.settle("failed")
	}
	w.failPending(e.Message)
	w.terminal(frameBody{Type: "error", Content: e.Message, Done: true, Data: f.ending(map[string]any{"stage": "agent_execution",
		"error": e.Message, "code": e.Code, "total_duration_ms": e.DurationMS}, run.OutcomeFailed, e.EndReason, false)})
}
