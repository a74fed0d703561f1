package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

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
	messages, err := c.messages(req.Messages)
	if err != nil {
		return nil, err
	}
	fields := map[string]any{
		"model":          model,
		"messages":       messages,
		"stream":         true,
		"stream_options": goopenai.StreamOptions{IncludeUsage: true},
		"temperature":    req.Temperature,
	}
	if req.MaxTokens > 0 {
		fields[c.cfg.MaxTokensField] = req.MaxTokens
	}
	if len(req.Tools) > 0 {
		tools := make([]goopenai.Tool, len(req.Tools))
		for i, d := range req.Tools {
			schema := d.Schema
			if blank(schema) {
				schema = json.RawMessage(`{"type":"object","properties":{}}`)
			}
			tools[i] = goopenai.Tool{Type: goopenai.ToolTypeFunction, Function: &goopenai.FunctionDefinition{
				Name: d.Name, Description: d.Description, Parameters: schema,
			}}
		}
		fields["tools"] = tools
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
	return encode(fields)
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

func (c *Client) messages(list []handlers.ModelMessage) ([]message, error) {
	turn := 0 // index of the first message after the last of the user
	for i, m := range list {
		if m.Role == handlers.RoleUser {
			turn = i + 1
		}
	}
	out := make([]message, 0, len(list))
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
		out = append(out, to)
	}
	return out, nil
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
	var c struct {
		Function struct {
			Arguments string `json:"arguments"`
			Name      string `json:"name"`
		} `json:"function"`
		ID   string            `json:"id"`
		Type goopenai.ToolType `json:"type"`
	}
	c.ID, c.Type = call.ID, goopenai.ToolTypeFunction
	c.Function.Name, c.Function.Arguments = call.Name, objectText(call.Arguments)
	return encode(&c)
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
