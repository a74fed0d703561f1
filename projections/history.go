package projections

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tool"
)

// Message is a message of a conversation as people load it.
type Message struct {
	ID        string    `json:"id"`
	Session   string    `json:"session"`
	Request   string    `json:"request"`
	Role      string    `json:"role"` // user or assistant
	Content   string    `json:"content"`
	Agent     string    `json:"agent,omitempty"`
	Model     string    `json:"model,omitempty"`
	Channel   string    `json:"channel,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	// Of questions only.
	Images []MessageImage `json:"images,omitempty"`
	Files  []MessageFile  `json:"files,omitempty"`

	// Of assistant messages only.
	Run        string    `json:"run,omitempty"`
	Completed  bool      `json:"completed"` // nothing more will come
	Outcome    string    `json:"outcome,omitempty"`
	EndReason  string    `json:"end_reason,omitempty"`
	Degraded   bool      `json:"degraded,omitempty"`
	Fallback   bool      `json:"fallback,omitempty"` // the content is a fixed text
	ErrorCode  string    `json:"error_code,omitempty"`
	Error      string    `json:"error,omitempty"`
	DurationMS int64     `json:"duration_ms,omitempty"`
	Usage      run.Usage `json:"usage"`
	Steps      int       `json:"steps"`              // documents in the collection "step"
	Stages     bool      `json:"stages,omitempty"`   // the first step has the stages of a quick answer
	Replied    bool      `json:"replied,omitempty"`  // the model has said something
	Question   string    `json:"question,omitempty"` // the message that it answers
	Steers     []string  `json:"steers,omitempty"`   // messages that steered it

	References []tool.Reference `json:"references,omitempty"` // evidence, as it was found
}

// MessageStep is one reply of the model with its calls. It is a document of its
// own, so that a long run does not rewrite its past.
type MessageStep struct {
	Run       string        `json:"run"`
	Iteration int           `json:"iteration"`
	Thought   string        `json:"thought"`
	Reasoning string        `json:"reasoning,omitempty"`
	Calls     []MessageCall `json:"calls,omitempty"`
	At        time.Time     `json:"at"`
}

// MessageCall is a call of a step with its result.
type MessageCall struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Args       json.RawMessage `json:"args"`
	Raw        string          `json:"raw,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Closed     bool            `json:"closed"`
	Success    bool            `json:"success"`
	Output     string          `json:"output,omitempty"` // one line if Data has a display_type; see tool.Stored
	Error      string          `json:"error,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	DurationMS int64           `json:"duration_ms"`
}

// History is the chat history. Index of messages: session, at (unix
// microseconds; a question is one before its answer). Steps are in collection
// "step" under StepID, without an index.
var History = Projection{Name: "history", Version: 5, Filter: event.Filter{Categories: facts}, Fold: foldHistory}

// StepCollection is the collection of steps.
const StepCollection = "step"

// StepID names the document of a run's n-th step.
func StepID(runID string, n int) string { return fmt.Sprintf("%s:%06d", runID, n) }

func putMessage(v *View, tenant string, m *Message) {
	Put(v, "", tenant, m.ID, m, map[string]any{"session": m.Session, "at": m.CreatedAt.UnixMicro()})
}

func putStep(v *View, tenant string, n int, s *MessageStep) {
	Put(v, StepCollection, tenant, StepID(s.Run, n), s, nil)
}

func foldHistory(v *View, f Fact) {
	tenant := f.Stream.Tenant
	if e, ok := f.Event.(session.MessagePosted); ok {
		putMessage(v, tenant, &Message{ID: e.Message, Session: f.Stream.ID, Request: e.Request, Role: "user", Content: e.Query,
			Agent: e.Agent, Channel: e.Channel, CreatedAt: e.At, UpdatedAt: e.At, Completed: true,
			Images: imagesOf(e), Files: filesOf(e)})
		putMessage(v, tenant, &Message{ID: e.Run, Session: f.Stream.ID, Request: e.Request, Role: "assistant", Run: e.Run,
			Agent: e.Agent, Model: e.Model, Channel: e.Channel, CreatedAt: e.At.Add(time.Microsecond), UpdatedAt: e.At, Question: e.Message})
		addItem(v, turnsCollection, tenant, f.Stream.ID, e.Run)
		return
	}
	if f.Stream.Category == session.Category {
		foldTidied(v, f)
		return
	}
	if f.Stream.Category != run.Category {
		return
	}
	m := Get[Message](v, "", tenant, f.Stream.ID)
	if m == nil || m.Completed {
		return
	}
	switch e := f.Event.(type) {
	case run.RunStarted:
		m.Model, m.Question = e.Agent.Model, e.UserMessage
	case run.ImagesDescribed:
		caption(v, tenant, m.Question, e.Captions)
		return
	case run.MessageSteered:
		m.Steers = append(m.Steers, e.Message)
		putMessage(v, tenant, &Message{ID: e.Message, Session: m.Session, Request: m.Request, Role: "user", Content: e.Text,
			Agent: m.Agent, Channel: m.Channel, CreatedAt: e.At, UpdatedAt: e.At, Completed: true})
	case run.Thought:
		if m.Stages && m.Steps == 1 && !m.Replied { // the stages of a quick answer and its text are one step
			changeStep(v, tenant, m, func(s *MessageStep) { s.Thought, s.Reasoning = e.Text, e.Reasoning })
		} else {
			m.Steps++
			putStep(v, tenant, m.Steps, &MessageStep{Run: m.ID, Iteration: m.Steps - 1, Thought: e.Text, Reasoning: e.Reasoning, At: e.At})
		}
		m.Replied = m.Stages
		m.References, _ = tool.AddReferences(m.References, e.References)
		if e.Model != "" {
			m.Model = e.Model
		}
	case run.ToolCallRequested:
		first := m.Steps == 0
		if first { // a stage of a quick answer: nobody has said anything yet
			m.Steps, m.Stages = 1, true
			putStep(v, tenant, 1, &MessageStep{Run: m.ID, At: e.At})
		}
		changeStep(v, tenant, m, func(s *MessageStep) {
			s.Calls = append(s.Calls, MessageCall{ID: e.Call, Name: e.Name, Args: e.Args, Raw: e.Raw, Metadata: e.Metadata})
		})
		if !first {
			return // the message itself is unchanged
		}
	case run.ToolCompleted:
		changeStep(v, tenant, m, func(s *MessageStep) { s.complete(e) })
		refs, more := tool.AddReferences(m.References, tool.ReferencesOf(e.Data))
		if !e.Success || e.Late || !more {
			return
		}
		m.References = refs
	case run.RunCompleted:
		m.Content, m.Completed, m.Outcome, m.EndReason, m.Degraded = e.Answer, true, run.OutcomeCompleted, e.EndReason, e.Degraded
		m.Fallback = e.FallsBack()
		m.DurationMS, m.Usage = e.DurationMS, e.Usage
		if e.Call > 0 { // the text stands in the content; the step keeps the reasoning
			changeStep(v, tenant, m, func(s *MessageStep) { s.Thought = "" })
		}
	case run.RunFailed:
		m.Content, m.Completed, m.Outcome, m.EndReason = e.Text, true, run.OutcomeFailed, e.EndReason
		m.ErrorCode, m.Error, m.DurationMS, m.Usage = e.Code, e.Message, e.DurationMS, e.Usage
	case run.RunStopped:
		kept := e.Shown.Kept(e.Text)
		m.Content, m.Completed, m.Outcome, m.EndReason = kept, true, run.OutcomeStopped, run.EndUser
		m.DurationMS, m.Usage = e.DurationMS, e.Usage
		if preamble := strings.TrimSuffix(e.Text, kept); e.Reasoning != "" || preamble != "" {
			m.Steps++
			putStep(v, tenant, m.Steps, &MessageStep{Run: m.ID, Iteration: m.Steps - 1, Thought: preamble, Reasoning: e.Reasoning, At: e.At})
		}
	default:
		return
	}
	m.UpdatedAt = f.Time
	putMessage(v, tenant, m)
}

// foldTidied takes away what people took away.
func foldTidied(v *View, f Fact) {
	tenant := f.Stream.Tenant
	switch e := f.Event.(type) {
	case session.RunDiscarded:
		discard(v, tenant, e.Run)
	case session.MessagesCleared, session.SessionDeleted:
		for _, id := range takeItems(v, turnsCollection, tenant, f.Stream.ID) {
			discard(v, tenant, id)
		}
	case session.MessageDeleted:
		if m := Get[Message](v, "", tenant, e.Message); m != nil {
			for n := 1; n <= m.Steps; n++ {
				Remove(v, StepCollection, tenant, StepID(m.ID, n))
			}
			Remove(v, "", tenant, e.Message)
		}
	}
}

// discard takes a turn that was rolled back out of the view.
func discard(v *View, tenant, runID string) {
	m := Get[Message](v, "", tenant, runID)
	if m == nil {
		return
	}
	for n := 1; n <= m.Steps; n++ {
		Remove(v, StepCollection, tenant, StepID(runID, n))
	}
	for _, id := range append([]string{runID, m.Question}, m.Steers...) {
		if id != "" {
			Remove(v, "", tenant, id)
		}
	}
}

func changeStep(v *View, tenant string, m *Message, f func(*MessageStep)) {
	if m.Steps == 0 {
		return
	}
	if s := Get[MessageStep](v, StepCollection, tenant, StepID(m.ID, m.Steps)); s != nil {
		f(s)
		putStep(v, tenant, m.Steps, s)
	}
}

func (s *MessageStep) complete(e run.ToolCompleted) {
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.ID != e.Call || c.Closed {
			continue
		}
		c.Closed, c.Success, c.Error, c.DurationMS = true, e.Success, tool.ForPeople(e.Error), e.DurationMS
		c.Output, c.Data = tool.Stored(c.Name, e.Success, e.Output, e.Data)
	}
}
