package run_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/projections"
	"refold/tests/scenario"
)

// check is what holds after every command.
func (w *world) check() {
	s := w.state
	var folded run.State
	for _, e := range w.facts {
		folded = run.Evolve(folded, e)
	}
	if !reflect.DeepEqual(folded, s) {
		w.t.Fatal("a replay folds to another state")
	}
	paired(w.t, s.Transcript())
	paired(w.t, s.Turn())
	w.checkResults()
	for _, m := range []run.Moment{{Now: w.now, Self: me}, {Now: w.now, Self: "w3", Sole: true}, {Now: w.now.Add(1e6 * time.Hour), Self: "w3"}} {
		due := run.Due(s, m)
		if s.Over() {
			if len(due) > 0 || !run.NextWake(s, m.Now).IsZero() {
				w.t.Fatalf("over, and yet %v is due", due)
			}
			w.refusesClaims(m)
			continue
		}
		if len(due) == 0 && run.NextWake(s, m.Now).IsZero() {
			w.t.Fatalf("open, and nothing will ever move it: %+v", s)
		}
	}
}

// refusesClaims tries every claim that could be imagined.
func (w *world) refusesClaims(m run.Moment) {
	for round := range 3 {
		if _, err := run.Decide(w.state, run.ClaimModel{Moment: m, Round: w.state.Round + round - 1, Attempt: 1, Purpose: run.PurposeRound, Deadline: m.Now.Add(1)}); err == nil {
			w.t.Fatal("a model claim was granted after the end")
		}
	}
	for _, e := range scenario.All[run.ToolCallRequested](w.facts) {
		c, _ := w.state.FindCall(e.Call)
		if _, err := run.Decide(w.state, run.ClaimTool{Moment: m, Call: e.Call, Attempt: c.Attempt + 1, Key: "k", Deadline: m.Now.Add(1)}); err == nil {
			w.t.Fatal("a tool claim was granted after the end")
		}
	}
}

// checkResults counts the results of each call, and the ends of the run.
func (w *world) checkResults() {
	results, late, ends := map[string]int{}, map[string]int{}, 0
	requested := map[string]bool{}
	for _, e := range w.facts {
		switch e := e.(type) {
		case run.ToolCallRequested:
			if requested[e.Call] {
				w.t.Fatalf("call id %q twice", e.Call)
			}
			requested[e.Call] = true
		case run.ToolCompleted:
			if e.Late {
				late[e.Call]++
			} else {
				results[e.Call]++
			}
			if results[e.Call] != 1 || late[e.Call] > 1 || !requested[e.Call] {
				w.t.Fatalf("call %q has %d results and %d late ones", e.Call, results[e.Call], late[e.Call])
			}
		case run.RunCompleted, run.RunFailed, run.RunStopped:
			ends++
		}
	}
	if over := w.state.Over(); ends > 1 || over != (ends == 1) {
		w.t.Fatalf("%d terminal facts, over: %v", ends, over)
	}
	if w.state.Over() && len(results) != len(requested) {
		w.t.Fatalf("%d calls, %d results at the end", len(requested), len(results))
	}
	for _, a := range w.state.Approvals {
		if c, ok := w.state.FindCall(a.Call); a.Outcome == "" && (w.state.Over() || !ok || c.Status == run.CallClosed) {
			w.t.Fatalf("approval of %s is pending; the call is closed", a.Call)
		}
	}
}

// checkEnd is what holds once the run is over.
func (w *world) checkEnd() {
	if !w.state.Over() {
		w.t.Fatal("not over after a stop")
	}
	w.feeds.check(w.t, w.state)
	for _, e := range w.facts {
		name, schema, data, err := run.Codec.Encode(e)
		if err != nil {
			w.t.Fatal(err)
		}
		back, err := run.Codec.Decode(name, schema, data)
		if err != nil {
			w.t.Fatal(err)
		}
		if _, _, again, err := run.Codec.Encode(back); err != nil || string(again) != string(data) {
			w.t.Fatalf("%s is written as\n%s\nand read back as\n%s", name, data, again)
		}
	}
	w.anyOrder()
}

// anyOrder folds the facts in orders that make no sense: nothing may panic.
func (w *world) anyOrder() {
	shuffled := slices.Clone(w.facts)
	slices.Reverse(shuffled)
	for i := range shuffled {
		j := (i*7 + len(shuffled)/3) % len(shuffled)
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	}
	var s run.State
	var feed projections.RunFeed
	for _, e := range append([]run.Event{w.facts[len(w.facts)-1], w.facts[0]}, shuffled...) {
		s = run.Evolve(s, e)
		run.Due(s, run.Moment{Now: w.now, Self: me})
		run.NextWake(s, w.now)
		s.Transcript()
		s.Turn()
		s.ToolResults()
		feed.Fact(event.Recorded[run.Event]{Position: "x", Event: e})
	}
}

