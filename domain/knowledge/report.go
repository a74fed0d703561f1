package knowledge

import (
	"fmt"
	"slices"
	"time"

	"refold/domain"
)

// decideClaim grants a stage only if it is due right now, so that of two workers
// one is told "not due" by the log itself.
func decideClaim(s State, c Claim) ([]Event, error) {
	if !slices.Contains(Due(s, c.Moment), Effect(Do{c.Stage, c.Attempt})) {
		return nil, ErrNotDue
	}
	if c.Self == "" || !c.Deadline.After(c.Now) {
		return nil, domain.Reject(domain.Invalid, "bad_claim", "a claim needs an owner and a deadline in the future")
	}
	return []Event{StageStarted{Number: s.Claims + 1, Revision: s.Revision, Stage: c.Stage, Attempt: c.Attempt, Owner: c.Self, Deadline: c.Deadline, At: c.Now}}, nil
}

// holds tells whether a report is about the open claim.
func (s State) holds(claim int) bool { return s.Claim != nil && s.Claim.Number == claim }

// resultOf names the stage that a result ends, and its revision (0 = of none).
func resultOf(e Event) (stage string, revision int) {
	switch e := e.(type) {
	case Fetched:
		return StageFetch, e.Revision
	case Parsed:
		return StageParse, e.Revision
	case Chunked:
		return StageChunk, e.Revision
	case Embedded:
		return StageEmbed, e.Revision
	case Indexed:
		return StageIndex, e.Revision
	case Synced:
		return StageSync, 0
	case DocumentRemoved:
		return StageRemove, 0
	}
	return "", 0
}

// decideRecord records the result of a claim, once. A result that belongs to an
// earlier revision, or to a deleted document, only closes the claim; but what the
// index holds is true.
func decideRecord(s State, c Record) ([]Event, error) {
	stage, revision := resultOf(c.Event)
	if stage == "" {
		return nil, fmt.Errorf("knowledge: %T is no result", c.Event)
	}
	if !s.holds(c.Claim) {
		return nil, nil
	}
	if stage != s.Claim.Stage || revision != 0 && revision != s.Claim.Revision {
		return nil, fmt.Errorf("knowledge: %T of revision %d reported for the claim of %s, revision %d", c.Event, revision, s.Claim.Stage, s.Claim.Revision)
	}
	if revision != 0 && (s.Deleted || revision != s.Revision) && stage != StageIndex {
		// It would name content that nothing lets go of any more.
		return []Event{StageFailed{Revision: revision, Stage: stage, Attempt: s.Claim.Attempt, Code: CodeSuperseded,
			Message: "the document has been changed or deleted meanwhile", At: c.Now}}, nil
	}
	out := []Event{c.Event}
	for _, e := range c.More {
		if s = Evolve(s, out[len(out)-1]); revision != s.Revision {
			break
		}
		stage, more := resultOf(e)
		if stage != s.Stage() || more != s.Revision || stage == StageIndex {
			return nil, fmt.Errorf("knowledge: %T of revision %d reported when %s comes next, revision %d", e, more, s.Stage(), s.Revision)
		}
		out = append(out, e)
	}
	return out, nil
}

// decideFailure says what follows a failed attempt: another one after a pause, or
// the end. Telling the index is never given up.
func decideFailure(s State, c RecordFailure) []Event {
	if !s.holds(c.Claim) {
		return nil
	}
	cl := *s.Claim
	f := StageFailed{Revision: cl.Revision, Stage: cl.Stage, Attempt: cl.Attempt, Code: c.Code, Message: c.Message, Transient: c.Transient, Moved: c.Moved, At: c.Now}
	if !upkeep(cl.Stage) && (s.Cancelled || s.Deleted || cl.Revision != s.Revision) {
		f.Code, f.Transient, f.RetryAt = CodeSuperseded, true, c.Now // what comes of it does not matter any more
		return []Event{f}
	}
	failures := s.lane(cl.Stage).failures + 1
	if c.Moved {
		failures = 1
	}
	if upkeep(cl.Stage) || c.Transient && failures < MaxAttempts {
		f.RetryAt = c.Now.Add(retryWait(min(failures, 5), c.RetryAfter))
	}
	return []Event{f}
}

// decideLost ends a claim without a result. That is no failure of the stage, but
// not for ever: what kills every process that tries it must end.
func decideLost(s State, c RecordLost) []Event {
	if !s.holds(c.Claim) || c.Self != s.Claim.Owner && !c.void(*s.Claim) {
		return nil
	}
	cl := *s.Claim
	f := StageFailed{Revision: cl.Revision, Stage: cl.Stage, Attempt: cl.Attempt, Code: CodeLost, Message: "the process that worked on it is gone",
		Transient: true, RetryAt: c.Now, At: c.Now}
	if c.Self == cl.Owner {
		f.Code, f.Message = CodeReturned, "the process that worked on it has handed it back"
		return []Event{f}
	}
	lost := s.lane(cl.Stage).lost + 1
	if lost > lostAtOnce {
		f.RetryAt = c.Now.Add(time.Duration(lost-lostAtOnce) * 5 * time.Second)
	}
	if lost >= MaxLost && !upkeep(cl.Stage) && !s.Cancelled && !s.Deleted && cl.Revision == s.Revision {
		f.RetryAt, f.Transient = time.Time{}, false
		f.Message = fmt.Sprintf("every one of %d processes that worked on it died; the document may be the reason", lost)
	}
	return []Event{f}
}

// DecideAll decides one command after another, folding between them, and gives
// all events and the state after them. It ends at the first refusal.
func DecideAll(s State, cs ...Command) ([]Event, State, error) {
	var out []Event
	for _, c := range cs {
		events, err := Decide(s, c)
		if err != nil {
			return nil, s, err
		}
		for _, e := range events {
			s = Evolve(s, e)
		}
		out = append(out, events...)
	}
	return out, s, nil
}
