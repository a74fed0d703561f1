package run

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"refold/domain"
)

// MaxSteers bounds the messages that steer one run.
const MaxSteers = 50

// Refusals of steering.
var (
	ErrConcluding = domain.Reject(domain.Conflict, "run_concluding", "the run is already writing its last answer; send the message when it has ended, or enqueue it")
	ErrSteered    = domain.Reject(domain.Conflict, "too_many_steers", fmt.Sprintf("a run takes at most %d messages while it is in progress; enqueue it", MaxSteers))
)

// decideSteer takes a message into the run. The same message again is known.
func decideSteer(s State, c Steer) ([]Event, error) {
	switch {
	case s.Over():
		return nil, ErrOver
	case slices.Contains(s.steered, c.Message):
		return nil, nil
	case s.Synthesis != "":
		return nil, ErrConcluding
	case len(s.steered) >= MaxSteers:
		return nil, ErrSteered
	case blank(c.Text):
		return nil, domain.Reject(domain.Invalid, "empty_query", "the message is empty; write one")
	case utf8.RuneCountInString(c.Text) > MaxQuery:
		return nil, domain.Reject(domain.Invalid, "query_too_long", fmt.Sprintf("the message has more than %d characters; shorten it", MaxQuery))
	}
	return []Event{MessageSteered{Message: c.Message, Text: c.Text, By: c.By, At: c.Now}}, nil
}

// steer folds a message that waits for the next round. What was a circle before
// it may make sense after it.
func (s State) steer(e MessageSteered) State {
	s.steered = append(slices.Clip(s.steered), e.Message)
	s.Waiting = append(slices.Clip(s.Waiting), e)
	s.loop = loop{}
	s.LastText = ""
	return s
}

// read moves the messages that waited into the transcript: the model call that
// begins reads them.
func (s State) read() State {
	for i := range s.Waiting {
		s.Steps = append(s.Steps, Step{Steer: &s.Waiting[i]})
	}
	s.Waiting = nil
	return s
}
