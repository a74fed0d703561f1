package knowledge

import (
	"slices"
	"time"
)

// Moment is when, and by which process, something is decided. Sole says that no
// other process works on the log, Gone names those that are known to be gone.
type Moment struct {
	Now  time.Time
	Self string
	Sole bool
	Gone []string
}

// void tells whether a claim no longer counts.
func (m Moment) void(c StageStarted) bool { return m.gone(c.Owner, c.Deadline) }

func (m Moment) gone(owner string, deadline time.Time) bool {
	return !m.Now.Before(deadline) || (m.Sole && owner != m.Self) || slices.Contains(m.Gone, owner)
}

// Effect is something that the outside world still owes the document.
type Effect interface{ effect() }

// Do asks to do a stage.
type Do struct {
	Stage   string
	Attempt int
}

// Recover says that the owner of the open claim is gone. Claim is its number.
type Recover struct{ Claim int }

func (Do) effect()      {}
func (Recover) effect() {}

// Due lists what is owed at a moment: at most one effect, because a document is
// in one pair of hands at a time. Empty means that it is settled, waits for a
// time (see NextWake), or that somebody works on it.
func Due(s State, m Moment) []Effect {
	if s.Added == nil {
		return nil
	}
	if c := s.Claim; c != nil {
		if m.void(*c) {
			return []Effect{Recover{c.Number}}
		}
		return nil
	}
	if stage := s.owed(); stage != "" && !s.ingest.waits(m.Now) {
		return []Effect{Do{stage, s.attempt(stage)}}
	}
	if stage := s.owedUpkeep(); stage != "" && !s.upkeep.waits(m.Now) {
		return []Effect{Do{stage, s.attempt(stage)}}
	}
	return nil
}

// waits tells whether the next attempt is not to be made yet. A pause that is
// longer than any can be is that of a clock that was set back.
func (l lane) waits(now time.Time) bool {
	return now.Before(l.retryAt) && l.retryAt.Sub(now) <= maxRetry
}

// owed is the stage on the way into the index that is to be done next.
func (s State) owed() string {
	if s.Deleted || s.Settled() {
		return ""
	}
	return s.Stage()
}

// owedUpkeep is what the index is to be told next.
func (s State) owedUpkeep() string {
	switch {
	case s.Added == nil:
		return ""
	case (s.Deleted || s.Draft) && max(s.Indexed, s.putting) > 0:
		return StageRemove
	case !s.Deleted && !s.Draft && s.Indexed > 0 && s.Synced < s.Changes:
		return StageSync
	}
	return ""
}

// Open tells whether anything is owed, now or later, or being done.
func (s State) Open() bool {
	return s.Added != nil && (s.Claim != nil || s.owed() != "" || s.owedUpkeep() != "")
}

// NextWake is the earliest time after now at which Due may list something new by
// itself; zero if only an event can change it.
func NextWake(s State, now time.Time) time.Time {
	var next time.Time
	add := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if s.Added == nil {
		return next
	}
	if s.Claim != nil {
		add(s.Claim.Deadline)
		return next
	}
	if s.owed() != "" {
		add(s.ingest.retryAt)
	}
	if s.owedUpkeep() != "" {
		add(s.upkeep.retryAt)
	}
	return next
}
