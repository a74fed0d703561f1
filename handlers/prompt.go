package handlers

import (
	"context"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"

	"refold/domain/run"
	"refold/domain/tool"
)

// loadHistory folds the earlier turns of the session that the run was started
// with. They are over and do not change, so they are read once.
func (a *actor) loadHistory(ctx context.Context, s run.State) error {
	if a.loaded {
		return nil
	}
	for _, id := range s.Start.History {
		r, err := a.runner.Commands.OpenRun(ctx, a.key.tenant, id)
		if err != nil {
			return err
		}
		a.history = append(a.history, r.State.Turn()...)
	}
	a.loaded = true
	return nil
}

// request builds everything that a model call depends on, from the record alone.
func (a *actor) request(s run.State, purpose string) ModelRequest {
	req := ModelRequest{Temperature: s.Start.Agent.Temperature, MaxTokens: s.Start.Agent.MaxTokens}
	if purpose == run.PurposeSynthesis {
		req.Messages = synthesisMessages(s)
		return req
	}
	req.Thinking = s.Start.Agent.Thinking
	req.Tools, req.Parallel = s.Start.Tools, true
	messages := []ModelMessage{{Role: RoleSystem, Content: s.Start.Agent.SystemPrompt}}
	messages = appendTranscript(messages, a.history)
	messages = append(messages, ModelMessage{Role: RoleUser, Content: userTurn(s)})
	messages = appendTranscript(messages, s.Transcript())
	req.Messages = sanitize(messages)
	return req
}

// userTurn is the question with the context of this turn in front of it. It is
// never stored: the record has the question as it was asked.
func userTurn(s run.State) string {
	var b strings.Builder
	b.WriteString("<runtime_context scope=\"this_turn\">\n")
	fmt.Fprintf(&b, "<current_time>%s</current_time>\n", s.Start.At.Format(time.RFC3339))
	fmt.Fprintf(&b, "<session_id>%s</session_id>\n", escape(s.Start.Session))
	if s.Start.Workspace != "" {
		b.WriteString("<workspace>A folder of files is open in this turn. The file tools read it; paths are relative to it.</workspace>\n")
	}
	b.WriteString("<communication_instruction>Never show internal names or ids of tools to the user; say what was done in plain words.</communication_instruction>\n")
	b.WriteString("<answer_instruction>When the evidence is enough, write the full answer as plain text and stop. The last message has no tool calls.</answer_instruction>\n")
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
		out = append(out, ModelMessage{Role: m.Role, Content: framed(m), Reasoning: m.Reasoning, Calls: m.Calls, CallID: m.CallID, Name: m.Name})
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

// synthesisMaxRunes bounds the tool results that a synthesis is given. The
// newest are kept whole as long as they fit; older ones are cut.
const synthesisMaxRunes = 120_000

const synthesisInstruction = `No further tools can be used. Write the best possible answer to the question below from the results above.
1. Use what was retrieved; do not invent anything.
2. Structure the answer clearly.
3. Say honestly what is missing if the results are not enough.
4. Write in the language of the question.

Question: `

// synthesisMessages asks for an answer from what tools have returned so far.
func synthesisMessages(s run.State) []ModelMessage {
	out := []ModelMessage{{Role: RoleSystem, Content: s.Start.Agent.SystemPrompt}, {Role: RoleUser, Content: userTurn(s)}}
	results := s.ToolResults()
	left := synthesisMaxRunes
	for i := len(results) - 1; i >= 0; i-- {
		text, _ := tool.Truncate(results[i].Content, max(left, 200))
		left -= len([]rune(text))
		results[i].Content = text
	}
	for _, m := range results {
		out = append(out, ModelMessage{Role: RoleUser, Content: "Tool " + m.Name + " returned:\n" + framed(m)})
	}
	out = append(out, ModelMessage{Role: RoleUser, Content: synthesisInstruction + s.Asked()})
	return sanitize(out)
}
