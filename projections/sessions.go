package projections

import (
	"slices"
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
	Queue       []string  `json:"queue,omitempty"` // messages that wait
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

// Sessions is the list of sessions. Index: updated_at (unix microseconds),
// title, queued.
var Sessions = Projection{Name: "sessions", Version: 1, Filter: event.Filter{Categories: []string{session.Category}}, Fold: foldSession}

func foldSession(v *View, f Fact) {
	tenant, id := f.Stream.Tenant, f.Stream.ID
	var s *Session
	switch e := f.Event.(type) {
	case session.SessionCreated:
		s = &Session{ID: id, Title: e.Title, Description: e.Description, Principal: e.Principal, CreatedAt: e.At, UpdatedAt: e.At}
	case session.SessionUpdated:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.Title, s.Description, s.UpdatedAt = e.Title, e.Description, e.At
		}
	case session.MessagePosted:
		if s = Get[Session](v, "", tenant, id); s != nil {
			s.Messages += 2
			s.Agent, s.UpdatedAt = e.Agent, e.At
			s.dequeue(e.Message)
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
	case session.SessionDeleted:
		Remove(v, "", tenant, id)
	}
	if s != nil {
		Put(v, "", tenant, id, s, map[string]any{"updated_at": s.UpdatedAt.UnixMicro(), "title": s.Title, "queued": len(s.Queue) > 0})
	}
}

func (s *Session) dequeue(message string) {
	s.Queue = slices.DeleteFunc(s.Queue, func(m string) bool { return m == message })
}
