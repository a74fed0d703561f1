package handlers

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"

	"refold/domain/run"
	"refold/domain/tool"
)

// request builds everything that a model call depends on, from the record alone.
func (p *prompt) request(s run.State, purpose string) (ModelRequest, fitted, error) {
	req := ModelRequest{Temperature: s.Start.Agent.Temperature, MaxTokens: s.Start.Agent.MaxTokens}
	if purpose == run.PurposeSynthesis {
		fit, err := p.synthesis(s)
		req.Messages = fit.messages
		return req, fit, err
	}
	req.Thinking = s.Start.Agent.Thinking
	if s.Start.Mode != run.ModeQuick {
		req.Tools, req.Parallel = s.Start.Tools, true
	}
	fit, err := p.round(s)
	req.Messages = fit.messages
	return req, fit, err
}

// userTurn is the question with the context of this turn in front of it. It is
// never stored: the record has the question as it was asked.
func userTurn(s run.State) string {
	if s.Start.Mode == run.ModeQuick {
		return quickTurn(s)
	}
	var b strings.Builder
	b.WriteString("<runtime_context scope=\"this_turn\">\n")
	fmt.Fprintf(&b, "<current_time>%s</current_time>\n", s.Start.At.Format(time.RFC3339))
	fmt.Fprintf(&b, "<session_id>%s</session_id>\n", escape(s.Start.Session))
	if s.Start.Workspace != "" {
		b.WriteString("<workspace>A folder of files is open in this turn. The file tools read it; paths are relative to it.</workspace>\n")
	}
	b.WriteString(bound(s))
	b.WriteString("<communication_instruction>Never show internal names or ids of tools to the user; say what was done in plain words.</communication_instruction>\n")
	b.WriteString("<answer_instruction>When the evidence is enough, write the full answer as plain text and stop. The last message has no tool calls.</answer_instruction>\n")
	b.WriteString(s.Media())
	b.WriteString("</runtime_context>\n\n")
	b.WriteString(s.Start.Query)
	return b.String()
}

func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return ""
	}
	return b.String()
}

func appendTranscript(out []ModelMessage, ms []run.Message) []ModelMessage {
	for _, m := range ms {
		out = append(out, ModelMessage{Role: m.Role, Content: framed(m), Reasoning: m.Reasoning, Calls: m.Calls, CallID: m.CallID, Name: m.Name, Images: m.Images})
	}
	return out
}

// framed gives a message's text, with a frame around it if it is from outside.
func framed(m run.Message) string {
	if !m.Untrusted || m.Content == "" {
		return m.Content
	}
	return tool.Untrusted(m.Name, m.Content, tool.Boundary(m.CallID, m.Content))
}

// sanitize makes a request that strict providers take: no empty messages, ids
// of calls unique over the whole request, neighbours of one role merged. The
// record stays as it is.
func sanitize(in []ModelMessage) []ModelMessage {
	out := make([]ModelMessage, 0, len(in))
	used := map[string]bool{}
	var rename map[string]string // of the calls of the newest assistant message
	for _, m := range in {
		switch m.Role {
		case RoleAssistant:
			if len(m.Calls) > 0 {
				m.Calls = slices.Clone(m.Calls)
				rename = map[string]string{}
				for i, c := range m.Calls {
					id := tool.UniqueCallID(c.ID, func(id string) bool { return used[id] })
					used[id] = true
					rename[c.ID] = id
					m.Calls[i].ID = id
				}
			}
		case RoleTool:
			if id, ok := rename[m.CallID]; ok {
				m.CallID = id
			}
		}
		if m.Content == "" && len(m.Calls) == 0 && (m.Role == RoleUser || m.Role == RoleAssistant) {
			continue
		}
		if n := len(out); n > 0 && m.Role == out[n-1].Role && len(m.Calls) == 0 && len(out[n-1].Calls) == 0 &&
			(m.Role == RoleUser || m.Role == RoleAssistant) {
			p := &out[n-1]
			p.Content += "\n\n" + m.Content
			p.Images = append(slices.Clip(p.Images), m.Images...)
			if m.Reasoning != "" {
				p.Reasoning = strings.TrimPrefix(p.Reasoning+"\n\n"+m.Reasoning, "\n\n")
			}
			continue
		}
		out = append(out, m)
	}
	return out
}

const synthesisInstruction = `No further tools can be used. Write the best possible answer to the question below from the results above.
1. Use what was retrieved; do not invent anything.
2. Structure the answer clearly.
3. Say honestly what is missing if the results are not enough.
4. Write in the language of the question.

Question: `
