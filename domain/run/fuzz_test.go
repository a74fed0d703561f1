package run_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	"refold/domain/run"
)

// FuzzDecider turns bytes into a sequence of commands, as a careless world
// would send them, and checks after each of them what must always hold.
func FuzzDecider(f *testing.F) {
	r := rand.New(rand.NewSource(1))
	for n := range 400 {
		b := make([]byte, 20+n)
		r.Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &world{t: t, data: data, now: t0}
		w.begin()
		for len(w.data) > 0 && len(w.facts) < 400 {
			w.step()
		}
		if !w.state.Over() {
			w.stop()
		}
		w.checkEnd()
	})
}

// world is a run with the random part of its surroundings.
type world struct {
	t     *testing.T
	data  []byte
	now   time.Time
	state run.State
	facts []run.Event
	feeds feeds

	// The model call that is open: what it will say, and how much was streamed.
	pieces   []run.Segment
	calls    []run.ProposedCall
	streamed int
	steers   int
}

// pick takes a byte and gives a number below n.
func (w *world) pick(n int) int {
	if len(w.data) == 0 {
		return 0
	}
	b := w.data[0]
	w.data = w.data[1:]
	return int(b) % n
}

func one[T any](w *world, of ...T) T { return of[w.pick(len(of))] }

func (w *world) begin() {
	start := started()
	start.Agent.ParallelTools = w.pick(2) == 0
	start.Limits.MaxRounds = 1 + w.pick(6)
	if w.pick(3) == 0 {
		start.Deadline = t0.Add(time.Duration(w.pick(200)) * time.Second)
	}
	w.send(run.Start{RunStarted: start})
}

// moment is now, as one of two workers sees it.
func (w *world) moment() run.Moment {
	m := run.Moment{Now: w.now, Self: one(w, me, me, "w2"), Sole: w.pick(8) == 0}
	if w.pick(8) == 0 {
		m.Gone = []string{me}
	}
	return m
}

func (w *world) anyCall() (run.Call, bool) {
	all := slices.Clone(w.state.Open)
	for _, s := range w.state.Steps {
		all = append(all, s.Calls...)
	}
	if len(all) == 0 {
		return run.Call{}, false
	}
	return all[w.pick(len(all))], true
}

func (w *world) step() {
	switch w.pick(20) {
	default:
		w.work()
	case 10:
		w.now = w.now.Add(one(w, time.Millisecond, time.Second, time.Minute, time.Hour))
	case 11:
		w.stream(1 + w.pick(4))
	case 12:
		w.closeModel(w.pick(4))
	case 13, 14:
		if c, ok := w.anyCall(); ok {
			w.send(run.RecordTool{Call: c.Call, Attempt: c.Attempt - w.pick(2), Success: w.pick(3) > 0, Output: one(w, "[]", "noon", ""), Now: w.now})
		}
	case 15:
		if c, ok := w.anyCall(); ok {
			w.send(run.RecordLostTool{Moment: w.moment(), Call: c.Call, Attempt: c.Attempt})
		}
	case 16, 17:
		if n := len(w.state.Approvals); n > 0 {
			w.send(run.ResolveApproval{Approval: w.state.Approvals[w.pick(n)].Approval, Approve: w.pick(3) > 0, Now: w.now,
				Args: json.RawMessage(one(w, "", "", "", `{"n":2}`, "null", "[]"))})
		}
	case 18:
		switch w.pick(4) {
		case 0:
			w.send(run.Expire{Now: w.now})
		case 1:
			if n := len(w.state.Approvals); n > 0 {
				w.send(run.ExpireApproval{Approval: w.state.Approvals[w.pick(n)].Approval, Now: w.now})
			}
		case 2:
			if c, ok := w.anyCall(); ok {
				w.send(run.RefuseCall{Call: c.Call, Message: "gone", Now: w.now})
			}
		case 3:
			w.send(run.ClaimModel{Moment: w.moment(), Round: w.pick(3), Attempt: 1 + w.pick(3), Purpose: one(w, run.PurposeRound, run.PurposeSynthesis), Deadline: w.now.Add(time.Minute)})
		}
	case 19:
		switch w.pick(4) {
		case 0:
			w.stop()
		case 1:
			w.steers++
			w.send(run.Steer{Message: fmt.Sprint("m", w.steers-w.pick(2)), Text: one(w, "And then?", "", "Stop that."), Now: w.now})
		}
	}
}

