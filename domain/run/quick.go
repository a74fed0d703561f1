package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"refold/domain/tool"
)

// ModeQuick answers in one pass instead of rounds: the question is understood,
// sources are searched, and one model call writes the answer from them. The
// stages are calls of the engine itself, claimed, run and recorded as those of
// a model are; no model sees them as its own.
const ModeQuick = "quick-answer"

// The stages of a quick answer: names of the tools that do them, and how the
// ids of their calls begin.
const (
	StageUnderstand = "query_understand"
	StageSearch     = "knowledge_search"
	StageWeb        = "web_search"
	StagePrefix     = "ragpipe-"
)

// Quick is how a quick answer is made.
type Quick struct {
	Rewrite        bool   `json:"rewrite,omitempty"`         // the question is rewritten with the conversation
	RewriteSystem  string `json:"rewrite_system,omitempty"`  // prompts, "" = the built-in ones
	RewriteUser    string `json:"rewrite_user,omitempty"`    //
	RewriteModel   string `json:"rewrite_model,omitempty"`   // "" = that of the run
	Template       string `json:"template,omitempty"`        // of the message with the sources; "" = the built-in one
	Fallback       string `json:"fallback,omitempty"`        // when nothing is found: FallbackFixed or FallbackModel
	FallbackText   string `json:"fallback_text,omitempty"`   // "" = the built-in one
	FallbackPrompt string `json:"fallback_prompt,omitempty"` //
}

// What a quick answer does when nothing is found.
const (
	FallbackFixed = "fixed"
	FallbackModel = "model"
)

// Knowledge describes a base in the scope, for the prompt.
type Knowledge struct {
	Base         string   `json:"base"`
	Name         string   `json:"name"`
	Kind         string   `json:"kind"` // document or faq
	Description  string   `json:"description,omitempty"`
	Documents    int      `json:"documents"`
	Capabilities []string `json:"capabilities,omitempty"`
	Recent       []string `json:"recent,omitempty"`    // titles of the newest documents
	Questions    []string `json:"questions,omitempty"` // of FAQ bases
}

// Pinned is a document that the person named.
type Pinned struct {
	Base     string `json:"base"`
	Document string `json:"document"`
	Title    string `json:"title"`
}

func (s State) quick() bool { return s.Start != nil && s.Start.Mode == ModeQuick }

// preparing tells whether the model has not been asked yet in a quick answer.
func (s State) preparing() bool {
	return s.quick() && !slices.ContainsFunc(s.Steps, func(st Step) bool { return st.Thought != nil }) && s.Synthesis == ""
}

// quickStart requests the first stage.
func quickStart(e RunStarted) []Event {
	if e.Mode != ModeQuick || e.Scope.Empty() && !e.Web {
		return nil // nothing to search: the model answers by itself
	}
	if e.Quick != nil && e.Quick.Rewrite {
		return []Event{stage(1, StageUnderstand, map[string]any{"query": e.Query}, e.At)}
	}
	return searchStages(e, 1, []string{e.Query}, e.At)
}

func searchStages(e RunStarted, n int, queries []string, at time.Time) []Event {
	var out []Event
	if !e.Scope.Empty() {
		out = append(out, stage(n, StageSearch, map[string]any{"queries": queries}, at))
		n++
	}
	if e.Web {
		out = append(out, stage(n, StageWeb, map[string]any{"query": queries[0]}, at))
	}
	return out
}

func stage(n int, name string, args map[string]any, at time.Time) ToolCallRequested {
	raw, _ := json.Marshal(args) // plain values: can't fail
	if canonical, err := tool.Canonical(raw); err == nil {
		raw = canonical
	}
	return ToolCallRequested{Call: fmt.Sprintf("%s%d", StagePrefix, n), Index: n - 1, Name: name, Args: raw, Digest: tool.Digest(name, raw), At: at}
}

// maxStageQueries is how many ways of asking are searched for.
const maxStageQueries = 5

// afterStage says what follows when all stages so far are done. A stage that
// failed never ends the run: what it would have given is missing.
func (s State) afterStage(calls []Call, at time.Time) []Event {
	if !slices.ContainsFunc(calls, func(c Call) bool { return c.Name == StageSearch || c.Name == StageWeb }) {
		queries := []string{s.Start.Query}
		for _, c := range calls {
			var out struct {
				Queries []string `json:"queries"`
			}
			if c.Result == nil || !c.Result.Success || json.Unmarshal(c.Result.Data, &out) != nil {
				continue
			}
			if list := slices.DeleteFunc(out.Queries, blank); len(list) > 0 {
				queries = list[:min(len(list), maxStageQueries)]
			}
		}
		return searchStages(*s.Start, len(calls)+1, queries, at)
	}
	if len(s.Waiting) > 0 { // a person has said something since: the model answers
		return nil
	}
	if answer := direct(calls); answer != "" {
		e := s.completed(answer, 0, EndNatural, false, at)
		e.Source, e.Fallback = SourceFAQ, false
		return []Event{e}
	}
	if q := s.Start.Quick; found(calls) == 0 && q != nil && q.Fallback == FallbackFixed {
		text := q.FallbackText
		if blank(text) {
			text = s.text(TextNothingFound)
		}
		e := s.completed(text, 0, EndNatural, false, at)
		e.Fallback = true
		return []Event{e}
	}
	return nil
}

// direct is the answer of an FAQ entry that fits so well that it is the answer.
func direct(calls []Call) string {
	for _, c := range calls {
		var out struct {
			Answer string `json:"direct_answer"`
		}
		if c.Name == StageSearch && c.Result != nil && c.Result.Success && json.Unmarshal(c.Result.Data, &out) == nil && !blank(out.Answer) {
			return strings.TrimSpace(out.Answer)
		}
	}
	return ""
}

// found counts what the stages have found.
func found(calls []Call) int {
	n := 0
	for _, c := range calls {
		var out struct {
			Count int `json:"count"`
		}
		if c.Result != nil && c.Result.Success && json.Unmarshal(c.Result.Data, &out) == nil && (c.Name == StageSearch || c.Name == StageWeb) {
			n += max(0, out.Count)
		}
	}
	return n
}

// Stages are the finished stages of a quick answer, in order.
func (s State) Stages() []Call {
	if !s.quick() {
		return nil
	}
	var out []Call
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if strings.HasPrefix(c.Call, StagePrefix) {
				out = append(out, c)
			}
		}
	}
	for _, c := range s.Open {
		if strings.HasPrefix(c.Call, StagePrefix) && c.Status == CallClosed {
			out = append(out, c)
		}
	}
	return out
}

// NothingFound tells whether a quick answer had sources to search and found
// nothing in them.
func (s State) NothingFound() bool {
	stages := s.Stages()
	searched := slices.ContainsFunc(stages, func(c Call) bool { return c.Name == StageSearch || c.Name == StageWeb })
	return searched && found(stages) == 0
}
