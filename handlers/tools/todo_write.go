package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"refold/domain/tool"
)

// TodoWriteName is the name of the plan tool.
const TodoWriteName = "todo_write"

// TodoWrite keeps the plan of a turn. Each call replaces the plan; the plan is
// the data of the last call in the record, so it survives a crash.
type TodoWrite struct{}

var todoWriteDefinition = tool.Definition{
	Name:  TodoWriteName,
	Title: "Plan",
	Description: "Write down or update the plan for finding information, when a question needs three or more look-ups or covers several topics. " +
		"Each call replaces the whole plan, so send every step with its present status; keep one step in_progress at a time and mark a step completed as soon as it is. " +
		"List look-ups only: comparing, summarising and writing the answer are not steps. Not for a simple question.",
	Effect: tool.ReadOnly,
	Schema: json.RawMessage(`{"type":"object","properties":{
"task":{"type":"string","description":"The question or goal that the plan serves."},
"steps":{"type":"array","maxItems":100,"description":"All steps, in order.","items":{"type":"object","properties":{
"id":{"type":["string","integer"],"description":"Short id that stays the same in updates."},
"description":{"type":"string","description":"What is to be found out."},
"status":{"type":"string","enum":["pending","in_progress","completed"]}},
"required":["description"]}}},
"required":["steps"]}`),
}

// Definition implements tool.Tool.
func (TodoWrite) Definition() tool.Definition { return todoWriteDefinition }

type todoStep struct {
	ID          string `json:"id"`
	Description string `json:"description"`
	Status      string `json:"status"`
}

type todoData struct {
	DisplayType string     `json:"display_type"`
	Task        string     `json:"task"`
	Steps       []todoStep `json:"steps"`
	StepsJSON   string     `json:"steps_json"`
	TotalSteps  int        `json:"total_steps"`
	PlanCreated bool       `json:"plan_created"`
}

const emptyPlan = `The plan has no steps yet. A course that fits most questions:
1. Find out which sources can hold the answer.
2. Search them with several wordings of the question.
3. Read the best hits in full where excerpts are not enough.
4. Search again for whatever is still open or contradictory.
Send the steps that fit this task.`

// Run implements tool.Tool.
func (TodoWrite) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	var in struct {
		Task  string `json:"task"`
		Steps []struct {
			ID          json.RawMessage `json:"id"`
			Description string          `json:"description"`
			Status      string          `json:"status"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(c.Arguments, &in); err != nil {
		return tool.Failed("todo_write: " + err.Error()), nil
	}
	data := todoData{DisplayType: "plan", Task: strings.TrimSpace(in.Task), Steps: []todoStep{}, PlanCreated: true}
	if was := earlier(c, TodoWriteName); data.Task == "" && len(was) > 0 {
		var last todoData
		if json.Unmarshal(was[len(was)-1], &last) == nil {
			data.Task = last.Task
		}
	}
	count := map[string]int{}
	var list strings.Builder
	for i, s := range in.Steps {
		step := todoStep{ID: strings.Trim(string(s.ID), `"`), Description: strings.TrimSpace(s.Description), Status: s.Status}
		var text string
		if json.Unmarshal(s.ID, &text) == nil {
			step.ID = text
		}
		if step.ID == "" {
			step.ID = strconv.Itoa(i + 1)
		}
		if step.Status == "" {
			step.Status = "pending"
		}
		count[step.Status]++
		data.Steps = append(data.Steps, step)
		mark := map[string]string{"completed": "[x]", "in_progress": "[>]"}[step.Status]
		if mark == "" {
			mark = "[ ]"
		}
		fmt.Fprintf(&list, "%s %s. %s\n", mark, step.ID, step.Description)
	}
	data.TotalSteps = len(data.Steps)
	steps, err := json.Marshal(data.Steps)
	if err != nil {
		return tool.Result{}, fmt.Errorf("encode the plan: %w", err)
	}
	data.StepsJSON = string(steps)
	if len(data.Steps) == 0 {
		return answer(emptyPlan, data)
	}
	out := "Plan"
	if data.Task != "" {
		out += " for: " + data.Task
	}
	out += "\n" + list.String() + fmt.Sprintf("%d completed, %d in progress, %d pending.", count["completed"], count["in_progress"], count["pending"])
	if open := len(data.Steps) - count["completed"]; open > 0 {
		out += fmt.Sprintf(" Finish the %d open step(s) before you write the answer.", open)
	} else {
		out += " All look-ups are done: write the answer now."
	}
	return answer(out, data)
}
