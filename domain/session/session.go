// Package session is the aggregate of a conversation: who opened it, what it is
// called, which messages were posted, and which runs answer them. It imports
// the standard library, domain and domain/event. Start reading at Decide.
package session

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"refold/domain"
	"refold/domain/event"
)

// Limits of what a session takes, in runes.
const (
	MaxTitle       = 500
	MaxDescription = 4000
	MaxQuery       = 100_000
)

// Category is the category of session streams; the stream's id is the session's.
const Category = "session"

// Event is a fact about a session.
type Event interface{ event() }

// SessionCreated opens the stream.
type SessionCreated struct {
	Session     string    `json:"session"`
	Title       string    `json:"title,omitempty"`
	Description string    `json:"description,omitempty"`
	Principal   string    `json:"principal,omitempty"`
	At          time.Time `json:"at"`
}

// SessionUpdated replaces title and description.
type SessionUpdated struct {
	Title       string    `json:"title"`
	Description string    `json:"description"`
	At          time.Time `json:"at"`
}

// SessionDeleted hides the session and all that belongs to it. The record stays.
type SessionDeleted struct {
	At time.Time `json:"at"`
}

// MessagePosted is a person's message together with the id of the run that will
// answer it; the run's id is the assistant message's id.
type MessagePosted struct {
	Message   string         `json:"message"`
	Run       string         `json:"run"`
	Request   string         `json:"request,omitempty"`
	Query     string         `json:"query"`
	Agent     string         `json:"agent"`
	Model     string         `json:"model,omitempty"` // overrides the agent's
	Channel   string         `json:"channel,omitempty"`
	Workspace string         `json:"workspace,omitempty"`
	NoTitle   bool           `json:"no_title,omitempty"` // its run gives the session no title
	Images    []domain.Media `json:"images,omitempty"`
	Files     []domain.Media `json:"files,omitempty"`
	Sources   *Sources       `json:"sources,omitempty"` // that the person chose; nil = as the agent is configured
	Web       bool           `json:"web,omitempty"`     // the web may be searched, if the agent may
	Principal string         `json:"principal,omitempty"`
	At        time.Time      `json:"at"`
}

// Sources is the knowledge that a person chose for a message: the union of whole
// bases, of documents, and of the documents that carry a tag of a base.
type Sources struct {
	Bases     []string `json:"bases,omitempty"`
	Documents []string `json:"documents,omitempty"`
	Tags      []Tag    `json:"tags,omitempty"`
}

// Tag names a tag of a base.
type Tag struct {
	Base string `json:"base"`
	Tag  string `json:"tag"`
}

// MaxSources bounds the ids in one choice of sources.
const MaxSources = 200

func (SessionCreated) event() {}
func (SessionUpdated) event() {}
func (SessionDeleted) event() {}
func (MessagePosted) event()  {}

// Codec pairs wire names and schema numbers with Go types and upcasters.
var Codec = event.NewCodec(
	event.Of[Event, SessionCreated]("SessionCreated", 1),
	event.Of[Event, SessionUpdated]("SessionUpdated", 1),
	event.Of[Event, SessionDeleted]("SessionDeleted", 1),
	event.Of[Event, MessagePosted]("MessagePosted", 1),
	event.Of[Event, MessageQueued]("MessageQueued", 1),
	event.Of[Event, QueuedMessageEdited]("QueuedMessageEdited", 1),
	event.Of[Event, QueuedMessageWithdrawn]("QueuedMessageWithdrawn", 1),
	event.Of[Event, RunDiscarded]("RunDiscarded", 1),
	event.Of[Event, SessionPinned]("SessionPinned", 1),
	event.Of[Event, SessionUnpinned]("SessionUnpinned", 1),
	event.Of[Event, MessagesCleared]("MessagesCleared", 1),
	event.Of[Event, MessageDeleted]("MessageDeleted", 1),
	event.Of[Event, TitleClaimed]("TitleClaimed", 1),
	event.Of[Event, SessionTitled]("SessionTitled", 1),
	event.Of[Event, AttachmentAdded]("AttachmentAdded", 1),
	event.Of[Event, AttachmentRemoved]("AttachmentRemoved", 1),
)

// State is the fold of a session's events.
type State struct {
	Created     *SessionCreated
	Title       string
	Description string
	Deleted     bool
	Posts       []MessagePosted // all messages, oldest first
	Queue       []MessagePosted // messages that wait, oldest first
	Discarded   []string        // runs that were rolled back
	Hidden      []string        // messages that were deleted
	Clears      int             // how often the conversation was emptied
	PinnedAt    time.Time       // zero if it is not pinned
	Titling     *TitleClaimed   // newest claim of the title that is missing
	TitleTries  int             // claims so far
	Attachments []AttachmentAdded
}

