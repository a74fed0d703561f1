package scripted

import (
	"encoding/json"
	"fmt"
)

// Delta is a piece of a well-formed reply; see Say.
type Delta struct {
	delta  map[string]any
	finish string
	usage  *[3]int
	calls  []Call
	gate   <-chan struct{}
}

// Call is a tool call of a reply. Args may be no valid JSON. An empty ID stays
// empty.
type Call struct{ Name, Args, ID string }

// Text is a piece of the answer.
func Text(s string) Delta { return Delta{delta: map[string]any{"content": s}} }

// Reasoning is a piece of the native reasoning channel.
func Reasoning(s string) Delta { return Delta{delta: map[string]any{"reasoning_content": s}} }

// Calls is tool calls, each streamed as its name and then its arguments in two
// pieces.
func Calls(calls ...Call) Delta { return Delta{calls: calls} }

// Finish is the finish reason.
func Finish(reason string) Delta { return Delta{finish: reason} }

// Usage is the token counts; they come in a chunk of their own after the finish.
func Usage(prompt, completion, total int) Delta {
	return Delta{usage: &[3]int{prompt, completion, total}}
}

// Gate holds the reply at this place until the channel is closed or gives a
// value.
func Gate(c <-chan struct{}) Delta { return Delta{gate: c} }

// Chunks makes the parts of a whole reply; see Say.
func Chunks(model string, deltas ...Delta) []Part {
	var parts []Part
	var usage *[3]int
	finish, calls := "", 0
	add := func(delta map[string]any, finish any) {
		parts = append(parts, chunk(model, []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}, nil))
	}
	add(map[string]any{"role": "assistant", "content": ""}, nil)
	for _, d := range deltas {
		switch {
		case d.gate != nil:
			parts = append(parts, Wait(d.gate))
		case d.usage != nil:
			usage = d.usage
		case d.finish != "":
			finish = d.finish
		case len(d.calls) > 0:
			for _, c := range d.calls {
				for i, piece := range []string{"", c.Args[:len(c.Args)/2], c.Args[len(c.Args)/2:]} {
					function := map[string]any{"arguments": piece}
					entry := map[string]any{"index": calls, "function": function}
					if i == 0 {
						function["name"] = c.Name
						entry["id"], entry["type"] = c.ID, "function"
					}
					add(map[string]any{"tool_calls": []any{entry}}, nil)
				}
				calls++
			}
		default:
			add(d.delta, nil)
		}
	}
	if finish == "" {
		finish = "stop"
		if calls > 0 {
			finish = "tool_calls"
		}
	}
	add(map[string]any{}, finish)
	if usage != nil {
		parts = append(parts, chunk(model, []any{}, map[string]any{
			"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": usage[2],
		}))
	}
	return append(parts, Done())
}

func chunk(model string, choices []any, usage map[string]any) Part {
	c := map[string]any{"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": choices}
	if usage != nil {
		c["usage"] = usage
	}
	raw, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("scripted: a chunk of strings and numbers does not encode: %v", err))
	}
	return Data(string(raw))
}