// feeds are two readers of the run: one was there, one comes later.
type feeds struct {
	live, replay             projections.RunFeed
	liveFrames, replayFrames []projections.Frame
	n                        int
}

func (f *feeds) facts(t *testing.T, events []run.Event) {
	for _, e := range events {
		f.n++
		r := event.Recorded[run.Event]{Position: event.Position(fmt.Sprintf("%08d", f.n)), Event: e}
		f.liveFrames = append(f.liveFrames, f.live.Fact(r)...)
		f.replayFrames = append(f.replayFrames, f.replay.Fact(r)...)
	}
}

func (f *feeds) delta(t *testing.T, n int, pieces []run.Segment) {
	// Some pieces come again, as they do after a reconnect.
	f.liveFrames = append(f.liveFrames, f.live.Delta(n, pieces)...)
	f.liveFrames = append(f.liveFrames, f.live.Delta(n, pieces)...)
}

// frame is what the checks need of a frame.
type frame struct {
	Type    string `json:"response_type"`
	Content string `json:"content"`
	Done    bool   `json:"done"`
	Data    struct {
		Event      string `json:"event_id"`
		Superseded bool   `json:"superseded"`
		Call       string `json:"tool_call_id"`
	} `json:"data"`
}

func (f *feeds) check(t *testing.T, s run.State) {
	if len(f.liveFrames) != len(f.replayFrames) {
		t.Fatalf("%d frames live, %d later", len(f.liveFrames), len(f.replayFrames))
	}
	terminal := 0
	var lastAt event.Position
	lastK := -1
	announced, results := map[string]bool{}, map[string]int{}
	texts, gone, done := map[string]string{}, map[string]bool{}, 0
	var order []string
	for i, fr := range f.replayFrames {
		if live := f.liveFrames[i]; live.ID != fr.ID || string(live.Data) != string(fr.Data) || live.Terminal != fr.Terminal {
			t.Fatalf("frame %d live:\n%s %s\nlater:\n%s %s", i, live.ID, live.Data, fr.ID, fr.Data)
		}
		at, k, ok := projections.SplitFrameID(fr.ID)
		if !ok || at < lastAt || at == lastAt && k != lastK+1 || at != lastAt && k != 0 {
			t.Fatalf("frame id %s after %s.%d", fr.ID, lastAt, lastK)
		}
		lastAt, lastK = at, k
		if fr.Terminal {
			terminal++
			if i != len(f.replayFrames)-1 {
				t.Fatal("frames after the terminal one")
			}
		}
		var b frame
		if err := json.Unmarshal(fr.Data, &b); err != nil {
			t.Fatal(err)
		}
		switch {
		case b.Type == "tool_call":
			announced[b.Data.Call] = true
		case b.Data.Call != "" && (b.Type == "tool_result" || b.Type == "error"):
			if !announced[b.Data.Call] {
				t.Fatalf("a result of %s, which was never shown", b.Data.Call)
			}
			results[b.Data.Call]++
		case b.Type == "answer" && b.Data.Superseded:
			if _, shown := texts[b.Data.Event]; !shown || gone[b.Data.Event] {
				t.Fatalf("%s is superseded, and was not shown", b.Data.Event)
			}
			gone[b.Data.Event] = true
		case b.Type == "answer" && b.Done:
			done++
			if gone[b.Data.Event] {
				t.Fatalf("%s is done and superseded", b.Data.Event)
			}
		case b.Type == "answer":
			if gone[b.Data.Event] {
				t.Fatalf("%s goes on after it was superseded", b.Data.Event)
			}
			if _, shown := texts[b.Data.Event]; !shown {
				order = append(order, b.Data.Event)
			}
			texts[b.Data.Event] += b.Content
		}
	}
	if terminal != 1 {
		t.Fatalf("%d terminal frames", terminal)
	}
	if want := map[bool]int{true: 1}[s.Outcome == run.OutcomeCompleted]; done != want {
		t.Fatalf("%d answers are done, want %d", done, want)
	}
	for id := range announced {
		if results[id] != 1 {
			t.Fatalf("call %s has %d results in the feed", id, results[id])
		}
	}
	answer := ""
	for _, id := range order {
		if !gone[id] {
			answer += texts[id]
		}
	}
	if answer != s.Answer {
		t.Fatalf("readers are left with %q, the answer is %q (%s, %s)", answer, s.Answer, s.Outcome, s.EndReason)
	}
}
