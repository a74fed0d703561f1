package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain/agent"
	"refold/domain/session"
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

	Bases     []string  `json:"knowledge_base_ids"`
	Documents []string  `json:"knowledge_ids"`
	Tags      []string  `json:"tag_ids"` // of the one base that is named
	Mentions  []mention `json:"mentioned_items"`
	Web       bool      `json:"web_search_enabled"`
}

// mention is something that a person has named with @ in the question.
type mention struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"` // kb, file or tag; others have no meaning here
	Base string `json:"kb_id"`
}

// sources are the knowledge that a request names; nil if it names none. A tag
// without its base is never taken for more than it is.
func (b chatBody) sources() (*session.Sources, error) {
	out := &session.Sources{Bases: b.Bases, Documents: b.Documents}
	tagged := false
	for _, m := range b.Mentions {
		switch {
		case m.ID == "" && (m.Type == "kb" || m.Type == "file" || m.Type == "tag"):
			return nil, invalid("what is mentioned needs an id")
		case m.Type == "kb":
			out.Bases = append(out.Bases, m.ID)
		case m.Type == "file":
			out.Documents = append(out.Documents, m.ID)
		case m.Type == "tag" && m.Base != "":
			out.Tags = append(out.Tags, session.Tag{Base: m.Base, Tag: m.ID})
			tagged = true
		case m.Type == "tag":
			return nil, invalid("a tag that is mentioned needs the kb_id of its knowledge base")
		}
	}
	if len(b.Tags) > 0 {
		switch {
		case len(b.Bases) == 1: // the tags narrow it
			out.Bases = out.Bases[1:]
			for _, t := range b.Tags {
				out.Tags = append(out.Tags, session.Tag{Base: b.Bases[0], Tag: t})
			}
		case !tagged || len(b.Bases) > 1:
			return nil, invalid("tag_ids belong to one knowledge base: name exactly one in knowledge_base_ids, or mention the tags with their kb_id")
		}
	}
	if len(out.Bases)+len(out.Documents)+len(out.Tags) == 0 {
		return nil, nil
	}
	for _, list := range [][]string{out.Bases, out.Documents} {
		for _, id := range list {
			if id == "" || len(id) > 64 {
				return nil, invalid("ids of knowledge bases and documents have 1 to 64 bytes")
			}
		}
	}
	return out, nil
}

// agentChat posts a message to an agent, the reasoning one unless another is
// named.
func (a *API) agentChat(w http.ResponseWriter, r *http.Request) { a.chat(w, r, agent.SmartReasoning) }

// knowledgeChat does the same with the quick one. The mode of the agent that is
// named decides, on both routes.
func (a *API) knowledgeChat(w http.ResponseWriter, r *http.Request) { a.chat(w, r, agent.QuickAnswer) }

// chat posts a message and streams the run that answers it. The run does
// not depend on the connection: who leaves can come back.
func (a *API) chat(w http.ResponseWriter, r *http.Request, standard string) {
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
		if b.AgentEnabled && standard == agent.SmartReasoning {
			a.fail(w, r, invalid("agent_id is required when agent mode is enabled"))
			return
		}
		b.AgentID = standard
	}
	sources, err := b.sources()
	if err != nil {
		a.fail(w, r, err)
		return
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
		Images: images, Files: files, Sources: sources, Web: b.Web}, b.OnBusy)
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
