package run_test

import (
	"encoding/json"
	"testing"

	"refold/domain/run"
	"refold/domain/tool"
	"refold/tests/scenario"
)

func quick(change ...func(*run.RunStarted)) run.RunStarted {
	return started(append([]func(*run.RunStarted){func(e *run.RunStarted) {
		e.Mode, e.Quick = run.ModeQuick, &run.Quick{Rewrite: true, Fallback: run.FallbackModel}
		e.Scope = tool.Scope{Targets: []tool.Target{{Base: "b"}}}
		e.Tools = []tool.Definition{definition(run.StageSearch, tool.ReadOnly), definition(run.StageUnderstand, tool.ReadOnly), definition(run.StageWeb, tool.ReadOnly)}
	}}, change...)...)
}

func beginQuick(t *testing.T, change ...func(*run.RunStarted)) *play {
	t.Helper()
	p := &play{scenario.Given(t), t, 0}
	return p.do(run.Start{RunStarted: quick(change...)})
}

// stage reports what a stage has found.
func (p *play) stage(call, data string) *play {
	p.t.Helper()
	p.claimTool(call)
	r := p.result(call, "<results/>")
	r.Data = json.RawMessage(data)
	return p.do(r)
}

func TestQuick_OnePass(t *testing.T) {
	p := beginQuick(t, func(e *run.RunStarted) { e.Web = true })
	p.Kinds("RunStarted", "ToolCallRequested")
	scenario.Equal(t, "due first", []run.Effect{run.CallTool{Call: "ragpipe-1", Attempt: 1}}, run.Due(p.State(), moment(0)))
	p.stage("ragpipe-1", `{"queries":["opening hours","when open"," "]}`).Kinds("ToolCompleted", "ToolCallRequested", "ToolCallRequested")
	c, _ := p.State().FindCall("ragpipe-2")
	scenario.Equal(t, "search", `{"queries":["opening hours","when open"]}`, string(c.Args))
	c, _ = p.State().FindCall("ragpipe-3")
	scenario.Equal(t, "web", `{"query":"opening hours"}`, string(c.Args))
	p.stage("ragpipe-3", `{"count":0}`).Kinds("ToolCompleted")
	p.stage("ragpipe-2", `{"count":2}`).Kinds("ToolCompleted")
	scenario.Equal(t, "due next", []run.Effect{run.CallModel{Attempt: 1, Purpose: run.PurposeRound}}, run.Due(p.State(), moment(0)))
	p.says("At nine.", "stop").ended("completed", run.EndNatural, "At nine.")
	if p.State().NothingFound() {
		t.Error("two results count as nothing")
	}
	scenario.Equal(t, "the turn as later prompts know it", []run.Message{{Role: "user", Content: "What time is it?"}, {Role: "assistant", Content: "At nine."}}, p.State().Turn())
}

func TestQuick_WithoutSourcesTheModelAnswersAtOnce(t *testing.T) {
	p := beginQuick(t, func(e *run.RunStarted) { e.Scope = tool.Scope{} })
	p.Kinds("RunStarted").says("Hello.", "stop").ended("completed", run.EndNatural, "Hello.")
}

func TestQuick_WithoutRewriteTheQuestionIsSearched(t *testing.T) {
	p := beginQuick(t, func(e *run.RunStarted) { e.Quick.Rewrite = false })
	c, _ := p.State().FindCall("ragpipe-1")
	scenario.Equal(t, "search", `{"queries":["What time is it?"]}`, string(c.Args))
	scenario.Equal(t, "tool", run.StageSearch, c.Name)
}

func TestQuick_AnFAQEntryAnswersByItself(t *testing.T) {
	p := beginQuick(t).stage("ragpipe-1", `{"queries":["q"]}`).stage("ragpipe-2", `{"count":1,"direct_answer":" Nine. "}`)
	p.Kinds("ToolCompleted", "RunCompleted").ended("completed", run.EndNatural, "Nine.")
}