// work does what is due, or finishes what is open.
func (w *world) work() {
	if w.state.Model != nil && w.pick(3) > 0 {
		w.closeModel(0)
		return
	}
	m := w.moment()
	due := run.Due(w.state, m)
	if len(due) == 0 {
		return
	}
	switch e := due[w.pick(len(due))].(type) {
	case run.CallModel:
		if w.pick(3) == 0 {
			w.send(run.MeasureContext{Moment: m, Tokens: w.pick(4) * 60_000, From: run.Place{Run: "r0"}, To: run.Place{Run: w.state.Start.Run, Step: w.pick(len(w.state.Steps) + 2)}, Messages: w.pick(4)})
			return
		}
		w.send(run.ClaimModel{Moment: m, Round: e.Round, Attempt: e.Attempt, Purpose: e.Purpose, Size: w.pick(3) * 50_000, Counted: w.pick(3) * 40_000, Deadline: w.now.Add(130 * time.Second)})
	case run.CallTool:
		c, _ := w.state.FindCall(e.Call)
		def, _ := w.state.Tool(c.Name)
		w.send(run.ClaimTool{Moment: m, Call: e.Call, Attempt: e.Attempt, ToolHash: def.Hash(), Key: "k/" + e.Call, Deadline: w.now.Add(70 * time.Second)})
	case run.RecoverModel:
		w.closeModel(3)
	case run.RecoverTool:
		w.send(run.RecordLostTool{Moment: m, Call: e.Call, Attempt: e.Attempt})
	case run.LapseApproval:
		w.send(run.ExpireApproval{Approval: e.Approval, Now: w.now})
	case run.LapseRun:
		w.send(run.Expire{Now: w.now})
	}
}

// think makes up what the model call that was just claimed will say.
func (w *world) think(purpose string) {
	w.pieces, w.calls, w.streamed = nil, nil, 0
	if purpose == run.PurposeMemory {
		return // nothing of it is shown
	}
	taken := map[string]bool{}
	thinking := false
	for range w.pick(6) {
		switch w.pick(5) {
		case 0:
			w.pieces, thinking = append(w.pieces, run.Segment{Kind: run.SegThought, Text: one(w, "hm", "长考 ")}), true
		case 1:
			if thinking {
				w.pieces, thinking = append(w.pieces, run.Segment{Kind: run.SegClose, MS: int64(w.pick(99))}), false
			}
		case 2, 3:
			w.pieces = append(w.pieces, run.Segment{Kind: run.SegAnswer, Text: one(w, "Five.", "Hm.", " ", "长", markup)})
		case 4:
			c := run.ProposedCall{ID: one(w, "", "c1", "c2", "c1 "), Name: one(w, "now", "send", "pay", "save", "nobody"),
				Arguments: one(w, "{}", "", `{"n":1}`, `{"a":1,}`, `{"x":"cut`, `{"sql":"DROP TABLE t"}`)}
			if purpose == run.PurposeRound && w.pick(4) > 0 { // announced
				id := w.state.CallID(c.ID, c.Name, len(taken), taken)
				taken[id] = true
				w.pieces = append(w.pieces, run.Segment{Kind: run.SegCall, ID: id, Name: c.Name})
			}
			if w.pick(6) > 0 { // and made
				w.calls = append(w.calls, c)
			}
		}
	}
	if w.pick(8) == 0 {
		slices.Reverse(w.calls)
	}
}

