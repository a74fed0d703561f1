package commands

import (
	"context"
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
)

// TitleWork is a title that a process has claimed.
type TitleWork struct {
	Question string
	Answer   string
	Model    string // name of the run's model
	Tries    int    // claims so far, this one included
}

// OwesTitle gives the run whose end gives a session its title: the oldest of the
// shown turns that has completed, looking at the first 20. "" if none is owed.
func (c *Commands) OwesTitle(ctx context.Context, tenant, sessionID string) (string, error) {
	h, err := c.loadSession(ctx, tenant, sessionID)
	s := h.state
	if err != nil || !s.Live() || s.Title != "" {
		return "", err
	}
	for _, p := range s.Posts[:min(20, len(s.Posts))] {
		if !s.Titles(p.Run) {
			continue
		}
		_, end, err := c.ends(ctx, tenant, p.Run)
		if err != nil {
			return "", err
		}
		if end != nil {
			return p.Run, nil
		}
	}
	return "", nil
}

// ends gives the first fact of a run and the one by which it has completed, nil if
// there is none.
func (c *Commands) ends(ctx context.Context, tenant, runID string) (start *run.RunStarted, end *run.RunCompleted, err error) {
	recs, err := c.Runs.Pick(ctx, tenant, runID, "RunStarted", "RunCompleted")
	for _, rec := range recs {
		switch e := rec.Event.(type) {
		case run.RunStarted:
			start = &e
		case run.RunCompleted:
			end = &e
		}
	}
	return start, end, err
}

// ClaimTitle claims a session's title for self until deadline. Of several
// processes one gets it, the others session.ErrTitleNotDue.
func (c *Commands) ClaimTitle(ctx context.Context, tenant, sessionID, runID, self string, sole bool, deadline time.Time) (TitleWork, error) {
	start, end, err := c.ends(ctx, tenant, runID)
	if err != nil {
		return TitleWork{}, err
	}
	if start == nil || end == nil {
		return TitleWork{}, session.ErrTitleNotDue
	}
	work := TitleWork{Question: start.Query, Answer: end.Answer, Model: start.Agent.Model}
	by := Caller{Tenant: tenant, Principal: "process:" + self, Request: start.Request}
	_, err = c.onSession(ctx, by, sessionID, "ClaimTitle", func(s session.State) (session.Command, error) {
		work.Tries = s.TitleTries + 1
		return session.ClaimTitle{TitleClaimed: session.TitleClaimed{Run: runID, Owner: self, Deadline: deadline.UTC(), At: c.Now().UTC()}, Sole: sole}, nil
	})
	return work, err
}

// RecordTitle records the title that self has claimed and made; nothing if the
// session has one by now.
func (c *Commands) RecordTitle(ctx context.Context, tenant, sessionID, self string, t session.SessionTitled) error {
	by := Caller{Tenant: tenant, Principal: "process:" + self}
	_, err := c.onSession(ctx, by, sessionID, "RecordTitle", func(session.State) (session.Command, error) {
		t.At = c.Now().UTC()
		return session.RecordTitle{SessionTitled: t, Owner: self}, nil
	})
	return err
}

// SetTitle records a title that the caller asked to be made.
func (c *Commands) SetTitle(ctx context.Context, by Caller, sessionID string, t session.SessionTitled) (event.Position, error) {
	return c.onSession(ctx, by, sessionID, "GenerateTitle", func(session.State) (session.Command, error) {
		t.At = c.Now().UTC()
		return session.RecordTitle{SessionTitled: t, Asked: true}, nil
	})
}