func TestQuick_NothingFound(t *testing.T) {
	fixed := func(text string) func(*run.RunStarted) {
		return func(e *run.RunStarted) { e.Quick.Fallback, e.Quick.FallbackText = run.FallbackFixed, text }
	}
	beginQuick(t, fixed("Ask the desk.")).stage("ragpipe-1", `{}`).stage("ragpipe-2", `{"count":0}`).
		ended("completed", run.EndNatural, "Ask the desk.")
	p := beginQuick(t, fixed("")).stage("ragpipe-1", `{}`).stage("ragpipe-2", `{"count":0}`)
	if p.State().Answer == "" || !p.State().Over() {
		t.Errorf("no text of the engine's own: %q", p.State().Answer)
	}
	p = beginQuick(t).stage("ragpipe-1", `{}`).stage("ragpipe-2", `{"count":0}`).says("I do not know.", "stop")
	p.ended("completed", run.EndNatural, "I do not know.")
	if !p.State().NothingFound() {
		t.Error("nothing was found, and the state does not say so")
	}
}

// A stage that fails takes nothing with it but what it would have found.
func TestQuick_AStageThatFails(t *testing.T) {
	p := beginQuick(t).claimTool("ragpipe-1").do(run.RecordTool{Call: "ragpipe-1", Attempt: 1, Error: "no model", Output: "Error", Now: t0})
	c, _ := p.State().FindCall("ragpipe-2")
	scenario.Equal(t, "search", `{"queries":["What time is it?"]}`, string(c.Args))
	p.claimTool("ragpipe-2").do(run.RecordTool{Call: "ragpipe-2", Attempt: 1, Error: "no index", Output: "Error", Now: t0})
	p.says("I could not look.", "stop").ended("completed", run.EndNatural, "I could not look.")
}

// A stop is a fence here too: it never becomes a fallback answer.
func TestQuick_AStopIsNoFallback(t *testing.T) {
	p := beginQuick(t, func(e *run.RunStarted) { e.Quick.Fallback = run.FallbackFixed }).stage("ragpipe-1", `{}`).claimTool("ragpipe-2")
	p.do(run.Stop{By: "u", Reason: "user_requested", Now: t0})
	p.do(run.RecordTool{Call: "ragpipe-2", Attempt: 1, Success: true, Data: json.RawMessage(`{"count":0}`), Now: t0})
	p.ended("stopped", run.EndUser, "")
}

func TestQuick_TheModelMakesNoCalls(t *testing.T) {
	p := beginQuick(t).stage("ragpipe-1", `{}`).stage("ragpipe-2", `{"count":1}`).says("", "tool_calls", call("x", run.StageSearch))
	p.Kinds("Thought", "ToolCallRequested", "ToolCompleted").says("Fine.", "stop").ended("completed", run.EndNatural, "Fine.")
}

// A call that the model makes is no stage: it ends nothing and asks for no other.
func TestQuick_ACallOfTheModelIsNoStage(t *testing.T) {
	for _, name := range []string{run.StageSearch, run.StageWeb, "anything"} {
		p := beginQuick(t, func(e *run.RunStarted) { e.Quick.Fallback = run.FallbackFixed }).stage("ragpipe-1", `{}`).stage("ragpipe-2", `{"count":1}`)
		p.says("", "tool_calls", call("x", name)).Kinds("Thought", "ToolCallRequested", "ToolCompleted").says("Fine.", "stop").ended("completed", run.EndNatural, "Fine.")
	}
}

// What a person says while sources are searched is answered, also if an entry or a
// fixed text would have ended the run.
func TestQuick_ASteeredMessageIsAnswered(t *testing.T) {
	for _, data := range []string{`{"count":1,"direct_answer":"Nine."}`, `{"count":0}`} {
		p := beginQuick(t, func(e *run.RunStarted) { e.Quick.Fallback = run.FallbackFixed }).stage("ragpipe-1", `{}`)
		p.do(run.Steer{Message: "m2", Text: "And on Sunday?", Now: t0})
		p.stage("ragpipe-2", data).Kinds("ToolCompleted").says("Closed.", "stop").ended("completed", run.EndNatural, "Closed.")
	}
}

// A handle that stands for nothing is told to the model, and the call does not run.
func TestCall_WithUnknownHandles(t *testing.T) {
	c := call("c1", "now")
	c.Unknown = []string{"c9", "d4"}
	p := begin(t).says("", "tool_calls", c).Kinds("Thought", "ToolCallRequested", "ToolCompleted")
	got, _ := p.State().FindCall("c1")
	if got.Problem == "" || got.Status != run.CallClosed {
		t.Errorf("the call is %+v", got)
	}
}
