package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	goopenai "github.com/sashabaranov/go-openai"

	"refold/domain/tool"
	"refold/handlers"
)

// message is a message as it is sent. go-openai's own leaves an empty content
// out, which some servers refuse.
type message struct {
	Role             string            `json:"role"`
	Content          any               `json:"content"` // a string, nil or a list of parts
	ReasoningContent *string           `json:"reasoning_content,omitempty"`
	Reasoning        *string           `json:"reasoning,omitempty"`
	ToolCalls        []json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID       string            `json:"tool_call_id,omitempty"`
}

// body is the request for model, the same bytes for the same request. Arguments
// that are no JSON object are sent as {}.
func (c *Client) body(model string, req handlers.ModelRequest) ([]byte, error) {
	fields := map[string]any{
		"model":          model,
		"stream":         true,
		"stream_options": goopenai.StreamOptions{IncludeUsage: true},
		"temperature":    req.Temperature,
	}
	if req.MaxTokens > 0 {
		fields[c.cfg.MaxTokensField] = req.MaxTokens
	}
	if len(req.Tools) > 0 {
		fields["parallel_tool_calls"] = req.Parallel
	}
	c.thinking(fields, req.Thinking)
	for k, v := range c.cfg.ExtraBody {
		if v == nil {
			delete(fields, k)
		} else {
			fields[k] = v
		}
	}
	messages, err := c.messages(req.Messages)
	if err != nil {
		return nil, err
	}
	tools, err := c.tools.encode(req.Tools)
	if err != nil {
		return nil, err
	}
	// Members in order of their names. The large ones are JSON already, and
	// would be checked and copied once more as part of a map.
	names := slices.AppendSeq(make([]string, 0, len(fields)+2), maps.Keys(fields))
	names = append(names, "messages")
	if tools != nil {
		names = append(names, "tools")
	}
	slices.Sort(names)
	size := len(tools) + 512
	for _, m := range messages {
		size += len(m) + 1
	}
	out := append(make([]byte, 0, size), '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendText(out, name), ':')
		switch name {
		case "messages":
			out = append(out, '[')
			for k, m := range messages {
				if k > 0 {
					out = append(out, ',')
				}
				out = append(out, m...)
			}
			out = append(out, ']')
		case "tools":
			out = append(out, tools...)
		default:
			value, err := encode(fields[name])
			if err != nil {
				return nil, err
			}
			out = append(out, value...)
		}
	}
	return append(out, '}'), nil
}

// toolList remembers how the definitions of the newest requests are sent: they
// are the same in all rounds of a run, and mostly in all runs.
type toolList struct {
	mu   sync.Mutex
	kept [4]struct {
		defs []tool.Definition
		json []byte
	}
	next int
}

