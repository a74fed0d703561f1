package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"refold/handlers"
)

// chunk is a piece of a streamed reply, or a whole one. Fields that servers
// shape differently stay raw.
type chunk struct {
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
	Groq    struct {
		Usage *usage `json:"usage"`
	} `json:"x_groq"`
}

type choice struct {
	Index   float64         `json:"index"`
	Delta   *chunkMessage   `json:"delta"`
	Message *chunkMessage   `json:"message"`
	Finish  json.RawMessage `json:"finish_reason"`
	Usage   *usage          `json:"usage"`
}

type chunkMessage struct {
	Content          json.RawMessage `json:"content"`
	Refusal          json.RawMessage `json:"refusal"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ToolCalls        json.RawMessage `json:"tool_calls"`
	FunctionCall     json.RawMessage `json:"function_call"`
}

type usage struct {
	Prompt     float64 `json:"prompt_tokens"`
	Completion float64 `json:"completion_tokens"`
	Total      float64 `json:"total_tokens"`
	Details    struct {
		Cached float64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CacheHit float64 `json:"prompt_cache_hit_tokens"`
}

func (u *usage) tokens() handlers.ModelUsage {
	t := handlers.ModelUsage{
		Prompt: int(u.Prompt), Completion: int(u.Completion), Total: int(u.Total),
		Cached: int(max(u.Details.Cached, u.CacheHit)),
	}
	if t.Total == 0 {
		t.Total = t.Prompt + t.Completion
	}
	return t
}

// decodeLoosely decodes what fits and leaves out the fields that do not.
func decodeLoosely(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return nil
	}
	return err
}

// objects gives the JSON objects of an event: some servers wrap them in a list.
// Other values say nothing.
func objects(data []byte) []json.RawMessage {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
	case data[0] == '{':
		return []json.RawMessage{data}
	case data[0] == '[':
		var list []json.RawMessage
		if decodeLoosely(data, &list) == nil {
			for i := 0; i < len(list); {
				if len(list[i]) > 0 && list[i][0] == '{' {
					i++
				} else {
					list = append(list[:i], list[i+1:]...)
				}
			}
			return list
		}
	}
	return nil
}

// blank tells whether a field is absent, null, false or empty.
func blank(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "false", `""`, "{}", "[]":
		return true
	}
	return false
}

// finishOf normalises a finish reason; see handlers.FinishStop and its kind.
func finishOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	s = strings.ToLower(strings.TrimSpace(s))
	switch s {
	case "end_turn", "stop_sequence", "eos", "eos_token":
		return handlers.FinishStop
	case "function_call", "tool_use", "tool_call":
		return handlers.FinishToolCalls
	case "max_tokens", "max_output_tokens":
		return handlers.FinishLength
	case "null", "none":
		return ""
	}
	return s
}

// stronger picks the finish reason to keep of two: a filter or a cut is never
// masked, and a later stop takes nothing from tool calls.
func stronger(old, new string) string {
	rank := func(f string) int {
		switch f {
		case "":
			return 0
		case handlers.FinishStop:
			return 1
		case handlers.FinishToolCalls:
			return 3
		case handlers.FinishLength:
			return 4
		case handlers.FinishContentFilter:
			return 5
		}
		return 2
	}
	if rank(new) > rank(old) {
		return new
	}
	return old
}

// textChannel decodes the strings of one channel. A character that the server
// wrote as two escapes may be cut between them: the first half waits for the
// next string.
type textChannel struct{ half string }

func (t *textChannel) decode(raw json.RawMessage) (text string) {
	raw = bytes.TrimSpace(raw)
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if t.half != "" || bytes.Contains(raw, []byte(`\u`)) {
		inner := t.half + string(raw[1:len(raw)-1])
		t.half = ""
		if n := len(inner) - 6; n >= 0 && isHighHalf(inner[n:]) && !escaped(inner[:n]) {
			inner, t.half = inner[:n], inner[n:]
		}
		raw = json.RawMessage(`"` + inner + `"`)
	}
	if json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// isHighHalf tells whether s is the escape of the first half of a surrogate pair.
func isHighHalf(s string) bool {
	s = strings.ToLower(s)
	return strings.HasPrefix(s, `\ud`) && strings.IndexByte("89ab", s[3]) >= 0
}

// escaped tells whether what follows s belongs to a backslash at its end.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// part is an element of a content list or of reasoning_details.
type part struct {
	Type     string          `json:"type"`
	Text     json.RawMessage `json:"text"`
	Thinking json.RawMessage `json:"thinking"`
	Summary  json.RawMessage `json:"summary"`
	Refusal  json.RawMessage `json:"refusal"`
}

// parts gives the elements of a list of parts, or the only part.
func parts(raw json.RawMessage) []part {
	raw = bytes.TrimSpace(raw)
	var list []part
	if len(raw) > 0 && raw[0] == '{' {
		list = make([]part, 1)
		_ = decodeLoosely(raw, &list[0])
	} else if len(raw) > 0 && raw[0] == '[' {
		_ = decodeLoosely(raw, &list)
	}
	return list
}

// plainText puts the texts of a value together, whatever its shape.
func plainText(raw json.RawMessage, depth int) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || depth > 3 {
		return ""
	}
	if raw[0] == '"' {
		var s string
		_ = json.Unmarshal(raw, &s)
		return s
	}
	var b strings.Builder
	for _, p := range parts(raw) {
		for _, field := range []json.RawMessage{p.Text, p.Thinking, p.Summary} {
			b.WriteString(plainText(field, depth+1))
		}
	}
	return b.String()
}
