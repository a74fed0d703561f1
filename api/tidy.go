package api

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"refold/domain/event"
	"refold/projections"
)

// maxKeyword bounds a keyword, in runes.
const maxKeyword = 200

// sessionFilter reads the filters of the session list: keyword (in title,
// description or first question), source and agent_id.
func sessionFilter(r *http.Request) ([]projections.Where, error) {
	var where []projections.Where
	get := r.URL.Query().Get
	if k := strings.TrimSpace(get("keyword")); k != "" {
		if utf8.RuneCountInString(k) > maxKeyword || !utf8.ValidString(k) {
			return nil, invalid("keyword has at most " + itoa(maxKeyword) + " characters of UTF-8")
		}
		where = append(where, projections.Where{Field: "text", Op: "contains", Value: strings.ToLower(k)})
	}
	for name, field := range map[string]string{"source": "source", "agent_id": "agent"} {
		if v := get(name); v != "" {
			if len(v) > event.MaxIDLen || !utf8.ValidString(v) {
				return nil, invalid(name + " has at most " + itoa(event.MaxIDLen) + " bytes of UTF-8")
			}
			where = append(where, projections.Where{Field: field, Op: "=", Value: v})
		}
	}
	return where, nil
}

// deleteSessions deletes the sessions named, or all. Unknown ids are passed
// over; if none of them exists it is 404.
func (a *API) deleteSessions(w http.ResponseWriter, r *http.Request) {
	var b struct {
		IDs []string `json:"ids"`
		All bool     `json:"delete_all"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		a.fail(w, r, err)
		return
	}
	if len(b.IDs) == 0 && !b.All {
		a.fail(w, r, invalid(`name the sessions in "ids", or set "delete_all"`))
		return
	}
	if len(b.IDs) > maxPage {
		a.fail(w, r, invalid("at most "+itoa(maxPage)+" sessions are deleted at once"))
		return
	}
	ids, err := slices.DeleteFunc(b.IDs, func(id string) bool { return id == "" || !isID(id) }), error(nil)
	if b.All {
		ids, err = a.allSessions(r)
	}
	if err == nil {
		n, pos, deleteErr := a.Commands.DeleteSessions(r.Context(), caller(r), ids)
		positionHeader(w, pos)
		if err = deleteErr; err == nil && n == 0 && !b.All {
			err = notFound("none of these sessions exists")
		}
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	respond(w, http.StatusOK, body{"success": true, "message": "Sessions deleted"})
}

// allSessions lists the ids of the sessions that are there now.
func (a *API) allSessions(r *http.Request) ([]string, error) {
	if err := a.fresh(r, projections.Sessions); err != nil {
		return nil, err
	}
	var ids []string
	q := projections.Query{Collection: projections.Sessions.ID(), Tenant: tenant(r), Limit: maxPage}
	for {
		p, err := a.Documents.Find(r.Context(), q)
		if err != nil {
			return nil, err
		}
		for _, d := range p.Documents {
			ids = append(ids, d.ID)
		}
		if q.Cursor = p.Next; q.Cursor == "" {
			return ids, nil
		}
	}
}

// clearMessages empties a conversation; a run in progress is stopped.
func (a *API) clearMessages(w http.ResponseWriter, r *http.Request) {
	pos, err := a.Commands.ClearMessages(r.Context(), caller(r), chi.URLParam(r, "session"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, pos)
	respond(w, http.StatusOK, body{"success": true, "message": "Messages cleared"})
}

func (a *API) pinSession(w http.ResponseWriter, r *http.Request)   { a.pin(w, r, true) }
func (a *API) unpinSession(w http.ResponseWriter, r *http.Request) { a.pin(w, r, false) }

func (a *API) pin(w http.ResponseWriter, r *http.Request, on bool) {
	pos, err := a.Commands.PinSession(r.Context(), caller(r), chi.URLParam(r, "session"), on)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, pos)
	respond(w, http.StatusOK, body{"success": true, "is_pinned": on})
}

// deleteMessage hides one message. That of a run in progress is 409.
func (a *API) deleteMessage(w http.ResponseWriter, r *http.Request) {
	pos, err := a.Commands.DeleteMessage(r.Context(), caller(r), chi.URLParam(r, "session"), chi.URLParam(r, "message"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, pos)
	respond(w, http.StatusOK, body{"success": true, "message": "Message deleted"})
}

// generateTitle makes a title from messages because somebody asks for it.
func (a *API) generateTitle(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := decode(w, r, maxChatBody, &b); err != nil {
		a.fail(w, r, err)
		return
	}
	var question, answer string
	for _, m := range b.Messages {
		text := strings.TrimSpace(m.Content)
		switch {
		case m.Role == "user" && question == "":
			question = text
		case m.Role == "assistant" && question != "" && answer == "":
			answer = text
		}
	}
	if question == "" {
		a.fail(w, r, invalid(`messages must hold a message of role "user" with content`))
		return
	}
	title, pos, err := a.Titles(r.Context(), caller(r), chi.URLParam(r, "session"), question, answer)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	positionHeader(w, pos)
	respond(w, http.StatusOK, ok(title))
}
