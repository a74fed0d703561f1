package session

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"refold/domain"
)

// TitleClaimed says that a process makes the session's title, after a run has
// completed. The claim is void at Deadline, or when its owner is known to be
// gone.
type TitleClaimed struct {
	Run      string    `json:"run"`
	Owner    string    `json:"owner"`
	Deadline time.Time `json:"deadline"`
	At       time.Time `json:"at"`
}

// Sources of a title.
const (
	TitleByModel    = "model"
	TitleByQuestion = "question" // cut from the question, without a model
)

// SessionTitled gives the session a title that nobody typed. Run is the run that
// caused it, in whose stream readers see it; "" if somebody asked for the title.
type SessionTitled struct {
	Run    string    `json:"run,omitempty"`
	Title  string    `json:"title"`
	Source string    `json:"source"`
	Model  string    `json:"model,omitempty"`
	Usage  Usage     `json:"usage"`
	At     time.Time `json:"at"`
}

// Usage counts the tokens of a model call that belongs to no run.
type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Cached     int `json:"cached_tokens,omitempty"`
}

func (TitleClaimed) event()  {}
func (SessionTitled) event() {}

// ClaimTitle asks to make the title. Sole says that no other process works on
// this log, so a claim of another owner is void.
type ClaimTitle struct {
	TitleClaimed
	Sole bool
}

// RecordTitle reports the title that Owner has made. With Asked it is what
// somebody asked for: it needs no claim and replaces a title that is there.
type RecordTitle struct {
	SessionTitled
	Owner string
	Asked bool
}

func (ClaimTitle) command()  {}
func (RecordTitle) command() {}

// ErrTitleNotDue says that the session has a title, or that somebody makes it.
var ErrTitleNotDue = domain.Reject(domain.Conflict, "title_not_due", "the session has a title, or one is being made")

// Titles tells whether the end of a run may give the session a title: it has
// none, the run's message allows it, and no other run has been taken for it.
func (s State) Titles(run string) bool {
	post, _, found := s.Post(run)
	return s.Live() && s.Title == "" && found && !post.NoTitle && !s.hides(post) &&
		(s.Titling == nil || s.Titling.Run == run)
}

// TitleClaim is the claim that holds at a moment, nil if there is none.
func (s State) TitleClaim(now time.Time, self string, sole bool) *TitleClaimed {
	if c := s.Titling; c != nil && now.Before(c.Deadline) && (!sole || c.Owner == self) {
		return c
	}
	return nil
}

// decideTitle decides the commands about titles; the session is live.
func decideTitle(s State, c Command) ([]Event, bool, error) {
	switch c := c.(type) {
	case ClaimTitle:
		if !s.Titles(c.Run) || s.TitleClaim(c.At, c.Owner, c.Sole) != nil {
			return nil, true, ErrTitleNotDue
		}
		return []Event{c.TitleClaimed}, true, nil
	case RecordTitle:
		t := c.SessionTitled
		t.Title = strings.ToValidUTF8(t.Title, "")
		if utf8.RuneCountInString(t.Title) > MaxTitle {
			t.Title = string([]rune(t.Title)[:MaxTitle])
		}
		if !c.Asked && (!s.Titles(t.Run) || s.Titling == nil || s.Titling.Owner != c.Owner) {
			return nil, true, nil // somebody was faster, or typed one
		}
		return []Event{t}, true, nil
	}
	return nil, false, nil
}

func evolveTitle(s State, e Event) State {
	switch e := e.(type) {
	case TitleClaimed:
		s.Titling, s.TitleTries = &e, s.TitleTries+1
	case SessionTitled:
		s.Title, s.Titling = e.Title, nil
	default:
		return evolveMedia(s, e)
	}
	return s
}

// hides tells whether the question or the answer of a message was deleted.
func (s State) hides(post MessagePosted) bool {
	return slices.Contains(s.Hidden, post.Message) || slices.Contains(s.Hidden, post.Run)
}
