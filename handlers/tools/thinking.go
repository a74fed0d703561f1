package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"refold/domain/tool"
)

// ThinkingName is the name of the thinking tool.
const ThinkingName = "thinking"

// Thinking lets a model without a thinking channel reason in steps. It remembers
// nothing: its history is the record of the run.
type Thinking struct{}

var thinkingDefinition = tool.Definition{
	Name:  ThinkingName,
	Title: "Think",
	Description: "Think a problem through, one step per call, before or between other actions. Use it when a question has several parts, " +
		"when findings contradict each other, or when an earlier step turns out to be wrong and must be revised. " +
		"Write the reasoning in plain words: no names of tools, and never the final answer itself, which belongs in your reply. " +
		"Raise total_thoughts when more steps are needed; set next_thought_needed to false with the last one.",
	Effect: tool.ReadOnly,
	Schema: json.RawMessage(`{"type":"object","properties":{
"thought":{"type":"string","minLength":1,"description":"This step of the reasoning, in plain words."},
"next_thought_needed":{"type":"boolean","description":"Whether another step follows."},
"thought_number":{"type":"integer","minimum":1,"description":"Number of this step, from 1."},
"total_thoughts":{"type":"integer","minimum":1,"description":"How many steps you expect now."},
"is_revision":{"type":"boolean","description":"Whether this step corrects an earlier one."},
"revises_thought":{"type":"integer","minimum":1,"description":"Number of the step that is corrected."},
"branch_from_thought":{"type":"integer","minimum":1,"description":"Number of the step where another line of thought begins."},
"branch_id":{"type":"string","description":"Name of that line of thought."},
"needs_more_thoughts":{"type":"boolean","description":"Whether the expected number turned out too small."}},
"required":["thought","next_thought_needed","thought_number","total_thoughts"]}`),
}

// Definition implements tool.Tool.
func (Thinking) Definition() tool.Definition { return thinkingDefinition }

type thinkingData struct {
	DisplayType       string   `json:"display_type"`
	Thought           string   `json:"thought"`
	ThoughtNumber     int      `json:"thought_number"`
	TotalThoughts     int      `json:"total_thoughts"`
	NextThoughtNeeded bool     `json:"next_thought_needed"`
	Branches          []string `json:"branches"`
	HistoryLength     int      `json:"thought_history_length"`
	IncompleteSteps   bool     `json:"incomplete_steps"`
}

// Run implements tool.Tool.
func (Thinking) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		Thought    string `json:"thought"`
		Next       bool   `json:"next_thought_needed"`
		Number     int    `json:"thought_number"`
		Total      int    `json:"total_thoughts"`
		BranchFrom int    `json:"branch_from_thought"`
		BranchID   string `json:"branch_id"`
		More       bool   `json:"needs_more_thoughts"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("thinking: " + err.Error()), nil
	}
	in.Total = max(in.Total, in.Number)
	data := thinkingData{DisplayType: "thinking", Thought: in.Thought, ThoughtNumber: in.Number, TotalThoughts: in.Total,
		NextThoughtNeeded: in.Next, Branches: []string{}, HistoryLength: 1,
		IncompleteSteps: in.Next || in.More || in.Number < in.Total}
	for _, raw := range earlier(c, ThinkingName) {
		data.HistoryLength++
		var was thinkingData
		if json.Unmarshal(raw, &was) == nil {
			data.Branches = add(data.Branches, was.Branches...)
		}
	}
	if in.BranchFrom > 0 && in.BranchID != "" {
		data.Branches = add(data.Branches, in.BranchID)
	}
	out := "Thought process recorded."
	if data.IncompleteSteps {
		out += fmt.Sprintf(" It is unfinished (step %d of %d): go on before you answer.", in.Number, in.Total)
	}
	return answer(out, data)
}

// earlier gives the data of the run's earlier successful calls of a tool.
func earlier(c tool.Call, name string) []json.RawMessage {
	if c.State == nil {
		return nil
	}
	return c.State.Results(name)
}

func add(to []string, names ...string) []string {
	for _, n := range names {
		if !slices.Contains(to, n) {
			to = append(to, n)
		}
	}
	return to
}

// answer makes a successful result.
func answer(output string, data any) (tool.Result, error) {
	raw, err := json.Marshal(data)
	if err != nil {
		return tool.Result{}, fmt.Errorf("encode the result's data: %w", err)
	}
	return tool.Result{Output: output, Data: raw}, nil
}
