package handlers

import (
	"context"
	"errors"
	"strings"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/tool"
)

// maxReplyText bounds what readers are shown of one reply, in stored bytes.
const maxReplyText = 2 << 20

// callModel makes the model call that was claimed and gives the report.
func (a *actor) callModel(ctx context.Context, s run.State, claim run.ModelCallStarted) run.Command {
	r := a.runner
	fail := run.RecordFailure{Call: claim.Call}
	finish := func(err *ModelError, segments []run.Segment) run.Command {
		fail.Code, fail.Status, fail.Message = err.Code, err.Status, err.Message
		fail.Transient, fail.RetryAfter, fail.Limit, fail.Requested = err.Transient, err.RetryAfter, err.Limit, err.Requested
		fail.Text, fail.Reasoning, fail.Shown = run.Compact(segments)
		fail.Now = r.Clock.Now().UTC()
		return fail
	}
	s, err := a.describe(ctx, s, claim)
	if err != nil {
		return finish(asModelError(err), nil)
	}
	p, err := a.prompt(ctx, s)
	if err != nil {
		return finish(historyError(err), nil)
	}
	model, err := r.Models.Model(s.ModelName())
	if err != nil {
		return finish(asModelError(err), nil)
	}
	req, _, err := p.request(s, claim.Purpose)
	if err == nil {
		err = a.inline(ctx, s, &req)
	}
	if err != nil {
		return finish(asModelError(err), nil)
	}
	registry := nameSources(s, req.Messages)
	show := &shower{state: s, began: claim.At, now: r.Clock.Now, tool: claim.Purpose == run.PurposeRound, decode: newChannels(s, registry),
		out: newDeltaWriter(r.Commands.Deltas, a.key.tenant, run.DeltaID(a.key.run, claim.Call), r.Commands.NewID,
			func() event.Envelope {
				return event.Envelope{Time: r.Clock.Now().UTC(), Meta: event.Metadata{Correlation: s.Start.Session}}
			})}
	reply, err := model.Chat(ctx, req, func(d ModelDelta) error { return show.delta(ctx, d) })
	show.close(ctx)
	if !show.out.end() {
		a.nothingShown(claim.Call)
	}
	now := r.Clock.Now().UTC()
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errHandBack):
		lost := run.RecordLostModel{Moment: a.moment(), Call: claim.Call}
		lost.Text, lost.Reasoning, lost.Shown = run.Compact(show.segments)
		return lost
	case err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		text := "the model did not finish within " + s.Start.Limits.ModelDeadline().String() + "; --model-timeout (REFOLD_MODEL_TIMEOUT) allows more time"
		if d := s.Start.Deadline; !d.IsZero() && !now.Before(d) {
			text = "the run's deadline passed while the model was answering"
		}
		return finish(&ModelError{Code: "timeout", Message: text, Transient: true}, show.segments)
	case errors.Is(err, errFenced), err != nil && ctx.Err() != nil:
		// Fenced and yet alive: whoever closed the stream died before the fact
		// that it wanted to append, so the call is made again.
		return finish(&ModelError{Code: "interrupted", Message: "the model call was interrupted", Transient: true}, show.segments)
	case err != nil:
		return finish(asModelError(err), show.segments)
	}
	resolve(s, registry, &reply)
	out := run.RecordReply{Call: claim.Call, Calls: reply.Calls, Finish: reply.Finish, Model: reply.Model, Usage: reply.Usage,
		RequestDigest: reply.RequestDigest, Duration: now.Sub(claim.At), Now: now}
	out.Text, out.Reasoning, out.Shown = run.Compact(show.segments)
	if len(out.Calls) == 0 && claim.Purpose != run.PurposeMemory {
		out.References = a.cited(ctx, s, out.Text)
	}
	return out
}

func asModelError(err error) *ModelError {
	var m *ModelError
	if errors.As(err, &m) {
		return m
	}
	return &ModelError{Code: "connection", Message: err.Error(), Transient: true}
}

// shower turns deltas of the model into what readers see, in order.
type shower struct {
	state    run.State
	began    time.Time
	now      func() time.Time
	tool     bool // calls may be announced
	out      *deltaWriter
	decode   *channels // nil in a run without sources
	segments []run.Segment

	thinking bool // a thinking block is open
	size     int
	calls    map[int]*announced
	taken    map[string]bool
}

