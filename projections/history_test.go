package projections_test

import (
	"strings"
	"testing"

	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
	"refold/infra/memory"
	"refold/projections"
)

// message gives the assistant's message and the first step after a story.
func message(t *testing.T, facts ...run.Event) (string, string) {
	b := told(t, append([]run.Event{began(), claim(1, 0, 1, 3)}, facts...)...)
	d := &memory.Documents{}
	b.project(d, projections.History)
	all := documents(t, d, projections.History)
	_, own, _ := strings.Cut(all, projections.History.ID()+" r1 ")
	own, steps, _ := strings.Cut(own, projections.History.ID()+".step")
	return own, steps
}

func TestHistory_Endings(t *testing.T) {
	for _, c := range []struct {
		name        string
		facts       []run.Event
		has, hasNot []string
	}{
		{"stop", []run.Event{run.RunStopped{Call: 1, Text: "So far", Reasoning: "hm", Shown: run.Shown{Cuts: "t2 a6"}, At: at(5)}},
			[]string{`"content": "So far"`, `"outcome": "stopped"`, `"completed": true`, `"reasoning": "hm"`, `"thought": ""`}, []string{`"error"`}},
		{"stop after a preamble", []run.Event{run.RunStopped{Call: 1, Text: "Let me.", Shown: run.Shown{Cuts: "a7 p", Pending: []run.PendingCall{{ID: "c", Name: "now"}}}, At: at(5)}},
			[]string{`"content": ""`, `"thought": "Let me."`}, nil},
		{"failed", []run.Event{run.RunFailed{Code: "incomplete", Message: "broke off", EndReason: run.EndIncomplete, Text: "So far", Call: 1, At: at(5)}},
			[]string{`"content": "So far"`, `"outcome": "failed"`, `"error_code": "incomplete"`, `"error": "broke off"`}, nil},
		{"fixed text", []run.Event{thought("", run.Shown{}), run.RunCompleted{Answer: "Sorry.", EndReason: run.EndEmpty, At: at(5)}},
			[]string{`"content": "Sorry."`, `"fallback": true`, `"end_reason": "empty"`}, []string{`"degraded"`}},
		{"synthesis", []run.Event{thought("Best.", run.Shown{}), run.RunCompleted{Answer: "Best.", Call: 1, EndReason: run.EndStuck, Degraded: true, At: at(5)}},
			[]string{`"content": "Best."`, `"degraded": true`, `"thought": ""`}, []string{`"fallback"`}},
		{"running", []run.Event{thought("Let me.", run.Shown{})}, []string{`"content": ""`, `"completed": false`, `"thought": "Let me."`}, []string{`"outcome"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			own, steps := message(t, c.facts...)
			for _, s := range c.has {
				if !strings.Contains(own+steps, s) {
					t.Errorf("no %s in:\n%s%s", s, own, steps)
				}
			}
			for _, s := range c.hasNot {
				if strings.Contains(own, s) {
					t.Errorf("%s in:\n%s", s, own)
				}
			}
		})
	}
}

func TestToolLog_LateOutcome(t *testing.T) {
	b := told(t, began(), run.ToolCallRequested{Call: "c1", Name: "send", Args: []byte(`{}`), At: at(3)}, run.ToolStarted{Call: "c1", Attempt: 1, At: at(4)},
		run.ToolCompleted{Call: "c1", Attempt: 1, Error: "interrupted", Reason: run.ReasonInterrupted, At: at(5)}, run.RunStopped{At: at(5)},
		run.ToolCompleted{Call: "c1", Attempt: 1, Success: true, Late: true, At: at(9)})
	d := &memory.Documents{}
	b.project(d, projections.ToolLog)
	got := documents(t, d, projections.ToolLog)
	for _, s := range []string{`"outcome": "failed"`, `"reason": "interrupted"`, `"late": "success"`} {
		if !strings.Contains(got, s) {
			t.Fatalf("no %s in %s", s, got)
		}
	}
}

func TestSessions_Deleted(t *testing.T) {
	b := told(t)
	b.session("s1", session.SessionDeleted{At: at(9)})
	d := &memory.Documents{}
	b.project(d, projections.Sessions)
	if got := documents(t, d, projections.Sessions); got != "" {
		t.Fatal(got)
	}
}

// What people load and are shown has one line for a payload, without the bulk of
// it; the fact has all of it.
func TestHistory_KeepsNoBulk(t *testing.T) {
	data := []byte(`{"display_type":"grep_results","query":"alpha","chunk_results":[{"content":"whole chunk"}],"total_matches":1}`)
	b := told(t, began(), claim(1, 0, 1, 3), thought("", run.Shown{}), run.ToolCallRequested{Call: "c1", Name: "grep_chunks", Args: []byte(`{}`), At: at(3)},
		run.ToolStarted{Call: "c1", Attempt: 1, At: at(4)}, run.ToolCompleted{Call: "c1", Attempt: 1, Success: true, Output: "whole chunk", Data: data, At: at(5)})
	d := &memory.Documents{}
	b.project(d, projections.History)
	b.project(d, projections.ToolLog)
	got := documents(t, d, projections.History) + documents(t, d, projections.ToolLog)
	var feed projections.RunFeed
	for _, r := range b.recorded("r1") {
		for _, f := range feed.Fact(r) {
			got += string(f.Data)
		}
	}
	if strings.Contains(got, "whole chunk") || strings.Contains(got, "chunk_results\"") {
		t.Error(got)
	}
	const line = `grep_chunks completed: 1 chunk results, query \"alpha\". The payload is left out here.`
	if strings.Count(got, line) != 2 || strings.Count(got, "total_matches") != 2 {
		t.Error(got)
	}
	if facts := b.recorded("r1"); !strings.Contains(string(facts[len(facts)-1].Event.(run.ToolCompleted).Data), "whole chunk") {
		t.Error("the fact was cut")
	}
}

// What a model is told to do about a failure is for the model: people see what
// failed, and the fact keeps both.
func TestFailure_WithoutWhatTheModelIsTold(t *testing.T) {
	const why = "\"bin\" is a binary file"
	b := told(t, began(), claim(1, 0, 1, 3), thought("", run.Shown{}), run.ToolCallRequested{Call: "c1", Name: "read_file", Args: []byte(`{}`), At: at(3)},
		run.ToolStarted{Call: "c1", Attempt: 1, At: at(4)},
		run.ToolCompleted{Call: "c1", Attempt: 1, Error: why + "\n" + tool.ErrorHint, Output: "Error: " + why + "\n" + tool.ErrorHint, At: at(5)})
	d := &memory.Documents{}
	b.project(d, projections.History)
	b.project(d, projections.ToolLog)
	got := documents(t, d, projections.History) + documents(t, d, projections.ToolLog)
	var feed projections.RunFeed
	facts := b.recorded("r1")
	for _, r := range facts {
		for _, f := range feed.Fact(r) {
			got += string(f.Data)
		}
	}
	if strings.Contains(got, "Work out why") || strings.Contains(got, `file\n`) || strings.Count(got, `\"bin\" is a binary file"`) != 7 {
		t.Error(got)
	}
	if e := facts[len(facts)-1].Event.(run.ToolCompleted); !strings.HasSuffix(e.Error, tool.ErrorHint) || !strings.HasSuffix(e.Output, tool.ErrorHint) {
		t.Errorf("the fact was cut: %+v", e)
	}
}
