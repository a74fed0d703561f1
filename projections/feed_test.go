package projections_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"refold/domain/event"
	"refold/domain/run"
	"refold/projections"
)

func framesOf(facts []event.Recorded[run.Event]) []projections.Frame {
	var feed projections.RunFeed
	var out []projections.Frame
	for _, f := range facts {
		out = append(out, feed.Fact(f)...)
	}
	return out
}

func text(frames []projections.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "%s %s\n", f.ID, f.Data)
	}
	return b.String()
}

func TestFeed_Golden(t *testing.T) {
	b := newBook(t)
	b.run("r1", clocks()...)
	frames := framesOf(b.recorded("r1"))
	golden(t, "feed.golden", clocks(), text(frames))
	for i, f := range frames {
		if f.Terminal != (i == len(frames)-1) {
			t.Fatalf("frame %d of %d is terminal: %v", i, len(frames), f.Terminal)
		}
	}
}

func TestFeed_LiveAndLaterAreTheSameBytes(t *testing.T) {
	b := newBook(t)
	b.run("r1", clocks()...)
	facts := b.recorded("r1")
	want := text(framesOf(facts))
	// Every number of pieces may have been shown when the closing fact comes.
	for live := range 8 {
		var feed projections.RunFeed
		var got []projections.Frame
		for _, f := range facts {
			if shown, body, reasoning, ok := closing(f.Event); ok {
				segments, err := shown.Expand(body, reasoning)
				if err != nil {
					t.Fatal(err)
				}
				for n := range min(live, len(segments)) {
					got = append(got, feed.Delta(n, segments[n:n+1])...)
				}
				got = append(got, feed.Delta(0, segments[:min(live, len(segments))])...) // once more, after a reconnect
			}
			got = append(got, feed.Fact(f)...)
		}
		if text(got) != want {
			t.Fatalf("with %d pieces live:\n%s\nwant:\n%s", live, text(got), want)
		}
	}
}

func closing(e run.Event) (run.Shown, string, string, bool) {
	switch e := e.(type) {
	case run.Thought:
		return e.Shown, e.Text, e.Reasoning, true
	case run.ModelCallFailed:
		return e.Shown, e.Text, e.Reasoning, true
	}
	return run.Shown{}, "", "", false
}

