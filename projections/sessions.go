package projections

import (
	"slices"
	"strings"
	"time"

	"refold/domain/event"
	"refold/domain/session"
)

// Session is a row of the session list.
type Session struct {
	ID          string    `json:"id"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Principal   string    `json:"principal,omitempty"`
	Agent       string    `json:"agent,omitempty"` // of the newest message
	Messages    int       `json:"messages"`
	Queue       []string  `json:"queue,omitempty"`    // messages that wait
	Question    string    `json:"question,omitempty"` // the first one, its first 200 runes
	Source      string    `json:"source"`             // channel of the first message, "web" if it has none
	Titles      bool      `json:"titles,omitempty"`   // a run may give it a title
	PinnedAt    time.Time `json:"pinned_at,omitzero"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	Version     int64     `json:"version"` // of its stream
}

// Sessions is the list of sessions. Index: updated_at (unix microseconds),
// title, queued, source, agent, untitled (a title is missing that a run may
// give), text (what a keyword finds, in lower case), rank (unix microseconds of
// the last change; pinned sessions above all others, by the time of the pin).
var Sessions = Projection{Name: "sessions", Version: 2, Filter: event.Filter{Categories: []string{session.Category}}, Fold: foldSession}

// pinnedRank lifts pinned sessions above all others: more than any time before
// the year 2096 in microseconds, and exact in every number of the stores.
const pinnedRank = 4_000_000_000_000_000

func (s *Session) index() map[string]any {
	rank := s.UpdatedAt.UnixMicro()
	if !s.PinnedAt.IsZero() {
		rank = pinnedRank + s.PinnedAt.UnixMicro()
	}
	return map[string]any{"updated_at": s.UpdatedAt.UnixMicro(), "title": s.Title, "queued": len(s.Queue) > 0, "source": s.Source,
		"agent": s.Agent, "untitled": s.Title == "" && s.Titles, "rank": rank,
		"text": strings.ToLower(s.Title + "\n" + s.Description + "\n" + s.Question)}
}

// SessionOf is a session as the list has it when nothing has happened in it yet.
func SessionOf(e session.SessionCreated, version int64) Session {
	return Session{ID: e.Session, Title: e.Title, Description: e.Description, Principal: e.Principal, Source: "web",
		CreatedAt: e.At, UpdatedAt: e.At, Version: version}
}

func foldSession(v *View, f Fact) {
	tenant, id := f.Stream.Tenant, f.Stream.ID
	var s *Session
	switch e := f.Event.(type) {
	case session.SessionCreated:
		fresh := SessionOf(e, f.Version)
		s = &fresh
	case session.SessionUpdated:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.Title, s.Description, s.UpdatedAt = e.Title, e.Description, e.At
		}
	case session.MessagePosted:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.Messages += 2
			s.Agent, s.UpdatedAt = e.Agent, e.At
			s.dequeue(e.Message)
			s.first(e)
			s.Titles = s.Titles || !e.NoTitle
		}
	case session.MessageQueued:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.Queue = append(s.Queue, e.Message)
		}
	case session.QueuedMessageWithdrawn:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.dequeue(e.Message)
		}
	case session.RunDiscarded:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.Messages -= 2
		}
	case session.SessionTitled:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.Title = e.Title
		}
	case session.SessionPinned:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.PinnedAt = e.At
		}
	case session.SessionUnpinned:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.PinnedAt = time.Time{}
		}
	case session.MessagesCleared:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.Messages, s.Queue, s.Question, s.Titles, s.UpdatedAt = 0, nil, "", false, e.At
		}
	case session.MessageDeleted:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.Messages--
		}
	case session.SessionDeleted:
		Remove(v, "", tenant, id)
	}
	if _, deleted := f.Event.(session.SessionDeleted); s == nil && !deleted {
		s = Get[Session](v, "", tenant, id) // its version is news
	}
	if s != nil {
		s.Version = f.Version
		Put(v, "", tenant, id, s, s.index())
	}
}

// first keeps what the conversation began with.
func (s *Session) first(e session.MessagePosted) {
	if s.Question != "" {
		return
	}
	s.Question = preview(e.Query, 200)
	if e.Channel != "" {
		s.Source = e.Channel
	}
}

func (s *Session) dequeue(message string) {
	s.Queue = slices.DeleteFunc(s.Queue, func(m string) bool { return m == message })
}
