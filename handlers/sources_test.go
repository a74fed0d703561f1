package handlers_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"refold/commands"
	"refold/domain/agent"
	"refold/domain/run"
	"refold/domain/tool"
	"refold/handlers"
	"refold/tests/scenario"
)

const (
	chunkID = "0b8f1c1e-58f6-4a39-9c3f-1f6f0d0c0a01"
	docID   = "7d0a6f0e-0000-4000-8000-00000000d0c1"
	baseID  = "7d0a6f0e-0000-4000-8000-0000000ba5e1"
	hit     = `<chunk chunk_id="` + chunkID + `" knowledge_id="` + docID + `" knowledge_base_id="` + baseID + `" knowledge_title="Leave">Ten days. &lt;ref id="c9"/&gt;</chunk>`
	cite    = `<kb doc="Leave" chunk_id="` + chunkID + `" kb_id="` + baseID + `" />`
)

// library gives a world with a base in scope and a tool that finds one chunk.
func library(w *world) {
	w.scope = commands.Scope{Scope: tool.Scope{Targets: []tool.Target{{Base: baseID}}},
		Knowledge: []run.Knowledge{{Base: baseID, Name: `Hand<book>`, Kind: "document", Documents: 3}}}
	w.tools.define("search", tool.ReadOnly, output(hit))
	w.tools.define("read", tool.ReadOnly, output("read"))
	w.tools.defs[0].Sources, w.tools.defs[0].Untrusted = true, true
	w.tools.defs[1].Handles = map[string]string{"chunk_id": tool.HandleChunk}
}

// What a model is shown has handles, what the record and readers get has ids.
func TestSources_HandlesInIdsOut(t *testing.T) {
	w := newWorld(t, inTurn(reply("", call("1", "search", `{"q":"leave"}`)),
		reply("", call("2", "read", `{"chunk_id":"c1"}`), call("3", "read", `{"chunk_id":"c7"}`)),
		reply(`Ten days<ref id="c1"/> and<ref id="c8"/> more.`)))
	library(w)
	w.start("w1")
	id := w.post("How much leave?")
	s := w.over(id)
	scenario.Equal(t, "answer", "Ten days"+cite+" and more.", s.Answer)

	first, second, third := w.model.request(1).Messages, w.model.request(2).Messages, w.model.request(3).Messages
	if !strings.Contains(first[0].Content, `<ref id="c1"/>`) {
		t.Error("the model is not told how to cite")
	}
	if !strings.Contains(first[1].Content, `<knowledge_base knowledge_base_id="b1" name="Hand&lt;book&gt;" type="document" entries="3"`) {
		t.Errorf("the question has no list of bases: %s", first[1].Content)
	}
	if got := second[len(second)-1].Content; !strings.Contains(got, `<chunk chunk_id="c1" knowledge_id="d1" knowledge_base_id="b1" knowledge_title="Leave">`) || strings.Contains(got, chunkID) {
		t.Errorf("the model was shown %s", got)
	}
	if got := third[len(third)-3].Calls[0].Arguments; got != `{"chunk_id":"c1"}` {
		t.Errorf("its own call comes back as %s", got)
	}
	ran := w.tools.ran
	if len(ran) != 2 || string(ran[1].Arguments) != `{"chunk_id":"`+chunkID+`"}` {
		t.Errorf("what ran: %+v", ran)
	}
	scenario.Equal(t, "scope", w.scope.Scope, ran[1].Scope)
	if got := third[len(third)-1].Content; !strings.Contains(got, "c7") || !strings.Contains(got, "Error") {
		t.Errorf("an unknown handle was answered with %s", got)
	}

	// The next turn has the citation as the model writes it.
	w.model.script = answers("Yes.")
	w.over(w.post("Sure?"))
	next := w.model.request(4).Messages
	if got := next[len(next)-2].Content; got != `Ten days<ref id="c1"/> and more.` {
		t.Errorf("the next turn reads %q", got)
	}
}

// What an answer cites from an earlier turn is evidence of its message too; what
// its own turn has found, or it does not cite, is not repeated.
func TestSources_CitedFromAnEarlierTurn(t *testing.T) {
	w := newWorld(t, inTurn(reply("", call("1", "search", `{"q":"leave"}`)), reply(`Ten days<ref id="c1"/>.`)))
	library(w)
	w.tools.define("search", tool.ReadOnly, func(context.Context, tool.Call) handlers.ToolOutcome {
		data, _ := json.Marshal(map[string]any{"references": []tool.Reference{{ID: chunkID, Content: "Ten days."}, {ID: docID, Content: "Not cited."}}})
		return handlers.ToolOutcome{Success: true, Output: hit, Data: data}
	})
	w.tools.defs = w.tools.defs[1:]
	w.tools.defs[1].Sources = true
	w.start("w1")
	first := w.post("How much leave?")
	w.over(first)
	if got := has[run.Thought](w, first).References; len(got) != 0 {
		t.Errorf("the first turn repeats %+v", got)
	}
	for i, c := range []struct {
		answer string
		want   int
	}{{`As said: ten days<ref id="c1"/>.`, 1}, {"Ten days.", 0}, {`Ten<ref id="c1"/>.`, 1}} {
		w.model.script = answers(c.answer)
		id := w.post("Sure?")
		s := w.over(id)
		got := has[run.Thought](w, id).References
		if len(got) != c.want || c.want > 0 && (got[0].ID != chunkID || got[0].Content != "Ten days." || !strings.Contains(s.Answer, cite)) {
			t.Errorf("turn %d, %q: %+v", i, s.Answer, got)
		}
	}
}

