package scripted

import (
	"encoding/json"
	"fmt"
)

// Chat is a chat request, decoded.
type Chat struct {
	Model    string    `json:"model"`
	Messages []Message `json:"messages"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Stream      bool     `json:"stream"`
	Temperature *float64 `json:"temperature"`
	MaxTokens   int      `json:"max_tokens"`
	Parallel    *bool    `json:"parallel_tool_calls"`
}

// Message is a message of a request. Content stays as it was sent.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Reasoning  *string         `json:"reasoning_content"`
	ToolCalls  []ToolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

// ToolCall is a call as a request sends it back.
type ToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Text is the content: a string itself, of a list of parts the texts, "" for
// null.
func (m Message) Text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(m.Content, &parts)
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// Last gives the text of the last message of a role, "" if there is none.
func (c Chat) Last(role string) string {
	for i := len(c.Messages) - 1; i >= 0; i-- {
		if c.Messages[i].Role == role {
			return c.Messages[i].Text()
		}
	}
	return ""
}

// Rules is what a server is strict about, beside what every provider wants:
// each tool message follows the call it answers, each call has its results
// before anything else, ids are unique and not empty, arguments are a JSON
// object, the content key is there and null only beside calls.
type Rules struct {
	Tolerant         bool // a breach is answered with 400 but does not fail the test
	RefuseNull       bool // content must not be null
	RefuseEmpty      bool // content must not be "" beside calls
	RequireReasoning bool // assistant messages with calls must have reasoning_content
	RefuseReasoning  bool // no message may have it
	Anything         bool // nothing is checked
}

// Check gives the breaches of a request body, one line each.
func (r Rules) Check(body []byte) []string {
	if r.Anything {
		return nil
	}
	var faults []string
	fault := func(i int, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("messages[%d]: ", i)+fmt.Sprintf(format, args...))
	}
	var req struct {
		Messages []map[string]json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return []string{"not a request: " + err.Error()}
	}
	if len(req.Messages) == 0 {
		return []string{"no messages"}
	}
	seen, open := map[string]bool{}, map[string]bool{}
	for i, fields := range req.Messages {
		raw, _ := json.Marshal(fields)
		var m Message
		if err := json.Unmarshal(raw, &m); err != nil {
			fault(i, "%v", err)
			continue
		}
		content, present := fields["content"]
		null := string(content) == "null"
		switch {
		case !present:
			fault(i, "content is missing")
		case null && len(m.ToolCalls) == 0:
			fault(i, "content is null without tool calls")
		case null && r.RefuseNull:
			fault(i, "content must not be null")
		case string(content) == `""` && len(m.ToolCalls) > 0 && r.RefuseEmpty:
			fault(i, "content must not be empty")
		}
		_, reasoning := fields["reasoning_content"]
		if r.RefuseReasoning && reasoning {
			fault(i, "reasoning_content is not accepted")
		}
		if r.RequireReasoning && m.Role == "assistant" && len(m.ToolCalls) > 0 && !reasoning {
			fault(i, "reasoning_content must be passed back")
		}
		if m.Role != "tool" {
			for id := range open {
				fault(i, "call %q has no result before this message", id)
			}
			clear(open)
		}
		switch m.Role {
		case "system", "user", "developer":
		case "assistant":
			for _, c := range m.ToolCalls {
				if c.ID == "" {
					fault(i, "a call has no id")
				}
				if seen[c.ID] {
					fault(i, "call id %q is used twice", c.ID)
				}
				seen[c.ID], open[c.ID] = true, true
				if c.Type != "function" || c.Function.Name == "" {
					fault(i, "call %q is no named function", c.ID)
				}
				var object map[string]any
				if json.Unmarshal([]byte(c.Function.Arguments), &object) != nil || object == nil {
					fault(i, "arguments of call %q are no JSON object: %s", c.ID, c.Function.Arguments)
				}
			}
			if text := m.Text(); text == "" && len(m.ToolCalls) == 0 {
				fault(i, "an assistant message has neither text nor calls")
			}
		case "tool":
			if !open[m.ToolCallID] {
				fault(i, "tool_call_id %q answers no call before it", m.ToolCallID)
			}
			delete(open, m.ToolCallID)
		default:
			fault(i, "unknown role %q", m.Role)
		}
	}
	for id := range open {
		fault(len(req.Messages)-1, "call %q has no result", id)
	}
	return faults
}