func (w *world) stream(n int) {
	if w.state.Model == nil {
		return
	}
	n = min(n, len(w.pieces)-w.streamed)
	w.feeds.delta(w.t, w.streamed, w.pieces[w.streamed:w.streamed+n])
	w.streamed += n
}

// shown are the pieces that the closing fact will speak of: all that were
// streamed, maybe more.
func (w *world) shown(all bool) (string, string, run.Shown) {
	n := len(w.pieces)
	if !all {
		n = w.streamed + w.pick(n-w.streamed+1)
	}
	text, reasoning, shown := run.Compact(w.pieces[:n])
	back, err := shown.Expand(text, reasoning)
	if err != nil || len(back) != n || n > 0 && !reflect.DeepEqual(back, w.pieces[:n]) {
		w.t.Fatalf("%v came back as %v, %v", w.pieces[:n], back, err)
	}
	return text, reasoning, shown
}

func (w *world) closeModel(how int) {
	if w.state.Model == nil {
		w.send(run.RecordReply{Call: w.pick(4), Text: "nobody asked", Finish: "stop", Now: w.now})
		return
	}
	call := w.state.Model.Call
	if w.state.Model.Purpose == run.PurposeMemory && how < 3 {
		if how < 2 {
			w.send(run.RecordReply{Call: call, Text: one(w, "They greeted.", ""), Archive: one(w, "", "user: hi"), Usage: run.Usage{Prompt: w.pick(9)}, Now: w.now})
		} else {
			w.send(run.RecordFailure{Call: call, Code: one(w, "overloaded", run.CodeOverflow), Transient: w.pick(2) > 0, Archive: one(w, "", "user: hi"), Now: w.now})
		}
		return
	}
	switch how {
	case 0, 1:
		text, reasoning, shown := w.shown(true)
		w.send(run.RecordReply{Call: call, Text: text, Reasoning: reasoning, Shown: shown, Calls: w.calls,
			Finish: one(w, "stop", "stop", "tool_calls", "", "length", "content_filter", "weird"), Now: w.now})
	case 2:
		text, reasoning, shown := w.shown(false)
		w.send(run.RecordFailure{Call: call, Code: one(w, "overloaded", run.CodeOverflow, "incomplete", "bad_request", run.CodeOverflow), Limit: w.pick(3) * 4000, Requested: w.pick(3) * 5000, Transient: w.pick(3) > 0,
			RetryAfter: one(w, 0, time.Second, time.Hour), Text: text, Reasoning: reasoning, Shown: shown, Message: "broken", Now: w.now})
	case 3:
		text, reasoning, shown := w.shown(false)
		w.send(run.RecordLostModel{Moment: w.moment(), Call: call, Text: text, Reasoning: reasoning, Shown: shown})
	}
}

func (w *world) stop() {
	c := run.Stop{By: "u", Now: w.now}
	if w.state.Model != nil {
		c.Call = w.state.Model.Call
		c.Text, c.Reasoning, c.Shown = w.shown(false)
	}
	w.send(c)
}

// send decides a command, folds what follows and checks everything.
func (w *world) send(c run.Command) {
	over := w.state.Over()
	events, next, err := run.DecideAll(w.state, c)
	if err != nil {
		if len(events) > 0 {
			w.t.Fatalf("%T: facts and a refusal", c)
		}
		return
	}
	w.state = next
	w.facts = append(w.facts, events...)
	for _, e := range events {
		if s, ok := e.(run.ModelCallStarted); ok {
			w.think(s.Purpose)
		}
		if _, ok := e.(run.ToolCompleted); over && !ok {
			w.t.Fatalf("%T after the end", e)
		}
	}
	w.feeds.facts(w.t, events)
	w.check()
	switch c.(type) {
	case run.RecordReply, run.RecordFailure, run.RecordTool, run.RefuseCall, run.RecordLostModel, run.RecordLostTool, run.ExpireApproval, run.Expire:
		if again, err := run.Decide(w.state, c); err != nil || len(again) > 0 {
			w.t.Fatalf("%T told twice: %v, %v", c, again, err)
		}
	}
}
