package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain/session"
	"refold/projections"
)

// sessionJSON is a session on the wire.
type sessionJSON struct {
	ID          string     `json:"id"`
	Title       string     `json:"title"`
	Description string     `json:"description"`
	TenantID    int64      `json:"tenant_id"`
	UserID      string     `json:"user_id,omitempty"`
	IsPinned    bool       `json:"is_pinned"`
	PinnedAt    *time.Time `json:"pinned_at,omitempty"`
	LastRequest *lastState `json:"last_request_state,omitempty"`
	CreatedAt   string     `json:"created_at"`
	UpdatedAt   string     `json:"updated_at"`
	DeletedAt   *time.Time `json:"deleted_at"`
}

type lastState struct {
	AgentID      string `json:"agent_id,omitempty"`
	AgentEnabled bool   `json:"agent_enabled"`
	WebSearch    bool   `json:"web_search_enabled"`
}

func wireSession(r *http.Request, s projections.Session) sessionJSON {
	out := sessionJSON{ID: s.ID, Title: s.Title, Description: s.Description, TenantID: tenantNumber(r), UserID: s.Principal,
		CreatedAt: stamp(s.CreatedAt), UpdatedAt: stamp(s.UpdatedAt)}
	if !s.PinnedAt.IsZero() {
		out.IsPinned, out.PinnedAt = true, &s.PinnedAt
	}
	if s.Agent != "" {
		out.LastRequest = &lastState{AgentID: s.Agent, AgentEnabled: true}
	}
	return out
}

type sessionBody struct {
	Title       string `json:"title"`
	Description string `json:"description"`
}

func (a *API) createSession(w http.ResponseWriter, r *http.Request) {
	var b sessionBody
	if err := decode(w, r, maxBody, &b); err != nil {
		a.fail(w, r, err)
		return
	}
	id, pos, err := a.Commands.CreateSession(r.Context(), caller(r), b.Title, b.Description)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, pos)
	recs, _, err := a.Commands.SessionRecord(r.Context(), tenant(r), id)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	if len(recs) == 1 { // the list, which need not have it yet, would show this
		if e, ok := recs[0].Event.(session.SessionCreated); ok {
			a.showSession(w, r, http.StatusCreated, projections.SessionOf(e, recs[0].Version))
			return
		}
	}
	a.answerSession(w, r, http.StatusCreated, id)
}

// answerSession answers with the session as the list shows it, which has caught
// up with everything that was written before.
func (a *API) answerSession(w http.ResponseWriter, r *http.Request, status int, id string) {
	if err := a.fresh(r, projections.Sessions); err != nil {
		a.fail(w, r, err)
		return
	}
	s, err := one[projections.Session](r.Context(), a, projections.Sessions, tenant(r), id)
	if err == nil && s == nil {
		err = session.ErrNotFound
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.showSession(w, r, status, *s)
}

func (a *API) showSession(w http.ResponseWriter, r *http.Request, status int, s projections.Session) {
	w.Header().Set("ETag", etag(s.Version))
	respond(w, status, ok(wireSession(r, s)))
}

func (a *API) getSession(w http.ResponseWriter, r *http.Request) {
	a.answerSession(w, r, http.StatusOK, chi.URLParam(r, "session"))
}

func (a *API) listSessions(w http.ResponseWriter, r *http.Request) {
	q, page, err := query(r, projections.Sessions.ID(), projections.Order{Field: "rank", Desc: true}, projections.Order{Field: "updated_at", Desc: true})
	if err == nil {
		q.Where, err = sessionFilter(r)
	}
	if err == nil {
		err = a.fresh(r, projections.Sessions)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	p, err := a.Documents.Find(r.Context(), q)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	rows, err := documents[projections.Session](p.Documents)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := make([]sessionJSON, len(rows))
	for i, s := range rows {
		out[i] = wireSession(r, s)
	}
	list(w, out, page, q, p)
}

func (a *API) updateSession(w http.ResponseWriter, r *http.Request) {
	var b sessionBody
	if err := decode(w, r, maxBody, &b); err != nil {
		a.fail(w, r, err)
		return
	}
	id := chi.URLParam(r, "session")
	pos, err := a.Commands.UpdateSession(r.Context(), caller(r), id, b.Title, b.Description)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, pos)
	a.answerSession(w, r, http.StatusOK, id)
}

func (a *API) deleteSession(w http.ResponseWriter, r *http.Request) {
	pos, err := a.Commands.DeleteSession(r.Context(), caller(r), chi.URLParam(r, "session"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, pos)
	respond(w, http.StatusOK, body{"success": true, "message": "Session deleted"})
}

// stopRun ends a run. Its error bodies are bare, as the reference's are.
func (a *API) stopRun(w http.ResponseWriter, r *http.Request) {
	bare := func(status int, message string) { respond(w, status, body{"error": message}) }
	var b struct {
		MessageID string `json:"message_id"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		status, _, message, _ := a.explain(r, err)
		bare(status, message)
		return
	}
	if b.MessageID == "" {
		bare(http.StatusBadRequest, "message_id is required: the id of the assistant's message")
		return
	}
	id := chi.URLParam(r, "session")
	s, err := a.Commands.Session(r.Context(), tenant(r), id)
	if err == nil {
		if _, _, mine := s.Post(b.MessageID); !mine {
			var m *projections.RunEntry
			lookErr := a.fresh(r, projections.Runs)
			if lookErr == nil {
				m, lookErr = one[projections.RunEntry](r.Context(), a, projections.Runs, tenant(r), b.MessageID)
			}
			if lookErr == nil && m != nil {
				bare(http.StatusForbidden, "this message belongs to another session")
				return
			}
			bare(http.StatusNotFound, "there is no such message in this session")
			return
		}
		_, err = a.Commands.StopRun(r.Context(), caller(r), id, b.MessageID, "user_requested")
	}
	switch {
	case errors.Is(err, commands.ErrRunOver):
		respond(w, http.StatusOK, body{"success": true, "message": "Message already completed"})
	case err != nil:
		status, _, message, _ := a.explain(r, err)
		bare(status, message)
	default:
		respond(w, http.StatusOK, body{"success": true, "message": "Generation stopped"})
	}
}