// ending shows a reply and how the run ended, and gives the frames of that.
func ending(t *testing.T, facts ...run.Event) []map[string]any {
	t.Helper()
	b := newBook(t)
	b.run("r1", append([]run.Event{began(), claim(1, 0, 1, 3)}, facts...)...)
	var out []map[string]any
	for _, f := range framesOf(b.recorded("r1")) {
		var m map[string]any
		if err := json.Unmarshal(f.Data, &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

func kinds(frames []map[string]any) string {
	var out []string
	for _, f := range frames {
		s := fmt.Sprint(f["response_type"])
		data, _ := f["data"].(map[string]any)
		if data["superseded"] == true {
			s += "~" + fmt.Sprint(data["reason"])
		}
		if c := f["content"]; c != "" {
			s += fmt.Sprintf("%q", c)
		}
		if f["done"] == true {
			s += "."
		}
		out = append(out, s)
	}
	return strings.Join(out[1:], " ") // after agent_query
}

func thought(text string, shown run.Shown) run.Thought {
	return run.Thought{Call: 1, Purpose: run.PurposeRound, Text: text, Finish: "stop", Shown: shown, At: at(4)}
}

func TestFeed_Endings(t *testing.T) {
	done := func(answer string, call int) run.RunCompleted {
		return run.RunCompleted{Answer: answer, Call: call, EndReason: run.EndNatural, Rounds: 1, At: at(5)}
	}
	pending := []run.PendingCall{{ID: "c1", Name: "now"}}
	for _, c := range []struct {
		name  string
		facts []run.Event
		want  string
	}{
		{"A1 streamed", []run.Event{thought("AB", run.Shown{Cuts: "a1 a1"}), done("AB", 1)}, `answer"A" answer"B" answer. complete.`},
		{"A2 not streamed", []run.Event{thought("AB", run.Shown{}), done("AB", 1)}, `answer"AB" answer. complete.`},
		{"a fixed text in place of what was shown", []run.Event{thought(markup, run.Shown{Cuts: fmt.Sprint("a", len(markup))}), done("Sorry.", 0)},
			fmt.Sprintf("answer%q answer~repeat answer\"Sorry.\" answer. complete.", markup)},
		{"a call that was announced and dropped", []run.Event{thought("AB", run.Shown{Cuts: "a1 p a1", Pending: pending}), done("AB", 1)},
			`answer"A" answer~preamble tool_call"Calling tool: now" answer"B" answer~repeat answer"AB" answer. error"the run ended" complete.`},
		{"a nudge takes the text back", []run.Event{thought("A", run.Shown{Cuts: "a1"}), run.Nudged{Reason: "unfinished", At: at(4)}, claim(2, 0, 1, 5),
			run.Thought{Call: 2, Text: "AB", Shown: run.Shown{Cuts: "a2"}, At: at(6)}, done("AB", 2)}, `answer"A" answer~repeat answer"AB" answer. complete.`},
		{"stop keeps the text", []run.Event{run.RunStopped{Call: 1, Text: "A", Reason: "user_requested", Shown: run.Shown{Cuts: "a1"}, At: at(5)}},
			`answer"A" stop"Generation stopped by user".`},
		{"stop closes a pending call", []run.Event{run.RunStopped{Call: 1, Text: "A", Shown: run.Shown{Cuts: "a1 p", Pending: pending}, At: at(5)}},
			`answer"A" answer~preamble tool_call"Calling tool: now" error"the run was stopped" stop"Generation stopped by user".`},
		{"incomplete keeps the text", []run.Event{
			run.ModelCallFailed{Call: 1, Code: "incomplete", Message: "broke off", Text: "A", Shown: run.Shown{Cuts: "a1"}, At: at(5)},
			run.RunFailed{Code: "incomplete", Message: "broke off", EndReason: run.EndIncomplete, Text: "A", Call: 1, At: at(5)}}, `answer"A" error"broke off".`},
		{"another failure does not", []run.Event{
			run.ModelCallFailed{Call: 1, Code: "bad_request", Message: "no", Text: "A", Reasoning: "h", Shown: run.Shown{Cuts: "t1 c1 a1"}, At: at(5)},
			run.RunFailed{Code: "bad_request", Message: "no", EndReason: run.EndModelFailed, At: at(5)}}, `thinking"h" thinking. answer"A" thinking~failed answer~failed error"no".`},
		{"a lost attempt", []run.Event{
			run.ModelCallFailed{Call: 1, Code: run.CodeLost, Message: "gone", Text: "A", Shown: run.Shown{Cuts: "a1 p k3", Pending: pending, Aside: "hmm"}, RetryAt: at(5), At: at(5)},
			claim(2, 0, 2, 5), run.Thought{Call: 2, Text: "A", Shown: run.Shown{Cuts: "a1"}, At: at(6)}, done("A", 2)},
			`answer"A" answer~preamble tool_call"Calling tool: now" thinking"hmm" error"gone" thinking~recovered answer"A" answer. complete.`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := kinds(ending(t, c.facts...)); got != c.want {
				t.Fatalf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

const markup = `<tool_call>{"name":"now"}</tool_call>`

func TestFeed_EachTextHasItsOwnID(t *testing.T) {
	shown := run.Shown{Cuts: "a1 p a1 p a1", Pending: []run.PendingCall{{ID: "c1", Name: "now"}, {ID: "c2", Name: "now"}}}
	ids := map[any]string{}
	for _, f := range ending(t, thought("ABC", shown), run.RunCompleted{Answer: "ABC", Call: 1, At: at(5)}) {
		if c := f["content"].(string); f["response_type"] == "answer" && c != "" {
			id := f["data"].(map[string]any)["event_id"]
			if other, used := ids[id]; used {
				t.Fatalf("%q goes by the id of %q", c, other)
			}
			ids[id] = c
		}
	}
	if len(ids) != 4 {
		t.Fatalf("%v", ids)
	}
}

func TestFeed_WhatDoesNotFitIsNoFrame(t *testing.T) {
	var feed projections.RunFeed
	if got := feed.Fact(event.Recorded[run.Event]{Event: thought("A", run.Shown{})}); got != nil {
		t.Fatal("frames before the start")
	}
	if got := feed.Delta(0, []run.Segment{{Kind: run.SegAnswer, Text: "A"}}); got != nil {
		t.Fatal("pieces without a call")
	}
	late := ending(t, thought("A", run.Shown{}), run.RunCompleted{Answer: "A", Call: 1, At: at(5)}, run.ToolCompleted{Call: "c1", Success: true, Late: true, At: at(9)})
	if got := kinds(late); got != `answer"A" answer. complete.` {
		t.Fatal(got)
	}
}

func TestFrame_IsBounded(t *testing.T) {
	huge := strings.Repeat("<", 1<<19) // six bytes each in JSON
	frames := ending(t, thought("", run.Shown{}), run.ToolCallRequested{Call: "c1", Name: "now", Args: json.RawMessage(`{}`), At: at(4)},
		run.ToolCompleted{Call: "c1", Success: true, Output: huge, At: at(5)})
	last := frames[len(frames)-1]
	if data := last["data"].(map[string]any); data["omitted"] == nil {
		t.Fatal("not cut")
	} else if data["tool_call_id"] != "c1" {
		t.Fatalf("the client can't tell whose result that is: %v", data)
	}
}

func TestFrame_LongTextIsShownWhole(t *testing.T) {
	long := strings.Repeat("长<", 100_000)
	for _, shown := range []run.Shown{{Cuts: fmt.Sprint("a", len(long))}, {}} {
		whole := ""
		for _, f := range ending(t, thought(long, shown), run.RunCompleted{Answer: long, Call: 1, At: at(5)}) {
			if f["response_type"] == "answer" {
				whole += f["content"].(string)
			}
		}
		if whole != long {
			t.Fatalf("%d of %d bytes", len(whole), len(long))
		}
	}
}

func TestFrameID(t *testing.T) {
	for id, ok := range map[string]bool{"0001.0": true, "a.b.12": true, "": false, ".1": false, "x": false, "x.": false, "x.-1": false, "x.01": false, "x.+1": false,
		strings.Repeat("x", 100) + ".1": false} {
		at, k, got := projections.SplitFrameID(id)
		if got != ok || ok && projections.FrameID(at, k) != id {
			t.Fatalf("%q: %v %d %v", id, at, k, got)
		}
	}
}
