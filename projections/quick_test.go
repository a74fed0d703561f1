package projections_test

import (
	"encoding/json"
	"strings"
	"testing"

	"refold/domain/run"
	"refold/domain/tool"
	"refold/infra/memory"
	"refold/projections"
	"refold/tests/scenario"
)

const evidence = `"references":[{"id":"c1","content":"Ten days.","knowledge_id":"d","knowledge_title":"Leave","metadata":{"revision":"2"},"chunk_type":"text"}]`

// quickRun is a quick answer from one passage.
func quickRun() []run.Event {
	start := began()
	start.Mode, start.Quick, start.Scope = run.ModeQuick, &run.Quick{}, tool.Scope{Targets: []tool.Target{{Base: "b"}}}
	start.Tools = []tool.Definition{definition(run.StageSearch, "Search"), definition(run.StageUnderstand, "")}
	return []run.Event{start,
		run.ToolCallRequested{Call: "ragpipe-1", Name: run.StageUnderstand, Args: json.RawMessage(`{"query":"q"}`), Digest: "1", At: at(2)},
		run.ToolStarted{Call: "ragpipe-1", Attempt: 1, Owner: "w", Key: "k", Deadline: at(99), At: at(3)},
		run.ToolCompleted{Call: "ragpipe-1", Attempt: 1, Success: true, Output: "q", Data: json.RawMessage(`{"display_type":"query_understand","queries":["q"]}`), At: at(4)},
		run.ToolCallRequested{Call: "ragpipe-2", Index: 1, Name: run.StageSearch, Args: json.RawMessage(`{"queries":["q"]}`), Digest: "2", At: at(4)},
		run.ToolStarted{Call: "ragpipe-2", Attempt: 1, Owner: "w", Key: "k2", Deadline: at(99), At: at(5)},
		run.ToolCompleted{Call: "ragpipe-2", Attempt: 1, Success: true, Output: "<chunk/>", Data: json.RawMessage(`{"display_type":"search_results","count":1,` + evidence + `}`), At: at(6)},
		claim(1, 0, 1, 7),
		run.Thought{Call: 1, Purpose: run.PurposeRound, Text: "Ten.", Reasoning: "hm", Finish: "stop", Model: "m", Usage: usage, Shown: run.Shown{Cuts: "t2 c0 a4"}, At: at(8)},
		run.RunCompleted{Answer: "Ten.", Call: 1, EndReason: run.EndNatural, Usage: usage, Rounds: 1, DurationMS: 6000, At: at(8)},
	}
}

func TestFeed_QuickAnswerShowsItsReferencesFirst(t *testing.T) {
	b := newBook(t)
	b.run("r1", quickRun()...)
	var kinds []string
	for _, f := range framesOf(b.recorded("r1")) {
		var body struct {
			Type       string           `json:"response_type"`
			References []tool.Reference `json:"knowledge_references"`
			Data       map[string]any   `json:"data"`
		}
		if err := json.Unmarshal(f.Data, &body); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, body.Type)
		switch body.Type {
		case "references":
			if len(body.References) != 1 || body.References[0].Metadata["revision"] != "2" || body.Data["references"] == nil {
				t.Errorf("references: %s", f.Data)
			}
		case "tool_result":
			if strings.Contains(string(f.Data), "Ten days") {
				t.Errorf("the result repeats the references: %s", f.Data)
			}
		case "answer":
			if body.Data["is_fallback"] != nil {
				t.Errorf("no fallback: %s", f.Data)
			}
		}
	}
	scenario.Equal(t, "frames", "agent_query tool_call tool_result tool_call tool_result references thinking thinking answer answer complete", strings.Join(kinds, " "))
}

func TestHistory_QuickAnswerIsOneStep(t *testing.T) {
	b := newBook(t)
	b.session("s1", created, posted)
	b.run("r1", quickRun()...)
	docs := &memory.Documents{}
	b.project(docs, projections.History)
	text := documents(t, docs, projections.History)
	if strings.Count(text, projections.StepCollection+" r1:") != 1 || strings.Count(text, `"id": "ragpipe-`) != 2 || !strings.Contains(text, `"reasoning": "hm"`) {
		t.Errorf("steps:\n%s", text)
	}
	if !strings.Contains(text, `"references": [`) || !strings.Contains(text, `"content": "Ten."`) {
		t.Errorf("message:\n%s", text)
	}
}

func TestFeed_AnFAQAnswerIsNoFallback_AFixedTextIs(t *testing.T) {
	for source, want := range map[string]bool{run.SourceFAQ: false, "": true} {
		b := newBook(t)
		b.run("r1", append(quickRun()[:7], run.RunCompleted{Answer: "Ten.", Source: source, EndReason: run.EndNatural, At: at(8)})...)
		if got := strings.Contains(text(framesOf(b.recorded("r1"))), `"is_fallback":true`); got != want {
			t.Errorf("source %q: is_fallback %v", source, got)
		}
	}
}
