package tools

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"refold/domain/tool"
)

// record is the state of a run: the data of each tool's results.
type record map[string][]json.RawMessage

func (r record) Results(name string) []json.RawMessage { return r[name] }

// use runs a tool with what it has recorded so far, and records the result.
func use(t *testing.T, r record, x tool.Tool, args string) tool.Result {
	t.Helper()
	name := x.Definition().Name
	got, err := x.Run(context.Background(), tool.Call{Tenant: "t1", Run: "r1", Arguments: json.RawMessage(args), State: r})
	if err != nil {
		t.Fatal(err)
	}
	if got.Error == "" && r != nil {
		r[name] = append(r[name], got.Data)
	}
	return got
}

func TestThinking(t *testing.T) {
	r := record{}
	got := use(t, r, Thinking{}, `{"thought":"a","next_thought_needed":true,"thought_number":1,"total_thoughts":2}`)
	if got.Output != "Thought process recorded. It is unfinished (step 1 of 2): go on before you answer." {
		t.Error(got.Output)
	}
	use(t, r, Thinking{}, `{"thought":"b","next_thought_needed":true,"thought_number":3,"total_thoughts":2,"branch_from_thought":1,"branch_id":"other"}`)
	got = use(t, r, Thinking{}, `{"thought":"c","next_thought_needed":false,"thought_number":4,"total_thoughts":4,"branch_from_thought":1,"branch_id":"other"}`)
	want := `{"display_type":"thinking","thought":"c","thought_number":4,"total_thoughts":4,"next_thought_needed":false,"branches":["other"],"thought_history_length":3,"incomplete_steps":false}`
	if string(got.Data) != want || got.Output != "Thought process recorded." {
		t.Errorf("%s\n%s", got.Output, got.Data)
	}
	if !strings.Contains(string(r["thinking"][1]), `"total_thoughts":3`) {
		t.Errorf("the total was not raised: %s", r["thinking"][1])
	}
	// Without a record it is the first thought.
	if got := use(t, nil, Thinking{}, `{"thought":"a","next_thought_needed":false,"thought_number":1,"total_thoughts":1}`); !strings.Contains(string(got.Data), `"thought_history_length":1`) {
		t.Errorf("%s", got.Data)
	}
}

func TestTodoWrite(t *testing.T) {
	r := record{}
	got := use(t, r, TodoWrite{}, `{"task":"Compare","steps":[{"id":"a","description":"Find X","status":"completed"},{"id":2,"description":"Find Y","status":"in_progress"},{"description":"Find Z"}]}`)
	if want := "Plan for: Compare\n[x] a. Find X\n[>] 2. Find Y\n[ ] 3. Find Z\n1 completed, 1 in progress, 1 pending. Finish the 2 open step(s) before you write the answer."; got.Output != want {
		t.Errorf("%s", got.Output)
	}
	steps := `[{"id":"a","description":"Find X","status":"completed"},{"id":"2","description":"Find Y","status":"in_progress"},{"id":"3","description":"Find Z","status":"pending"}]`
	text, _ := json.Marshal(steps)
	if want := `{"display_type":"plan","task":"Compare","steps":` + steps + `,"steps_json":` + string(text) + `,"total_steps":3,"plan_created":true}`; string(got.Data) != want {
		t.Errorf("%s", got.Data)
	}
	got = use(t, r, TodoWrite{}, `{"steps":[{"id":"a","description":"Find X","status":"completed"}]}`)
	if !strings.Contains(string(got.Data), `"task":"Compare"`) || !strings.HasSuffix(got.Output, "write the answer now.") {
		t.Errorf("%s\n%s", got.Output, got.Data)
	}
	got = use(t, r, TodoWrite{}, `{"task":"x","steps":[]}`)
	if got.Error != "" || got.Output != emptyPlan || !strings.Contains(string(got.Data), `"steps":[],"steps_json":"[]","total_steps":0`) {
		t.Errorf("%+v", got)
	}
}

type stored map[string]string

func (s stored) ReadResult(_ context.Context, tenant, run, id string) (string, error) {
	if id == "broken" {
		return "", errors.New("store is down")
	}
	text, ok := s[tenant+"/"+run+"/"+id]
	if !ok {
		return "", ErrNoResult
	}
	return text, nil
}

func TestReadToolResultPages(t *testing.T) {
	full := strings.Repeat("中文😀x", 5000)
	x := &ReadToolResult{stored{"t1/r1/c1": full, "t2/r1/c2": "foreign", "t1/r1/empty": ""}}
	var all strings.Builder
	args := `{"call_id":"c1"}`
	for pages := 0; args != ""; pages++ {
		got := use(t, nil, x, args)
		head, piece, ok := strings.Cut(got.Output, "\n")
		var page resultPage
		if err := json.Unmarshal(got.Data, &page); err != nil || !ok || pages > 3 {
			t.Fatal(pages, err, got)
		}
		all.WriteString(piece)
		if args = ""; page.Next > 0 {
			args = `{"call_id":"c1","offset":` + jsonInt(page.Next) + `}`
			if !strings.HasSuffix(head, "of 20000; next offset "+jsonInt(page.Next)+"]") {
				t.Error(head)
			}
		} else if head != "[result of call c1: characters 16000-20000 of 20000; this is the end]" {
			t.Error(head)
		}
	}
	if all.String() != full {
		t.Error("the pages are not the whole")
	}
	if got := use(t, nil, x, `{"call_id":"c1","offset":3,"limit":2}`); got.Output != "[result of call c1: characters 3-5 of 20000; next offset 5]\nx中" {
		t.Error(got.Output)
	}
	if got := use(t, nil, x, `{"call_id":"empty"}`); got.Error != "" {
		t.Error(got.Error)
	}
	for args, want := range map[string]string{`{"call_id":"c2"}`: "no stored result", `{"call_id":"c1","offset":20000}`: "past its end"} {
		if got := use(t, nil, x, args); !strings.Contains(got.Error, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if _, err := x.Run(context.Background(), tool.Call{Arguments: json.RawMessage(`{"call_id":"broken"}`)}); err == nil {
		t.Error("want an error")
	}
	whole := invoker(t, x).Invoke(context.Background(), Request{Name: ReadToolResultName, MaxOutput: 500,
		Call: tool.Call{Tenant: "t1", Run: "r1", Arguments: json.RawMessage(`{"call_id":"c1","limit":16000}`)}})
	if whole.Truncated || whole.Result.Error != "" {
		t.Errorf("a page was shortened: %s", whole.Result.Error)
	}
}

func jsonInt(n int) string { b, _ := json.Marshal(n); return string(b) }