// Live tells whether the session exists for its users.
func (s State) Live() bool { return s.Created != nil && !s.Deleted }

// Shared gives the state to somebody else who may fold on from it, at the same
// time: neither sees what the other folds.
func (s State) Shared() State {
	s.Posts = slices.Clip(s.Posts) // Evolve copies the other slices
	return s
}

// LastRun is the newest run, "" if there is none.
func (s State) LastRun() string {
	if len(s.Posts) == 0 {
		return ""
	}
	return s.Posts[len(s.Posts)-1].Run
}

// Post finds the message that a run answers, and its place.
func (s State) Post(run string) (MessagePosted, int, bool) {
	for i := len(s.Posts) - 1; i >= 0; i-- {
		if s.Posts[i].Run == run {
			return s.Posts[i], i, true
		}
	}
	return MessagePosted{}, -1, false
}

// Command is a request to a session.
type Command interface{ command() }

// Create opens a session.
type Create struct{ SessionCreated }

// Update replaces title and description.
type Update struct{ SessionUpdated }

// Delete hides the session.
type Delete struct{ SessionDeleted }

// Post adds a message. EndedRun is the session's newest run if the caller has
// seen in that run's stream that it is over.
type Post struct {
	MessagePosted
	EndedRun string
}

func (Create) command() {}
func (Update) command() {}
func (Delete) command() {}
func (Post) command()   {}

// Refusals.
var (
	ErrNotFound      = domain.Reject(domain.Missing, "session_not_found", "there is no such session; create one with POST /api/v1/sessions")
	ErrExists        = domain.Reject(domain.Conflict, "session_exists", "a session with this id exists")
	ErrRunInProgress = domain.Reject(domain.Conflict, "run_in_progress", "the session is still answering; wait for the end of that run or stop it first")
)

// Decide says which events follow from a command; it may refuse.
func Decide(s State, c Command) ([]Event, error) {
	events, err := decide(s, c)
	for i, e := range events {
		if m, ok := e.(MessagePosted); ok {
			m.At = s.after(m.At)
			events[i] = m
		}
	}
	return events, err
}

// after gives the time of the next message: conversations are read in the order
// of their times, in microseconds, so it comes after the last question and its
// answer, also if the clock was set back meanwhile.
func (s State) after(at time.Time) time.Time {
	if len(s.Posts) == 0 {
		return at
	}
	if least := s.Posts[len(s.Posts)-1].At.Truncate(time.Microsecond).Add(2 * time.Microsecond); at.Before(least) {
		return least
	}
	return at
}

func decide(s State, c Command) ([]Event, error) {
	if c, ok := c.(Create); ok {
		if s.Created != nil {
			return nil, ErrExists
		}
		if err := checkTexts(c.Title, c.Description); err != nil {
			return nil, err
		}
		return []Event{c.SessionCreated}, nil
	}
	if !s.Live() {
		return nil, ErrNotFound
	}
	if events, mine, err := decideQueue(s, c); mine {
		return events, err
	}
	if events, mine, err := decideTidy(s, c); mine {
		return events, err
	}
	switch c := c.(type) {
	case Update:
		if err := checkTexts(c.Title, c.Description); err != nil {
			return nil, err
		}
		return []Event{c.SessionUpdated}, nil
	case Delete:
		return []Event{c.SessionDeleted}, nil
	case Post:
		if !s.free(c.EndedRun) || len(s.Queue) > 0 {
			return nil, s.busy()
		}
		return []Event{c.MessagePosted}, nil
	}
	return nil, fmt.Errorf("session: unknown command %T", c)
}

func checkTexts(title, description string) error {
	if utf8.RuneCountInString(title) > MaxTitle {
		return domain.Reject(domain.Invalid, "title_too_long", fmt.Sprintf("the title has more than %d characters; shorten it", MaxTitle))
	}
	if utf8.RuneCountInString(description) > MaxDescription {
		return domain.Reject(domain.Invalid, "description_too_long", fmt.Sprintf("the description has more than %d characters; shorten it", MaxDescription))
	}
	return nil
}

// Evolve folds one event. It never fails.
func Evolve(s State, e Event) State {
	switch e := e.(type) {
	case SessionCreated:
		if s.Created == nil {
			s.Created, s.Title, s.Description = &e, e.Title, e.Description
		}
	case SessionUpdated:
		s.Title, s.Description = e.Title, e.Description
	case SessionDeleted:
		s.Deleted = true
	case MessageQueued, QueuedMessageEdited, QueuedMessageWithdrawn, RunDiscarded:
		return evolveQueue(s, e)
	case MessagePosted:
		s.Posts = append(s.Posts, e)
		s.Queue = s.without(e.Message)
	default:
		return evolveTidy(s, e)
	}
	return s
}
