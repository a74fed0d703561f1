package tool

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// TextCall is a tool call that a model wrote into its text. Arguments are a
// JSON object as text.
type TextCall struct {
	Name      string
	Arguments string
}

// TextCalls finds tool calls that a model wrote as text instead of making them:
// a JSON object or a <function=NAME> block inside <tool_call>, and the
// <｜DSML｜invoke> form. Only calls of known names count, and nothing inside
// Markdown code does: an answer may speak of the markup. Cut tells that a call
// was begun and is broken off or cannot be read. With neither calls nor cut the
// content is plain text.
func TextCalls(content string, known func(name string) bool) (calls []TextCall, cut bool) {
	if !strings.Contains(content, "<") {
		return nil, false
	}
	found := textCalls{known: known}
	text := withoutCode(content)
	found.tagged(text)
	found.dsml(text)
	return found.calls, found.cut
}

type textCalls struct {
	known func(string) bool
	calls []TextCall
	cut   bool
}

var (
	taggedOpen  = regexp.MustCompile(`(?i)<tool_call>[ \t\r\n]*`)
	taggedClose = regexp.MustCompile(`(?i)</tool_call>`)
	jsonName    = regexp.MustCompile(`"name"\s*:\s*"([^"]*)"`)
	tagName     = regexp.MustCompile(`^<function=([^<>\s]+)\s*>`)
	tagValue    = regexp.MustCompile(`(?s)<parameter=([^<>\s]+)\s*>\r?\n?(.*?)\r?\n?</parameter>`)

	dsmlOpen  = regexp.MustCompile(`<\s*[｜|]\s*DSML\s*[｜|]\s*(?:tool_calls|function_calls)\s*>\s*`)
	dsmlClose = regexp.MustCompile(`</\s*[｜|]\s*DSML\s*[｜|]\s*(?:tool_calls|function_calls)\s*>`)
	dsmlCall  = regexp.MustCompile(`(?s)<\s*[｜|]\s*DSML\s*[｜|]\s*invoke\s+name="([^"]*)"\s*>(.*?)(</\s*[｜|]\s*DSML\s*[｜|]\s*invoke\s*>|$)`)
	dsmlValue = regexp.MustCompile(`(?s)<\s*[｜|]\s*DSML\s*[｜|]\s*parameter\s+name="([^"]*)"([^>]*)>(.*?)</\s*[｜|]\s*DSML\s*[｜|]\s*parameter\s*>`)
	dsmlBegun = regexp.MustCompile(`^<\s*[｜|]`)
)

func (t *textCalls) tagged(text string) {
	for {
		open := taggedOpen.FindStringIndex(text)
		if open == nil {
			return
		}
		lead, body := text[:open[0]], text[open[1]:]
		text = body
		// Prose about the tag has other words after it.
		object, function := strings.HasPrefix(body, "{"), strings.HasPrefix(body, "<function=")
		if !object && !function {
			lineStart := strings.TrimSpace(lead[strings.LastIndexByte(lead, '\n')+1:]) == ""
			if body == "" && lineStart || body != "" && strings.HasPrefix("<function=", body) {
				t.cut = true
			}
			continue
		}
		end := taggedClose.FindStringIndex(body)
		if end == nil {
			t.broken(body)
			return
		}
		text = body[end[1]:]
		if object {
			t.object(body[:end[0]])
		} else {
			t.function(body[:end[0]])
		}
	}
}

func (t *textCalls) object(body string) {
	var call struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
	}
	if json.Unmarshal([]byte(body), &call) != nil {
		t.broken(body)
		return
	}
	if len(call.Arguments) == 0 {
		call.Arguments = call.Parameters
	}
	arguments := bytes.TrimSpace(call.Arguments)
	var inner string
	if json.Unmarshal(arguments, &inner) == nil {
		arguments = []byte(strings.TrimSpace(inner))
	}
	var compact bytes.Buffer
	switch {
	case len(arguments) == 0 || string(arguments) == "null":
		compact.WriteString("{}")
	case arguments[0] != '{' || json.Compact(&compact, arguments) != nil:
		t.broken(body)
		return
	}
	t.add(call.Name, compact.String())
}

func (t *textCalls) function(body string) {
	name := tagName.FindStringSubmatch(body)
	if name == nil || !strings.Contains(body, "</function>") {
		t.broken(body)
		return
	}
	values := map[string]json.RawMessage{}
	for _, v := range tagValue.FindAllStringSubmatch(body, -1) {
		values[v[1]] = jsonValue(v[2], false)
	}
	t.add(name[1], object(values))
}

func (t *textCalls) dsml(text string) {
	for {
		open := dsmlOpen.FindStringIndex(text)
		if open == nil {
			return
		}
		body := text[open[1]:]
		end := dsmlClose.FindStringIndex(body)
		text = ""
		if end != nil {
			body, text = body[:end[0]], body[end[1]:]
		} else if body == "" || dsmlBegun.MatchString(body) {
			t.cut = true
		}
		for _, call := range dsmlCall.FindAllStringSubmatch(body, -1) {
			if call[3] == "" {
				t.cut = t.cut || t.known(strings.TrimSpace(call[1]))
				continue
			}
			values := map[string]json.RawMessage{}
			for _, v := range dsmlValue.FindAllStringSubmatch(call[2], -1) {
				values[v[1]] = jsonValue(v[3], strings.Contains(v[2], `string="true"`))
			}
			t.add(call[1], object(values))
		}
	}
}

func (t *textCalls) add(name, arguments string) {
	if name = strings.TrimSpace(name); t.known(name) {
		t.calls = append(t.calls, TextCall{Name: name, Arguments: arguments})
	}
}

// broken notes a call that cannot be used, unless it names a tool that is none.
func (t *textCalls) broken(body string) {
	name := tagName.FindStringSubmatch(body)
	if name == nil {
		name = jsonName.FindStringSubmatch(body)
	}
	if name == nil || t.known(strings.TrimSpace(name[1])) {
		t.cut = true
	}
}

// jsonValue is a parameter's text as JSON: itself if it is some and is not said
// to be a string.
func jsonValue(text string, isString bool) json.RawMessage {
	if trimmed := strings.TrimSpace(text); !isString && json.Valid([]byte(trimmed)) {
		return json.RawMessage(trimmed)
	}
	raw, _ := json.Marshal(text)
	return raw
}

func object(values map[string]json.RawMessage) string {
	raw, _ := json.Marshal(values)
	return string(raw)
}

var inlineCode = regexp.MustCompile("`[^`\n]+`")

// withoutCode leaves out fenced and inline Markdown code. JSON strings of a call
// may hold backticks, so a line that opens markup keeps its own.
func withoutCode(content string) string {
	if !strings.ContainsAny(content, "`~") {
		return content
	}
	var b strings.Builder
	fence := ""
	inCall := false
	for line := range strings.SplitAfterSeq(content, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]) == "" {
				fence = ""
			}
			continue
		case !inCall && (strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~")):
			mark := trimmed[:1]
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, mark))]
			continue
		}
		opens := strings.HasPrefix(trimmed, "<")
		if !inCall && !opens {
			line = inlineCode.ReplaceAllString(line, " ")
		}
		inCall = (inCall || opens) && !strings.Contains(line, "</")
		b.WriteString(line)
	}
	return b.String()
}
