package session

import (
	"slices"
	"time"

	"refold/domain"
)

// SessionPinned puts the session at the top of the list.
type SessionPinned struct {
	At time.Time `json:"at"`
}

// SessionUnpinned takes that back.
type SessionUnpinned struct {
	At time.Time `json:"at"`
}

// MessagesCleared empties the conversation: nothing before it is shown any more,
// and no later prompt has it. The record stays.
type MessagesCleared struct {
	At time.Time `json:"at"`
}

// MessageDeleted hides one message, a question or an answer (whose id is its
// run's). Later prompts have neither it nor its other half. The record stays.
type MessageDeleted struct {
	Message string    `json:"message"`
	Run     string    `json:"run"` // of the turn
	At      time.Time `json:"at"`
}

func (SessionPinned) event()   {}
func (SessionUnpinned) event() {}
func (MessagesCleared) event() {}
func (MessageDeleted) event()  {}

// Pin puts the session at the top of the list, or takes that back.
type Pin struct {
	On  bool
	Now time.Time
}

// Clear empties the conversation. EndedRun is as in Post.
type Clear struct {
	EndedRun string
	Now      time.Time
}

// DeleteMessage hides one message. EndedRun is its run if the caller has seen
// that it is over.
type DeleteMessage struct {
	Message  string
	EndedRun string
	Now      time.Time
}

func (Pin) command()           {}
func (Clear) command()         {}
func (DeleteMessage) command() {}

// ErrNoMessage says that the session has no such message.
var ErrNoMessage = domain.Reject(domain.Missing, "message_not_found", "there is no such message in this session")

// Message finds the turn that a message belongs to: a question, or an answer by
// its run's id.
func (s State) Message(id string) (MessagePosted, bool) {
	i := slices.IndexFunc(s.Posts, func(p MessagePosted) bool { return p.Message == id || p.Run == id })
	if i < 0 || slices.Contains(s.Hidden, id) || slices.Contains(s.Discarded, s.Posts[i].Run) {
		return MessagePosted{}, false
	}
	return s.Posts[i], true
}

// Kept tells whether later prompts may have the turn of a message.
func (s State) Kept(post MessagePosted) bool {
	return !s.hides(post) && !slices.Contains(s.Discarded, post.Run)
}

// decideTidy decides the commands that change what is shown, and those about
// titles and media; the session is live.
func decideTidy(s State, c Command) ([]Event, bool, error) {
	switch c := c.(type) {
	case Pin:
		switch {
		case c.On == !s.PinnedAt.IsZero():
			return nil, true, nil
		case c.On:
			return []Event{SessionPinned{At: c.Now}}, true, nil
		}
		return []Event{SessionUnpinned{At: c.Now}}, true, nil
	case Clear:
		if !s.free(c.EndedRun) {
			return nil, true, s.busy()
		}
		if len(s.Posts) == 0 && len(s.Queue) == 0 {
			return nil, true, nil
		}
		return []Event{MessagesCleared{At: c.Now}}, true, nil
	case DeleteMessage:
		post, found := s.Message(c.Message)
		switch {
		case !found:
			return nil, true, ErrNoMessage
		case c.EndedRun != post.Run:
			return nil, true, s.busy()
		}
		return []Event{MessageDeleted{Message: c.Message, Run: post.Run, At: c.Now}}, true, nil
	}
	if events, mine, err := decideTitle(s, c); mine {
		return events, true, err
	}
	return decideMedia(s, c)
}

func evolveTidy(s State, e Event) State {
	switch e := e.(type) {
	case SessionPinned:
		s.PinnedAt = e.At
	case SessionUnpinned:
		s.PinnedAt = time.Time{}
	case MessagesCleared:
		s.Posts, s.Queue, s.Hidden, s.Discarded = nil, nil, nil, nil
		s.Clears++
	case MessageDeleted:
		s.Hidden = append(slices.Clip(s.Hidden), e.Message)
	default:
		return evolveTitle(s, e)
	}
	return s
}
