package extractive

import (
	"encoding/json"
	"regexp"
	"strings"

	"refold/handlers"
)

// turn is the question that a request is about and what was done for it so far.
type turn struct {
	query
	text     string // the question
	chinese  bool
	tools    map[string]bool
	sources  bool            // a tool that reads sources was offered, or has been used
	used     map[string]bool // tools that were called
	parallel bool
	made     map[string]bool // calls made, by callKey
	rounds   int
	evidence evidence
}

// request is a call to make.
type request struct{ tool, arguments string }

func callKey(tool, arguments string) string { return tool + "\x00" + arguments }

// The engine puts the context of a turn in front of its question, and where no
// tools can be used it hands results over as text.
var (
	contextEnd = "</runtime_context>"
	mustUse    = regexp.MustCompile(`(?s)^\s*<must_use>.*?</must_use>`)
	// A quick answer has its sources and its question in one message.
	quickAnswer  = regexp.MustCompile(`(?s)^Answer the question at the end from the sources that follow\.(.*)\n\nQuestion: (.*)$`)
	nothingFound = regexp.MustCompile(`(?s)^Nothing about the question below was found.*?\n\nQuestion: (.*)$`)
	handedOver   = regexp.MustCompile(`(?m)^Tool (\S+) returned:[ \t]*\n`)
)

func readTurn(req handlers.ModelRequest) *turn {
	t := &turn{tools: map[string]bool{}, used: map[string]bool{}, made: map[string]bool{}, parallel: req.Parallel}
	for _, d := range req.Tools {
		t.tools[d.Name] = true
		t.sources = t.sources || isSourceTool(d.Name)
	}
	start := -1
	for i, m := range req.Messages {
		if m.Role == handlers.RoleUser && (start < 0 || strings.Contains(m.Content, contextEnd) || !strings.Contains(req.Messages[start].Content, contextEnd)) {
			start = i
		}
	}
	if start < 0 {
		return t
	}
	asked := req.Messages[start].Content
	if i := strings.LastIndex(asked, contextEnd); i >= 0 {
		asked = asked[i+len(contextEnd):]
	}
	asked = mustUse.ReplaceAllString(asked, "")
	if m := quickAnswer.FindStringSubmatch(asked); m != nil { // sources, then the question
		t.sources = true
		t.evidence.take(searchTool, "", m[1])
		asked = m[2]
	} else if m := nothingFound.FindStringSubmatch(asked); m != nil {
		t.sources = true
		asked = m[1]
	}
	sections := handedOver.FindAllStringSubmatchIndex(asked, -1)
	t.text = asked
	if len(sections) > 0 {
		t.text = asked[:sections[0][0]]
	}
	t.text = strings.TrimSpace(t.text)
	t.chinese = hasHan(t.text) && !hasKana(t.text)
	t.query = queryOf(t.text)
	for i, s := range sections {
		end := len(asked)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		t.sources = t.sources || isSourceTool(asked[s[2]:s[3]])
		t.evidence.take(asked[s[2]:s[3]], "", asked[s[1]:end])
	}

	arguments := map[string]string{} // of the calls, by id
	for _, m := range req.Messages[start+1:] {
		switch m.Role {
		case handlers.RoleAssistant:
			if len(m.Calls) > 0 {
				t.rounds++
			}
			for _, c := range m.Calls {
				t.made[callKey(c.Name, compact(c.Arguments))] = true
				t.used[c.Name] = true
				arguments[c.ID] = c.Arguments
				t.sources = t.sources || isSourceTool(c.Name)
			}
		case handlers.RoleTool:
			t.evidence.take(m.Name, arguments[m.CallID], m.Content)
		}
	}
	return t
}

// compact makes equal arguments equal text, however they were stored.
func compact(arguments string) string {
	var v any
	if json.Unmarshal([]byte(arguments), &v) != nil {
		return arguments
	}
	return encode(v)
}

// encode is JSON with sorted keys.
func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "{}"
	}
	return strings.TrimSpace(b.String())
}

// say picks the language of the question.
func (t *turn) say(english, chinese string) string {
	if t.chinese {
		return chinese
	}
	return english
}