func (l *toolList) encode(defs []tool.Definition) ([]byte, error) {
	if len(defs) == 0 {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.kept {
		if slices.EqualFunc(l.kept[i].defs, defs, func(a, b tool.Definition) bool {
			return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
		}) {
			return l.kept[i].json, nil
		}
	}
	tools := make([]goopenai.Tool, len(defs))
	for i, d := range defs {
		schema := d.Schema
		if blank(schema) {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		tools[i] = goopenai.Tool{Type: goopenai.ToolTypeFunction, Function: &goopenai.FunctionDefinition{
			Name: d.Name, Description: d.Description, Parameters: schema,
		}}
	}
	raw, err := encode(tools)
	if err == nil {
		l.kept[l.next].defs, l.kept[l.next].json = slices.Clone(defs), raw
		l.next = (l.next + 1) % len(l.kept)
	}
	return raw, err
}

func (c *Client) thinking(fields map[string]any, on bool) {
	switch c.cfg.ThinkingParam {
	case ThinkingEnable:
		fields["enable_thinking"] = on
	case ThinkingTemplate:
		fields["chat_template_kwargs"] = map[string]bool{"enable_thinking": on, "thinking": on}
	case ThinkingType:
		state := "disabled"
		if on {
			state = "enabled"
		}
		fields["thinking"] = map[string]string{"type": state}
	case ThinkingEffort:
		effort := "none"
		if on {
			effort = "medium"
		}
		fields["reasoning_effort"] = effort
	}
}

// messages are the messages as they are sent, each by itself.
func (c *Client) messages(list []handlers.ModelMessage) ([][]byte, error) {
	turn := 0 // index of the first message after the last of the user
	for i, m := range list {
		if m.Role == handlers.RoleUser {
			turn = i + 1
		}
	}
	out := make([][]byte, 0, len(list))
	for i, m := range list {
		to := message{Role: m.Role, Content: m.Content, ToolCallID: m.CallID}
		if m.Role == handlers.RoleAssistant {
			if m.Content == "" && len(m.Calls) > 0 && c.cfg.NullContent {
				to.Content = nil
			}
			c.echo(&to, m, i >= turn)
			for _, call := range m.Calls {
				raw, err := wireCall(call)
				if err != nil {
					return nil, fmt.Errorf("encode tool call %s: %w", call.ID, err)
				}
				to.ToolCalls = append(to.ToolCalls, raw)
			}
		}
		if len(m.Images) > 0 {
			to.Content = imageParts(m)
		}
		raw, err := to.encode()
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

// encode is the message as encoding/json would write it.
func (m *message) encode() ([]byte, error) {
	text, ok := m.Content.(string)
	if !ok {
		return encode(m)
	}
	size := len(text) + len(text)/8 + 64
	for _, c := range m.ToolCalls {
		size += len(c)
	}
	b := append(make([]byte, 0, size), `{"role":`...)
	b = append(appendText(b, m.Role), `,"content":`...)
	b = appendText(b, text)
	if m.ReasoningContent != nil {
		b = appendText(append(b, `,"reasoning_content":`...), *m.ReasoningContent)
	}
	if m.Reasoning != nil {
		b = appendText(append(b, `,"reasoning":`...), *m.Reasoning)
	}
	for i, c := range m.ToolCalls {
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, c...)
	}
	if len(m.ToolCalls) > 0 {
		b = append(b, ']')
	}
	if m.ToolCallID != "" {
		b = appendText(append(b, `,"tool_call_id":`...), m.ToolCallID)
	}
	return append(b, '}'), nil
}

// appendText appends a string literal as encode writes it: what is rare is left
// to encoding/json.
func appendText(b []byte, text string) []byte {
	at := len(b)
	b = append(b, '"')
	from := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			continue
		}
		var escape byte
		switch c {
		case '"', '\\':
			escape = c
		case '\n':
			escape = 'n'
		case '\r':
			escape = 'r'
		case '\t':
			escape = 't'
		default:
			if r, n := utf8.DecodeRuneInString(text[i:]); c >= utf8.RuneSelf && n > 1 && r != '\u2028' && r != '\u2029' {
				i += n - 1
				continue
			}
			if raw, err := encode(text); err == nil {
				return append(b[:at], raw...)
			}
		}
		b = append(append(b, text[from:i]...), '\\', escape)
		from = i + 1
	}
	return append(append(b, text[from:]...), '"')
}

func (c *Client) echo(to *message, m handlers.ModelMessage, inTurn bool) {
	send := false
	switch c.cfg.Reasoning {
	case ReasoningEcho:
		send = m.Reasoning != "" || len(m.Calls) > 0
	case ReasoningWithinTurn:
		send = m.Reasoning != "" && inTurn
	}
	if !send {
		return
	}
	if c.cfg.ReasoningField == "reasoning" {
		to.Reasoning = &m.Reasoning
	} else {
		to.ReasoningContent = &m.Reasoning
	}
}

func imageParts(m handlers.ModelMessage) []goopenai.ChatMessagePart {
	var list []goopenai.ChatMessagePart
	if m.Content != "" {
		list = append(list, goopenai.ChatMessagePart{Type: goopenai.ChatMessagePartTypeText, Text: m.Content})
	}
	for _, image := range m.Images {
		list = append(list, goopenai.ChatMessagePart{
			Type: goopenai.ChatMessagePartTypeImageURL, ImageURL: &goopenai.ChatMessageImageURL{URL: image},
		})
	}
	return list
}

// wireCall is a call as it is sent back, with the fields that came with it and
// that only the provider understands.
func wireCall(call handlers.ModelCall) (json.RawMessage, error) {
	if len(call.Metadata) == 0 {
		return plainCall(call)
	}
	fields, function := map[string]any{}, map[string]any{}
	var meta map[string]json.RawMessage
	if json.Unmarshal(call.Metadata, &meta) == nil {
		var inner map[string]json.RawMessage
		if json.Unmarshal(meta["function"], &inner) == nil {
			for k, v := range inner {
				function[k] = v
			}
		}
		for k, v := range meta {
			fields[k] = v
		}
	}
	function["name"], function["arguments"] = call.Name, objectText(call.Arguments)
	fields["id"], fields["type"], fields["function"] = call.ID, goopenai.ToolTypeFunction, function
	return encode(fields)
}

// plainCall is the same call without such fields, members in the same order.
func plainCall(call handlers.ModelCall) (json.RawMessage, error) {
	arguments := objectText(call.Arguments)
	b := append(make([]byte, 0, 2*len(arguments)+len(call.Name)+len(call.ID)+64), `{"function":{"arguments":`...)
	b = append(appendText(b, arguments), `,"name":`...)
	b = append(appendText(b, call.Name), `},"id":`...)
	return append(appendText(b, call.ID), `,"type":"function"}`...), nil
}

// objectText gives arguments that are a JSON object, else {}.
func objectText(arguments string) string {
	text := strings.TrimLeft(arguments, " \t\r\n")
	if !strings.HasPrefix(text, "{") || !json.Valid([]byte(text)) {
		return "{}"
	}
	return arguments
}

// encode is JSON without the escapes for HTML, which only cost tokens.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