type announced struct {
	thought *thoughtReader // of the thinking tool's arguments
}

func (w *shower) delta(ctx context.Context, d ModelDelta) error {
	var out []run.Segment
	switch {
	case d.Reasoning != "":
		text := d.Reasoning
		if w.decode != nil {
			text = w.decode.thought.Write(text)
		}
		out = w.think(out, text)
	case d.Content != "":
		out = w.closeThinking(out)
		text := d.Content
		if w.decode != nil {
			text = w.decode.answer.Write(text)
		}
		out = say(out, run.SegAnswer, text)
	}
	if d.Call != nil && w.tool {
		out = w.call(out, *d.Call)
	}
	return w.emit(ctx, out)
}

func (w *shower) think(out []run.Segment, text string) []run.Segment {
	if text, ok := w.hold(text, w.thinking); ok && text != "" {
		w.thinking = true
		out = append(out, run.Segment{Kind: run.SegThought, Text: text})
	}
	return out
}

func say(out []run.Segment, kind, text string) []run.Segment {
	if text == "" {
		return out
	}
	return append(out, run.Segment{Kind: kind, Text: text})
}

// hold keeps leading white space of a thinking block back: a block of nothing
// else is never shown.
func (w *shower) hold(text string, begun bool) (string, bool) {
	if begun {
		return text, true
	}
	if strings.TrimSpace(text) == "" {
		return "", false
	}
	return strings.TrimLeft(text, " \t\r\n"), true
}

func (w *shower) closeThinking(out []run.Segment) []run.Segment {
	if w.decode != nil {
		out = w.think(out, w.decode.thought.Flush())
	}
	if !w.thinking {
		return out
	}
	w.thinking = false
	return append(out, run.Segment{Kind: run.SegClose, MS: max(0, w.now().Sub(w.began).Milliseconds())})
}

// call announces a call once, and shows the thought in the arguments of the
// thinking tool while it is being written.
func (w *shower) call(out []run.Segment, d ModelCallDelta) []run.Segment {
	if w.calls == nil {
		w.calls, w.taken = map[int]*announced{}, map[string]bool{}
	}
	c := w.calls[d.Index]
	if c == nil {
		name := tool.NormalizeName(d.Name)
		if name == "" || len(w.calls) >= run.MaxCalls {
			return out
		}
		out = w.rest(w.closeThinking(out))
		c = &announced{}
		if name == "thinking" {
			c.thought = &thoughtReader{}
		}
		id := w.state.CallID(d.ID, name, len(w.calls), w.taken)
		w.taken[id] = true
		w.calls[d.Index] = c
		out = append(out, run.Segment{Kind: run.SegCall, ID: id, Name: name})
	}
	if c.thought != nil && d.Text != "" {
		text := c.thought.write(d.Text)
		if w.decode != nil {
			text = w.decode.aside.Write(text)
		}
		out = say(out, run.SegTool, text)
	}
	return out
}

func (w *shower) emit(ctx context.Context, out []run.Segment) error {
	if len(out) == 0 {
		return nil
	}
	for i, s := range out {
		out[i].Text = tool.Sanitize(s.Text) // else the record would say other bytes than were shown
		w.size += stored(out[i].Text)
	}
	if w.size > maxReplyText {
		return &ModelError{Code: "bad_response", Message: "the reply is longer than 2 MiB; the model may be in a loop: ask for less at a time, or use another model"}
	}
	w.segments = append(w.segments, out...)
	return w.out.add(ctx, out...)
}

// stored is about the number of bytes that a piece takes in the closing fact,
// which must fit an event however finely the reply is cut.
func stored(text string) int {
	n := len(text) + 4
	for i := range len(text) {
		if text[i] < ' ' || text[i] == '"' || text[i] == '\\' {
			n += 5
		}
	}
	return n
}

// rest is the text that was held back, in case it would become a handle.
func (w *shower) rest(out []run.Segment) []run.Segment {
	if w.decode == nil {
		return out
	}
	return say(say(out, run.SegAnswer, w.decode.answer.Flush()), run.SegTool, w.decode.aside.Flush())
}

// close ends what is open at the end of the stream.
func (w *shower) close(ctx context.Context) {
	if out := w.rest(w.closeThinking(nil)); len(out) > 0 {
		w.segments = append(w.segments, out...)
		_ = w.out.add(ctx, out...) // fenced: the closing fact decides
	}
}
