package api

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain"
	"refold/domain/session"
)

// waitingJSON is a message that waits for the run in progress to end.
type waitingJSON struct {
	MessageID string    `json:"message_id"`
	RunID     string    `json:"run_id"` // of the run that will answer it
	Query     string    `json:"query"`
	AgentID   string    `json:"agent_id"`
	Place     int       `json:"place"` // from 1
	CreatedAt time.Time `json:"created_at"`
}

// listQueue lists the messages of a session that wait, the next one first.
func (a *API) listQueue(w http.ResponseWriter, r *http.Request) {
	s, err := a.Commands.Session(r.Context(), tenant(r), chi.URLParam(r, "session"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := make([]waitingJSON, len(s.Queue))
	for i, m := range s.Queue {
		out[i] = waitingJSON{m.Message, m.Run, m.Query, m.Agent, i + 1, m.At}
	}
	respond(w, http.StatusOK, ok(out))
}

// editQueued replaces the text of a waiting message.
func (a *API) editQueued(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Query string `json:"query"`
	}
	err := decode(w, r, maxChatBody, &b)
	if err == nil {
		pos, editErr := a.Commands.EditQueued(r.Context(), caller(r), chi.URLParam(r, "session"), chi.URLParam(r, "message"), b.Query)
		positionHeader(w, pos)
		err = editErr
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	respond(w, http.StatusOK, body{"success": true})
}

// withdrawQueued takes a waiting message back.
func (a *API) withdrawQueued(w http.ResponseWriter, r *http.Request) {
	pos, err := a.Commands.WithdrawQueued(r.Context(), caller(r), chi.URLParam(r, "session"), chi.URLParam(r, "message"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, pos)
	respond(w, http.StatusOK, body{"success": true, "message": "Message withdrawn"})
}

var errWithdrawn = domain.Reject(domain.Missing, "withdrawn", "the message was withdrawn before it was answered")

// awaitTaken waits, with heartbeats, while the message that a run will answer is
// in the queue. false means that it still is and the caller does not follow.
func (a *API) awaitTaken(r *http.Request, out *stream, runID string, follow bool) (bool, error) {
	id := chi.URLParam(r, "session")
	sub, stop := a.Tail.subscribe(tenant(r), session.Category, id)
	defer stop()
	for waited := false; ; waited = true {
		s, err := a.Commands.Session(r.Context(), tenant(r), id)
		if err != nil {
			return false, err
		}
		if _, _, posted := s.Post(runID); posted {
			return true, nil
		}
		if !s.Waits(runID) {
			if waited {
				return false, errWithdrawn
			}
			return false, notFound("there is no such message in this session")
		}
		if err := out.begin(); err != nil {
			return false, errLeft
		}
		if !follow {
			return false, nil
		}
		if err := a.quiet(r.Context(), out, sub); err != nil {
			return false, err
		}
	}
}
