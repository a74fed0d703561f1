package session

import (
	"fmt"
	"slices"
	"time"

	"refold/domain"
)

// MaxQueue bounds the messages that wait in a session.
const MaxQueue = 50

// MessageQueued is a message that waits for the run in progress to end. It has
// the ids that it will have when it is taken, so its reader can wait already.
type MessageQueued struct {
	MessagePosted
}

// QueuedMessageEdited replaces the text of a message that still waits.
type QueuedMessageEdited struct {
	Message string    `json:"message"`
	Query   string    `json:"query"`
	At      time.Time `json:"at"`
}

// QueuedMessageWithdrawn takes a message back that still waits.
type QueuedMessageWithdrawn struct {
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

// RunDiscarded rolls a turn back: it is not shown any more, and no later prompt
// has it. What its tools have done in the world is not undone.
type RunDiscarded struct {
	Run string    `json:"run"`
	At  time.Time `json:"at"`
}

func (MessageQueued) event()          {}
func (QueuedMessageEdited) event()    {}
func (QueuedMessageWithdrawn) event() {}
func (RunDiscarded) event()           {}

// Enqueue adds a message to the end of the queue.
type Enqueue struct{ MessageQueued }

// EditQueued replaces the text of a waiting message.
type EditQueued struct{ QueuedMessageEdited }

// WithdrawQueued takes a waiting message back.
type WithdrawQueued struct{ QueuedMessageWithdrawn }

// TakeQueued posts the message that waits longest. EndedRun is as in Post.
type TakeQueued struct {
	EndedRun string
	Now      time.Time
}

// Replace rolls the newest turn back, whose run is over, and posts a message in
// its place.
type Replace struct {
	Post
}

// Ahead posts a message before those that wait; the run in progress was stopped
// for it.
type Ahead struct{ Post }

func (Ahead) command()          {}
func (Enqueue) command()        {}
func (EditQueued) command()     {}
func (WithdrawQueued) command() {}
func (TakeQueued) command()     {}
func (Replace) command()        {}

// Refusals.
var (
	ErrQueueFull = domain.Reject(domain.Conflict, "queue_full", fmt.Sprintf("%d messages are waiting already; withdraw one or wait", MaxQueue))
	ErrNotQueued = domain.Reject(domain.Missing, "not_queued", "this message does not wait in the queue: it was taken, withdrawn, or never there")
)

// free tells whether a message could be answered now.
func (s State) free(endedRun string) bool {
	last := s.LastRun()
	return last == "" || last == endedRun
}

// Waits tells whether the message that a run will answer is in the queue.
func (s State) Waits(run string) bool {
	return slices.ContainsFunc(s.Queue, func(m MessagePosted) bool { return m.Run == run })
}

func (s State) queued(message string) int {
	return slices.IndexFunc(s.Queue, func(m MessagePosted) bool { return m.Message == message })
}

// decideQueue decides the commands about waiting messages; the session is live.
func decideQueue(s State, c Command) ([]Event, bool, error) {
	switch c := c.(type) {
	case Enqueue:
		if len(s.Queue) >= MaxQueue {
			return nil, true, ErrQueueFull
		}
		return []Event{c.MessageQueued}, true, nil
	case EditQueued:
		if s.queued(c.Message) < 0 {
			return nil, true, ErrNotQueued
		}
		return []Event{c.QueuedMessageEdited}, true, nil
	case WithdrawQueued:
		if s.queued(c.Message) < 0 {
			return nil, true, ErrNotQueued
		}
		return []Event{c.QueuedMessageWithdrawn}, true, nil
	case TakeQueued:
		if len(s.Queue) == 0 || !s.free(c.EndedRun) {
			return nil, true, nil
		}
		m := s.Queue[0]
		m.At = c.Now
		return []Event{m}, true, nil
	case Ahead:
		if !s.free(c.EndedRun) {
			return nil, true, s.busy()
		}
		return []Event{c.MessagePosted}, true, nil
	case Replace:
		if !s.free(c.EndedRun) {
			return nil, true, s.busy()
		}
		if s.LastRun() == "" {
			return []Event{c.MessagePosted}, true, nil
		}
		return []Event{RunDiscarded{Run: s.LastRun(), At: c.At}, c.MessagePosted}, true, nil
	}
	return nil, false, nil
}

// busy is the refusal of a message while a run is in progress or others wait.
func (s State) busy() error {
	details := map[string]any{"run_id": s.LastRun(), "message_id": s.LastRun()}
	if len(s.Queue) > 0 {
		details["queued"] = len(s.Queue)
	}
	return ErrRunInProgress.With(details)
}

// evolveQueue folds the events about waiting messages.
func evolveQueue(s State, e Event) State {
	switch e := e.(type) {
	case MessageQueued:
		s.Queue = append(slices.Clip(s.Queue), e.MessagePosted)
	case QueuedMessageEdited:
		if i := s.queued(e.Message); i >= 0 {
			s.Queue = slices.Clone(s.Queue)
			s.Queue[i].Query = e.Query
		}
	case QueuedMessageWithdrawn:
		s.Queue = s.without(e.Message)
	case RunDiscarded:
		s.Discarded = append(slices.Clip(s.Discarded), e.Run)
	}
	return s
}

func (s State) without(message string) []MessagePosted {
	i := s.queued(message)
	if i < 0 {
		return s.Queue
	}
	return slices.Delete(slices.Clone(s.Queue), i, i+1)
}
