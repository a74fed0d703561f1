package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain/agent"
)

// chatBody is the request of a chat. Fields of the reference that this server
// has no use for yet are accepted and ignored.
type chatBody struct {
	Query        string `json:"query"`
	AgentID      string `json:"agent_id"`
	AgentEnabled bool   `json:"agent_enabled"`
	ModelID      string `json:"summary_model_id"`
	Channel      string `json:"channel"`
	Workspace    string `json:"workspace"` // ours: a folder of files on the server
	NoTitle      bool   `json:"disable_title"`
	OnBusy       string `json:"on_busy"` // ours: what to do while a run is in progress

	Images        []imageUpload `json:"images"`
	Uploads       []uploadJSON  `json:"attachment_uploads"`
	AttachmentIDs []string      `json:"attachment_ids"`
}

// agentChat posts a message and streams the run that answers it. The run does
// not depend on the connection: who leaves can come back.
func (a *API) agentChat(w http.ResponseWriter, r *http.Request) {
	if again := replayed(r); again != "" {
		a.serveRun(w, r, again, "", true)
		return
	}
	var b chatBody
	done, err := a.decodeChat(w, r, &b)
	defer done()
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if b.AgentID == "" {
		if b.AgentEnabled {
			a.fail(w, r, invalid("agent_id is required when agent mode is enabled"))
			return
		}
		b.AgentID = agent.SmartReasoning
	}
	dir, err := a.workspace(r, b.Workspace)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if len(b.Channel) > 64 || len(b.ModelID) > 64 {
		a.fail(w, r, invalid("channel and summary_model_id have at most 64 bytes"))
		return
	}
	images, files, err := a.media(r, chi.URLParam(r, "session"), b)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	done()
	posted, err := a.Commands.Send(r.Context(), caller(r), commands.PostMessage{Session: chi.URLParam(r, "session"),
		Query: b.Query, Agent: b.AgentID, Model: b.ModelID, Channel: b.Channel, Workspace: dir, NoTitle: b.NoTitle,
		Images: images, Files: files}, b.OnBusy)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	notes(r).run = posted.Run
	w.Header().Set("X-Refold-Run", posted.Run)
	w.Header().Set("X-Refold-Message", posted.Message)
	switch {
	case posted.Queued:
		w.Header().Set("X-Refold-Taken", "queued")
	case posted.Steered:
		w.Header().Set("X-Refold-Taken", "steered")
	}
	positionHeader(w, posted.Position)
	a.serveRun(w, r, posted.Run, "", true)
}
