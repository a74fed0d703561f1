package api

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"refold/projections"
)

// Bounds of a search of messages.
const (
	maxSearchQuery    = 1000 // runes
	maxSearchSessions = 100
	maxSearchLimit    = 100
	// maxCandidates is how many of the newest turns that hold the words are
	// weighed against each other.
	maxCandidates = 200
)

// foundJSON is a found turn on the wire: the question with its answer.
type foundJSON struct {
	RequestID    string    `json:"request_id"`
	SessionID    string    `json:"session_id"`
	SessionTitle string    `json:"session_title"`
	Question     string    `json:"query_content"`
	Answer       string    `json:"answer_content"`
	Score        float64   `json:"score"`
	MatchType    string    `json:"match_type"`
	CreatedAt    time.Time `json:"created_at"`
	RunID        string    `json:"run_id"` // ours
}

// searchMessages finds turns by words, best first. There is no vector index of
// messages, so its modes fall back to words and say so.
func (a *API) searchMessages(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Query    string   `json:"query"`
		Mode     string   `json:"mode"`
		Limit    float64  `json:"limit"`
		Sessions []string `json:"session_ids"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		a.fail(w, r, err)
		return
	}
	if b.Limit == 0 {
		b.Limit = 20
	}
	many := len(b.Sessions) > maxSearchSessions
	b.Sessions = slices.DeleteFunc(b.Sessions, func(id string) bool { return id == "" })
	named := len(b.Sessions) > 0
	b.Sessions = slices.DeleteFunc(b.Sessions, func(id string) bool { return !isID(id) })
	switch {
	case len(projections.Needles(b.Query, false)) == 0:
		a.fail(w, r, invalid(`query must hold at least one letter or digit`))
	case utf8.RuneCountInString(b.Query) > maxSearchQuery:
		a.fail(w, r, invalid("query has at most "+itoa(maxSearchQuery)+" characters"))
	case b.Limit < 0 || b.Limit > maxSearchLimit || !isWhole(b.Limit):
		a.fail(w, r, invalid("limit must be a number from 1 to "+itoa(maxSearchLimit)))
	case many:
		a.fail(w, r, invalid("at most "+itoa(maxSearchSessions)+" session_ids are taken"))
	case !slices.Contains([]string{"", "keyword", "vector", "hybrid"}, b.Mode):
		a.fail(w, r, invalid(`mode must be "keyword", "vector" or "hybrid"`))
	default:
		items, total, err := []foundJSON{}, 0, error(nil)
		if !named || len(b.Sessions) > 0 { // ids that no session can have are not all sessions
			items, total, err = a.findTurns(r, b.Query, b.Sessions, int(b.Limit))
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
		data := body{"items": items, "total": total, "mode": "keyword"}
		if b.Mode == "vector" || b.Mode == "hybrid" {
			data["fallback"] = "messages have no vector index on this server; they were searched by keyword"
		}
		respond(w, http.StatusOK, ok(data))
	}
}

// candidate is a turn that holds the words, with its worth.
type candidate struct {
	projections.Turn
	score float64
}

// findTurns gives the best turns and how many of the newest were weighed.
func (a *API) findTurns(r *http.Request, query string, sessions []string, limit int) ([]foundJSON, int, error) {
	for _, p := range []projections.Projection{projections.Search, projections.History, projections.Sessions} {
		if err := a.fresh(r, p); err != nil {
			return nil, 0, err
		}
	}
	found, err := a.candidates(r, projections.Needles(query, false), sessions, nil)
	if pieces := projections.Needles(query, true); err == nil && len(found) < limit && !slices.Equal(pieces, projections.Needles(query, false)) {
		found, err = a.candidates(r, pieces, sessions, found)
	}
	if err != nil {
		return nil, 0, err
	}
	slices.SortStableFunc(found, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(y.score, x.score), y.At.Compare(x.At), strings.Compare(x.Run, y.Run))
	})
	items, err := a.showTurns(r, found[:min(limit, len(found))])
	return items, len(found), err
}

// candidates adds the newest turns that hold all needles to those known.
func (a *API) candidates(r *http.Request, needles, sessions []string, known []candidate) ([]candidate, error) {
	seen := map[string]bool{}
	for _, c := range known {
		seen[c.Run] = true
	}
	base := projections.Query{Collection: projections.Search.ID(), Tenant: tenant(r), Limit: maxCandidates,
		OrderBy: []projections.Order{{Field: "at", Desc: true}}}
	for _, n := range needles {
		base.Where = append(base.Where, projections.Where{Field: "text", Op: "contains", Value: n})
	}
	queries := []projections.Query{base}
	if len(sessions) > 0 {
		queries = nil
		for _, id := range sessions {
			q := base
			q.Where = append(slices.Clone(base.Where), projections.Where{Field: "session", Op: "=", Value: id})
			queries = append(queries, q)
		}
	}
	for _, q := range queries {
		p, err := a.Documents.Find(r.Context(), q)
		if err != nil {
			return nil, err
		}
		turns, err := documents[projections.Turn](p.Documents)
		if err != nil {
			return nil, err
		}
		for _, t := range turns {
			if !seen[t.Run] {
				seen[t.Run] = true
				known = append(known, candidate{t, t.Score(needles)})
			}
		}
	}
	return known, nil
}

// showTurns fills in the texts from the history and the titles from the sessions.
func (a *API) showTurns(r *http.Request, found []candidate) ([]foundJSON, error) {
	items := []foundJSON{}
	for _, c := range found {
		item := foundJSON{SessionID: c.Session, Score: math.Round(c.score*1000) / 1000, MatchType: "keyword", CreatedAt: c.At, RunID: c.Run}
		for _, id := range []string{c.Message, c.Run} {
			m, err := one[projections.Message](r.Context(), a, projections.History, tenant(r), id)
			if err != nil {
				return nil, err
			}
			if m == nil {
				continue
			}
			item.RequestID = m.Request
			if m.Role == "user" {
				item.Question = m.Content
			} else {
				item.Answer = m.Content
			}
		}
		s, err := one[projections.Session](r.Context(), a, projections.Sessions, tenant(r), c.Session)
		if err != nil {
			return nil, err
		}
		if s != nil {
			item.SessionTitle = s.Title
			items = append(items, item)
		}
	}
	return items, nil
}

// historyStats tells how many messages can be found.
func (a *API) historyStats(w http.ResponseWriter, r *http.Request) {
	n, err := 0, a.fresh(r, projections.Search)
	for _, half := range []string{"asked", "answered"} {
		var p projections.Page
		if err == nil {
			p, err = a.Documents.Find(r.Context(), projections.Query{Collection: projections.Search.ID(), Tenant: tenant(r), Limit: 1, CountTotal: true,
				Where: []projections.Where{{Field: half, Op: "=", Value: true}}})
			n += p.Total
		}
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	respond(w, http.StatusOK, ok(body{"enabled": true, "indexed_message_count": n, "has_indexed_messages": n > 0}))
}
