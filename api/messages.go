package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain/run"
	"refold/domain/tool"
	"refold/projections"
)

// messageJSON is a message on the wire. The fields after deleted_at are ours.
type messageJSON struct {
	ID         string           `json:"id"`
	SessionID  string           `json:"session_id"`
	RequestID  string           `json:"request_id"`
	Content    string           `json:"content"`
	Role       string           `json:"role"`
	References []tool.Reference `json:"knowledge_references"`
	Steps      []stepJSON       `json:"agent_steps,omitempty"`
	Completed  bool             `json:"is_completed"`
	Fallback   bool             `json:"is_fallback,omitempty"`
	DurationMS int64            `json:"agent_duration_ms,omitempty"`
	Channel    string           `json:"channel,omitempty"`
	AgentID    string           `json:"agent_id,omitempty"`
	ModelID    string           `json:"model_id,omitempty"`
	CreatedAt  time.Time        `json:"created_at"`
	UpdatedAt  time.Time        `json:"updated_at"`
	DeletedAt  *time.Time       `json:"deleted_at"`

	Images      []imageJSON `json:"images,omitempty"`
	Attachments []fileJSON  `json:"attachments,omitempty"`

	RunID     string        `json:"run_id,omitempty"`
	Outcome   string        `json:"outcome,omitempty"`
	EndReason string        `json:"end_reason,omitempty"`
	Degraded  bool          `json:"degraded,omitempty"`
	Error     *messageError `json:"error,omitempty"`
	Usage     *run.Usage    `json:"usage,omitempty"`
}

// imageJSON is an image of a question; url is a path of this server.
type imageJSON struct {
	URL     string `json:"url"`
	Caption string `json:"caption,omitempty"`
}

// fileJSON is a file of a question. is_truncated tells that the question carries
// its beginning only.
type fileJSON struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"file_name"`
	Type      string `json:"file_type"`
	Size      int64  `json:"file_size"`
	Truncated bool   `json:"is_truncated,omitempty"`
}

type messageError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type stepJSON struct {
	Iteration int        `json:"iteration"`
	Thought   string     `json:"thought"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []callJSON `json:"tool_calls"`
	Timestamp time.Time  `json:"timestamp"`
}

type callJSON struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Args     any             `json:"args"`
	Result   *resultJSON     `json:"result"`
	Duration int64           `json:"duration"`
	Metadata json.RawMessage `json:"provider_metadata,omitempty"`
}

type resultJSON struct {
	Success bool            `json:"success"`
	Output  string          `json:"output"`
	Data    json.RawMessage `json:"data,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// loadMessages gives the newest messages before a time, oldest first.
func (a *API) loadMessages(w http.ResponseWriter, r *http.Request) {
	limit, err := number(r, "limit", 20, 0, maxPage)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	before, err := moment(r, "before_time")
	if err == nil {
		_, err = a.Commands.Session(r.Context(), tenant(r), chi.URLParam(r, "session"))
	}
	if err == nil {
		err = a.fresh(r, projections.History)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	q := projections.Query{Collection: projections.History.ID(), Tenant: tenant(r), Limit: limit,
		Where:   []projections.Where{{Field: "session", Op: "=", Value: chi.URLParam(r, "session")}},
		OrderBy: []projections.Order{{Field: "at", Desc: true}}}
	if !before.IsZero() {
		q.Where = append(q.Where, projections.Where{Field: "at", Op: "<", Value: before.UnixMicro()})
	}
	p, err := a.Documents.Find(r.Context(), q)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	rows, err := documents[projections.Message](p.Documents)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	slices.Reverse(rows)
	steps, err := a.stepsOf(r, rows)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := make([]messageJSON, len(rows))
	for i, m := range rows {
		out[i] = wireMessage(m, steps[i])
	}
	respond(w, http.StatusOK, ok(out))
}

// stepsOf gives the steps of each message, in their order.
func (a *API) stepsOf(r *http.Request, rows []projections.Message) ([][]stepJSON, error) {
	out := make([][]stepJSON, len(rows))
	var keys []projections.Key
	at := map[string]int{} // id of a step -> its message
	for i, m := range rows {
		for n := range m.Steps {
			id := projections.StepID(m.ID, n+1)
			at[id] = i
			keys = append(keys, projections.Key{Collection: projections.History.ID() + "." + projections.StepCollection, Tenant: tenant(r), ID: id})
		}
	}
	for some := range slices.Chunk(keys, 100) { // what is stored of them is held for no longer
		docs, err := a.Documents.Get(r.Context(), some...)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(docs, func(x, y projections.Document) int { return strings.Compare(x.ID, y.ID) })
		steps, err := documents[projections.MessageStep](docs)
		if err != nil {
			return nil, err
		}
		for i, s := range steps {
			m := at[docs[i].ID]
			out[m] = append(out[m], wireStep(s))
		}
	}
	return out, nil
}

func wireMessage(m projections.Message, steps []stepJSON) messageJSON {
	out := messageJSON{ID: m.ID, SessionID: m.Session, RequestID: m.Request, Content: m.Content, Role: m.Role, References: append([]tool.Reference{}, m.References...),
		Completed: m.Completed, Fallback: m.Fallback, DurationMS: m.DurationMS, Channel: m.Channel, AgentID: m.Agent, ModelID: m.Model,
		CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, RunID: m.Run, Outcome: m.Outcome, EndReason: m.EndReason, Degraded: m.Degraded}
	for i, image := range m.Images {
		out.Images = append(out.Images, imageJSON{URL: "/api/v1/sessions/" + m.Session + "/messages/" + m.ID + "/files?file_path=" + imagePath(i), Caption: image.Caption})
	}
	for _, f := range m.Files {
		out.Attachments = append(out.Attachments, fileJSON{f.ID, f.Name, fileType(f.Name), f.Size, f.Truncated})
	}
	if m.Role != "assistant" {
		return out
	}
	if m.ErrorCode != "" {
		out.Error = &messageError{m.ErrorCode, m.Error}
	}
	if m.Usage.Total > 0 {
		out.Usage = &m.Usage
	}
	out.Steps = steps
	return out
}

func wireStep(s projections.MessageStep) stepJSON {
	out := stepJSON{Iteration: s.Iteration, Thought: s.Thought, Reasoning: s.Reasoning, Calls: []callJSON{}, Timestamp: s.At}
	for _, c := range s.Calls {
		call := callJSON{ID: c.ID, Name: c.Name, Args: c.Args, Duration: c.DurationMS, Metadata: c.Metadata}
		if c.Raw != "" && string(c.Args) == "{}" {
			call.Args = map[string]string{"_raw": c.Raw}
		}
		if c.Closed {
			call.Result = &resultJSON{Success: c.Success, Output: c.Output, Data: c.Data, Error: c.Error}
			if !strings.HasPrefix(strings.TrimSpace(string(c.Data)), "{") {
				call.Result.Data = nil
			}
		}
		out.Calls = append(out.Calls, call)
	}
	return out
}
