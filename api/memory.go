package api

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain/run"
)

// maxOriginals bounds the messages of one answer.
const maxOriginals = 500

// summaryView is a summary that stands for older messages in the prompts of a run
// and of those after it.
type summaryView struct {
	Number   int       `json:"number"` // for ?expand
	Text     string    `json:"text"`
	From     run.Place `json:"from"`
	To       run.Place `json:"to"`
	Messages int       `json:"messages"`
	Archive  bool      `json:"archive"` // shortened copies: no summary could be had
	At       time.Time `json:"at"`
}

// originalView is a message that a summary stands for.
type originalView struct {
	Run       string             `json:"run"`
	Step      int                `json:"step"`
	Role      string             `json:"role"`
	Content   string             `json:"content"`
	Reasoning string             `json:"reasoning_content,omitempty"`
	Calls     []run.ProposedCall `json:"tool_calls,omitempty"`
	CallID    string             `json:"tool_call_id,omitempty"`
	Name      string             `json:"name,omitempty"`
}

// runMemory lists the summaries of a run with what they stand for; ?expand=N
// gives the messages behind the N-th, from ?offset on, at most 500.
func (a *API) runMemory(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "run")
	expand, err := number(r, "expand", 0, 1, maxOffset)
	offset := 0
	if err == nil {
		offset, err = number(r, "offset", 0, 0, maxOffset)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if expand > 0 {
		a.expandMemory(w, r, id, expand, offset)
		return
	}
	list, err := a.Commands.Memories(r.Context(), tenant(r), id)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := make([]summaryView, len(list))
	for i, m := range list {
		out[i] = summaryView{i + 1, m.Text, m.From, m.To, m.Messages, m.Archive, m.At}
	}
	respond(w, http.StatusOK, ok(out))
}

func (a *API) expandMemory(w http.ResponseWriter, r *http.Request, id string, number, offset int) {
	list, err := a.Commands.ExpandMemory(r.Context(), tenant(r), id, number)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	total := len(list)
	list = list[min(offset, total):min(min(offset, total)+maxOriginals, total)]
	out := make([]originalView, len(list))
	for i, m := range list {
		out[i] = originalView{m.Run, m.Step, m.Role, m.Content, m.Reasoning, m.Calls, m.CallID, m.Name}
	}
	answer := ok(out)
	answer["total"] = total
	respond(w, http.StatusOK, answer)
}
