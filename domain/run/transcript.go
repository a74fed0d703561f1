package run

import (
	"encoding/json"

	"refold/domain/tool"
)

// Message is one message of what the model sees, before the system prompt and
// the wire format of a provider. An assistant message has Content or Calls or
// both; a tool message answers the call CallID.
type Message struct {
	Role      string         `json:"role"` // user, assistant or tool
	Content   string         `json:"content"`
	Reasoning string         `json:"reasoning,omitempty"`
	Calls     []ProposedCall `json:"calls,omitempty"`
	CallID    string         `json:"call_id,omitempty"`
	Name      string         `json:"name,omitempty"` // of the tool, on tool messages
	Untrusted bool           `json:"-"`              // Content is text from outside: frame it
	Images    []string       `json:"-"`              // references of images, see domain.Media

	Data   json.RawMessage `json:"-"` // of a tool message: the payload for the UI
	Failed bool            `json:"-"` // of a tool message: the call failed
	Person bool            `json:"-"` // a person has said it while the run was in progress
}

// Part is a piece of the conversation that is kept or left out as one: a
// message, or a message with calls and all their results. From and To are its
// first and last place (see Place).
type Part struct {
	From, To int
	Messages []Message
}

// Transcript is what happened in the run so far as messages, without the
// question. Pairing is an invariant of the aggregate: every call is followed by
// its result, before anything else; calls that are still open are left out
// together with their whole round.
func (s State) Transcript() []Message { return flat(s.Parts(0)) }

// Parts is the transcript in parts, those that begin after a place.
func (s State) Parts(after int) []Part {
	var out []Part
	for i := max(0, after); i < len(s.Steps); i++ {
		p := Part{From: i + 1, To: i + 1}
		switch st := s.Steps[i]; {
		case st.Nudge != nil:
			p.Messages = []Message{{Role: "user", Content: st.Nudge.Text}}
		case st.Steer != nil:
			p.Messages = []Message{{Role: "user", Content: st.Steer.Text, Person: true}}
		case st.Thought != nil:
			m := Message{Role: "assistant", Content: st.Thought.Text, Reasoning: st.Thought.Reasoning}
			if i+1 < len(s.Steps) && len(s.Steps[i+1].Calls) > 0 {
				p.To, p.Messages = i+2, s.appendRound(nil, m, s.Steps[i+1].Calls)
			} else if i+1 < len(s.Steps) || len(s.Open) == 0 {
				p.Messages = appendText(nil, m)
			} else if closedAll(s.Open) {
				p.To, p.Messages = i+2, s.appendRound(nil, m, s.Open)
			}
		}
		if len(p.Messages) > 0 {
			out = append(out, p)
		}
	}
	return out
}

func flat(parts []Part) []Message {
	out := make([]Message, 0, 2*len(parts))
	for _, p := range parts {
		out = append(out, p.Messages...)
	}
	return out
}

func closedAll(calls []Call) bool {
	for _, c := range calls {
		if c.Status != CallClosed {
			return false
		}
	}
	return true
}

func appendText(out []Message, m Message) []Message {
	if blank(m.Content) {
		return out // an empty message is refused by providers
	}
	return append(out, m)
}

func (s State) appendRound(out []Message, m Message, calls []Call) []Message {
	for _, c := range calls {
		m.Calls = append(m.Calls, ProposedCall{ID: c.Call, Name: c.Name, Arguments: string(c.Args), Metadata: c.Metadata})
	}
	out = append(out, m)
	for _, c := range calls {
		out = append(out, s.result(c))
	}
	return out
}

// Turn is the run as a turn of the conversation, for the prompts of later runs:
// the question, the rounds with calls, the answer. A turn that left nothing
// behind is empty, so that no prompt has a question without any answer.
func (s State) Turn() []Message {
	if parts := s.TurnParts(); len(parts) > 0 {
		return flat(parts)
	}
	return nil
}

// TurnParts is Turn in parts.
func (s State) TurnParts() []Part {
	if !s.Begun() || !s.Over() {
		return nil
	}
	out := []Part{{Messages: []Message{s.question()}}}
	for i, st := range s.Steps {
		p := Part{From: i, To: i + 1}
		var th *Thought
		if i > 0 {
			th = s.Steps[i-1].Thought
		}
		switch {
		case st.Steer != nil:
			if th != nil { // what it had said until then
				p.Messages = appendText(nil, Message{Role: "assistant", Content: th.Text})
			}
			p.Messages = append(p.Messages, Message{Role: "user", Content: st.Steer.Text})
		case len(st.Calls) > 0 && th != nil:
			p.Messages = s.appendRound(nil, Message{Role: "assistant", Content: th.Text, Reasoning: th.Reasoning}, st.Calls)
		default:
			continue
		}
		out = append(out, p)
	}
	if !blank(s.Answer) {
		at := len(s.Steps) + 1
		out = append(out, Part{From: at, To: at, Messages: []Message{{Role: "assistant", Content: s.Answer}}})
	}
	if len(out) == 1 {
		return nil
	}
	return out
}

// Asked is everything that people have asked in the run.
func (s State) Asked() string {
	asked := s.Start.Query
	for _, st := range s.Steps {
		if st.Steer != nil {
			asked += "\n\n" + st.Steer.Text
		}
	}
	return asked
}

// ToolResults lists what tools have answered, for a synthesis.
func (s State) ToolResults() []Message {
	var out []Message
	for _, st := range s.Steps {
		for _, c := range st.Calls {
			if c.Result != nil {
				out = append(out, s.result(c))
			}
		}
	}
	return out
}

var _ tool.State = State{}

func (s State) result(c Call) Message {
	def, _ := s.Tool(c.Name)
	m := Message{Role: "tool", CallID: c.Call, Name: c.Name, Untrusted: def.Untrusted}
	if c.Result != nil {
		m.Content, m.Data, m.Failed = c.Result.Output, c.Result.Data, !c.Result.Success
	}
	return m
}