func TestSources_WithoutCitations(t *testing.T) {
	w := newWorld(t, inTurn(reply("", call("1", "search", `{}`)), reply(`Ten days<ref id="c1"/>.`)))
	library(w)
	w.agent.Uncited = true
	w.start("w1")
	scenario.Equal(t, "answer", "Ten days.", w.over(w.post("How much leave?")).Answer)
}

func TestSources_ARunWithoutAnyIsLeftAlone(t *testing.T) {
	w := newWorld(t, answers(`Ten <ref id="c1"/> [c1].`))
	w.start("w1")
	scenario.Equal(t, "answer", `Ten <ref id="c1"/> [c1].`, w.over(w.post("q")).Answer)
	if got := w.model.request(1).Messages[0].Content; got != "You answer." {
		t.Errorf("the system prompt is %q", got)
	}
}

// quickWorld answers in one pass.
func quickWorld(t *testing.T, found string, count int, s script) *world {
	w := newWorld(t, s)
	w.scope = commands.Scope{Scope: tool.Scope{Targets: []tool.Target{{Base: baseID}}}}
	w.agent.Mode, w.agent.Quick = agent.ModeQuick, agent.Quick{Rewrite: true, Fallback: run.FallbackModel}
	w.tools.define(run.StageSearch, tool.ReadOnly, func(context.Context, tool.Call) handlers.ToolOutcome {
		data, _ := json.Marshal(map[string]any{"display_type": "search_results", "count": count})
		return handlers.ToolOutcome{Success: true, Output: found, Data: data}
	})
	w.tools.defs[0].Sources, w.tools.defs[0].Untrusted = true, true
	w.tools.defs = append(w.tools.defs, handlers.Understand)
	return w
}

func TestQuickAnswer(t *testing.T) {
	w := quickWorld(t, hit, 1, inTurn(reply("```json\n{\"queries\":[\"How many days of leave are there?\",\"annual leave\"]}\n```"), reply(`Ten<ref id="c1"/>.`)))
	w.start("w1")
	id := w.post("How much leave?")
	s := w.over(id)
	scenario.Equal(t, "answer", "Ten"+cite+".", s.Answer)
	scenario.Equal(t, "facts", []string{"RunStarted", "ToolCallRequested", "ToolStarted", "ToolCompleted", "ToolCallRequested", "ToolStarted", "ToolCompleted",
		"ModelCallStarted", "Thought", "RunCompleted"}, w.kinds(id))
	scenario.Equal(t, "searched", `{"queries":["How many days of leave are there?","annual leave","How much leave?"]}`, string(w.tools.ran[0].Arguments))
	if !w.tools.ran[0].Quick {
		t.Error("the search does not know that it is a stage")
	}
	req := w.model.request(2)
	last := req.Messages[len(req.Messages)-1].Content
	if len(req.Tools) != 0 || !strings.Contains(last, `<untrusted id=`) || !strings.Contains(last, `chunk_id="c1"`) || !strings.HasSuffix(last, "Question: How much leave?") {
		t.Errorf("the one generation: %d tools, %s", len(req.Tools), last)
	}
	if strings.Contains(last, "{{") {
		t.Errorf("a placeholder is left: %s", last)
	}
}

// The conversation is part of what the question means.
func TestQuickAnswer_IsRewrittenWithTheConversation(t *testing.T) {
	w := quickWorld(t, hit, 1, answers(`{"queries":["q"]}`))
	w.start("w1")
	w.over(w.post("Tell me about <Leave>."))
	w.over(w.post("And for part-time?"))
	text := w.model.request(3).Messages[1].Content
	if !strings.Contains(text, "user: Tell me about &lt;Leave&gt;.") || !strings.Contains(text, "<question>And for part-time?</question>") {
		t.Errorf("the rewriting reads %s", text)
	}
}

// The search of a quick answer is given what earlier turns have found.
func TestQuickAnswer_KnowsEarlierEvidence(t *testing.T) {
	w := quickWorld(t, hit, 1, answers(`Ten<ref id="c1"/>.`))
	w.agent.Quick.Rewrite = false
	w.tools.define(run.StageSearch, tool.ReadOnly, func(context.Context, tool.Call) handlers.ToolOutcome {
		data, _ := json.Marshal(map[string]any{"count": 1, "references": []tool.Reference{{ID: chunkID, Content: "Ten days."}}})
		return handlers.ToolOutcome{Success: true, Output: hit, Data: data}
	})
	w.start("w1")
	w.over(w.post("How much leave?"))
	w.over(w.post("And for part-time?"))
	if ran := w.tools.ran; len(ran) != 2 || len(ran[0].Earlier) != 0 || len(ran[1].Earlier) != 1 || ran[1].Earlier[0].ID != chunkID {
		t.Errorf("what ran: %+v", ran)
	}
}

func TestQuickAnswer_NothingFound(t *testing.T) {
	w := quickWorld(t, "nothing", 0, inTurn(reply("no json, two\n\nparagraphs"), reply("Not in the sources.")))
	w.start("w1")
	s := w.over(w.post("How much leave?"))
	if last := w.model.request(2).Messages; !strings.Contains(last[len(last)-1].Content, "Nothing about the question") || strings.Contains(last[len(last)-1].Content, "untrusted") {
		t.Errorf("the model reads %s", last[len(last)-1].Content)
	}
	scenario.Equal(t, "searched", `{"queries":["How much leave?"]}`, string(w.tools.ran[0].Arguments))
	if !s.NothingFound() || s.Answer != "Not in the sources." {
		t.Errorf("%+v", s)
	}
}
