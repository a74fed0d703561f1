package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"refold/tests/scripted"
)

// TestFieldCases: real faults of model servers, played through a whole run: what
// was run, what the next request says, and what the person was answered.
func TestFieldCases(t *testing.T) {
	t.Parallel()
	html := map[string]string{"Content-Type": "text/html"}
	chunks := func(list ...string) scripted.Step {
		var parts []scripted.Part
		for _, c := range list {
			parts = append(parts, scripted.Data(c))
		}
		return scripted.Stream(append(parts, scripted.Done())...)
	}
	appending := `"type":"function","function":{"name":"ledger_append","arguments":"{\"line\":\"L\"}"}`
	finish := `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	cutOff := func(reason string) scripted.Step {
		return scripted.Say(call("c1", "ledger_append", `{"line":"half of a li`), scripted.Finish(reason))
	}
	const markup = `<tool_call>{"name":"ledger_append","arguments":{"line":"L"}}</tool_call>`
	const prose = `Qwen writes <tool_call> around JSON.`
	for _, c := range []struct {
		name     string
		steps    []scripted.Step
		requests int
		ran      int    // lines in the ledger
		answer   string // what the message holds
		reason   string // how it ended
		told     string // in the last message of the second request
	}{
		{"P05 a page with status 200 is asked once", []scripted.Step{scripted.Respond(200, html, "<title>Sign in</title>")}, 1, 0, "", "model_failed", ""},
		{"P05 a page with status 502 is asked again", []scripted.Step{scripted.Respond(502, html, "<title>Bad gateway</title>"), say("Yes.")}, 2, 0, "Yes.", "natural", ""},
		{"P04 an error inside a stream is no answer", []scripted.Step{chunks(`{"choices":[],"error":{"code":401,"message":"monthly budget used up"}}`)}, 1, 0, "", "model_failed", ""},
		{"P09 no index", []scripted.Step{chunks(`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a",`+appending+`},{"id":"b",`+appending+`}]},"finish_reason":null}]}`, finish), say("Yes.")}, 2, 2, "Yes.", "natural", ""},
		{"P10 index 0 for all", []scripted.Step{chunks(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a",`+appending+`}]},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"b",`+appending+`}]},"finish_reason":null}]}`, finish), say("Yes.")}, 2, 2, "Yes.", "natural", ""},
		{"P12 stop with a call", []scripted.Step{scripted.Say(call("c1", "ledger_append", `{"line":"L"}`), scripted.Finish("stop")), say("Yes.")}, 2, 1, "Yes.", "natural", ""},
		{"P12 content_filter with a call", []scripted.Step{scripted.Say(call("c1", "ledger_append", `{"line":"L"}`), scripted.Finish("content_filter"))}, 1, 0, "*", "content_filter", ""},
		{"P16 a name with white space", []scripted.Step{scripted.Say(call("c1", "\n ledger_append \n", `{"line":"L"}`)), say("Yes.")}, 2, 1, "Yes.", "natural", ""},
		{"P17 a call cut off by the limit", []scripted.Step{cutOff("length"), say("Yes.")}, 2, 0, "Yes.", "natural", "Error: "},
		{"P18 a call cut off, said to be whole", []scripted.Step{cutOff("tool_calls"), say("Yes.")}, 2, 0, "Yes.", "natural", "Error: "},
		{"P19 ghosts only", []scripted.Step{chunks(`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"","type":"","function":{}}]},"finish_reason":"tool_calls"}]}`), say("Yes.")}, 2, 0, "Yes.", "natural", ""},
		{"P22 prose after the arguments", []scripted.Step{scripted.Say(call("c1", "ledger_append", "```json\n{\"line\":\"L\"}\n```\nThat should do.")), say("Yes.")}, 2, 1, "Yes.", "natural", ""},
		{"P22 nothing that parses", []scripted.Step{scripted.Say(call("c1", "ledger_append", "append the line, please")), say("Yes.")}, 2, 0, "Yes.", "natural", "Error: "},
		{"P31 markup", []scripted.Step{say(markup), say("Yes.")}, 2, 0, "Yes.", "natural", ""},
		{"P31 other markup", []scripted.Step{say(`<｜DSML｜tool_calls><｜DSML｜invoke name="ledger_append"></｜DSML｜invoke></｜DSML｜tool_calls>`), say("Yes.")}, 2, 0, "Yes.", "natural", ""},
		{"P31 cut markup", []scripted.Step{say(markup[:len(markup)-14]), say("Yes.")}, 2, 0, "Yes.", "natural", ""},
		{"P31 prose", []scripted.Step{say(prose)}, 1, 0, prose, "natural", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, nil, c.steps...)
			id := l.session(t)
			r := l.chat(t, id, "q")
			frames := r.rest(t)
			checkFeed(t, frames)
			m := l.message(t, id, r.run())
			if c.answer == "*" {
				c.answer = m.Content
			}
			if m.Content != c.answer || m.EndReason != c.reason || shown(frames, "answer") != c.answer {
				t.Errorf("stored %q (%s), shown %q", m.Content, m.EndReason, shown(frames, "answer"))
			}
			reqs := l.model.Requests()
			if len(reqs) != c.requests {
				t.Fatalf("the model was asked %d times", len(reqs))
			}
			if n := count(t, l.s.Ledger)["L"]; n != c.ran || len(count(t, l.s.Ledger)) != min(c.ran, 1) {
				t.Errorf("the ledger has %v", count(t, l.s.Ledger))
			}
			if c.requests < 2 {
				return
			}
			if got := reqs[1].Last("tool"); !strings.HasPrefix(got, c.told) {
				t.Errorf("the model was told %q", got)
			}
			results := map[string]int{}
			for _, msg := range reqs[1].Messages {
				if msg.Role == "tool" {
					results[msg.ToolCallID]++
				}
				for _, call := range msg.ToolCalls {
					if call.Function.Name != "ledger_append" || !json.Valid([]byte(call.Function.Arguments)) {
						t.Errorf("sent back: %+v", call)
					}
					results[call.ID] += 10
				}
			}
			for call, n := range results {
				if n != 11 {
					t.Errorf("call %q: %d (11 is a call and its result)", call, n)
				}
			}
		})
	}
}
