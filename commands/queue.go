package commands

import (
	"context"
	"errors"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
)

// What happens to a message while a run is in progress.
const (
	BusyReject    = "reject"    // it is refused with ErrRunInProgress
	BusyEnqueue   = "enqueue"   // it waits until the run has ended
	BusyInterrupt = "interrupt" // the run is stopped; what it has found stays
	BusyRollback  = "rollback"  // the run is stopped, and its turn taken back
	BusySteer     = "steer"     // the run in progress reads it with its next round
)

// ErrBusyMode says that there is no such way.
var ErrBusyMode = domain.Reject(domain.Invalid, "bad_on_busy", `on_busy must be "reject", "enqueue", "interrupt", "rollback" or "steer"`)

// Send posts a message in one of the ways above. Queued tells that it waits.
// Steered tells that Run is the run in progress, which has taken it.
func (c *Commands) Send(ctx context.Context, by Caller, p PostMessage, busy string) (Posted, error) {
	if done, found, err := c.sent(ctx, by, p.Session); err != nil || found {
		return done, err
	}
	switch busy {
	case "", BusyReject:
		return c.PostMessage(ctx, by, p)
	case BusyEnqueue:
		return c.enqueue(ctx, by, p)
	case BusySteer:
		return c.steer(ctx, by, p)
	case BusyInterrupt, BusyRollback:
		return c.displace(ctx, by, p, busy)
	}
	return Posted{}, ErrBusyMode
}

// enqueue adds the message to the queue, and takes it at once if it can be.
func (c *Commands) enqueue(ctx context.Context, by Caller, p PostMessage) (Posted, error) {
	m, err := c.message(ctx, by, p)
	if err != nil {
		return Posted{}, err
	}
	out := Posted{Message: m.Message, Run: m.Run, Queued: true}
	out.Position, err = c.onSession(ctx, by, p.Session, "EnqueueMessage", func(session.State) (session.Command, error) {
		m.At = c.Now().UTC()
		return session.Enqueue{MessageQueued: session.MessageQueued{MessagePosted: m}}, nil
	})
	if err != nil {
		return out, err
	}
	// If this fails, or the process dies here, the end of the run in progress or
	// the next start takes it.
	return out, c.TakeQueued(ctx, by.Tenant, p.Session)
}

// TakeQueued posts the message of a session that waits longest, if there is one
// and no run is in progress. Doing it again changes nothing.
func (c *Commands) TakeQueued(ctx context.Context, tenant, sessionID string) error {
	by := Caller{Tenant: tenant, Principal: "process:queue"}
	_, err := c.onSession(ctx, by, sessionID, "TakeQueued", func(s session.State) (session.Command, error) {
		cmd := session.TakeQueued{Now: c.Now().UTC()}
		if len(s.Queue) == 0 || s.LastRun() == "" {
			return cmd, nil
		}
		ended, err := c.ended(ctx, tenant, s.LastRun())
		if ended {
			cmd.EndedRun = s.LastRun()
		}
		return cmd, err
	})
	if errors.Is(err, session.ErrNotFound) {
		return nil // deleted: its queue went with it
	}
	return err
}

// ended tells whether a run is over.
func (c *Commands) ended(ctx context.Context, tenant, runID string) (bool, error) {
	r, err := c.OpenRun(ctx, tenant, runID)
	if err != nil {
		return false, err
	}
	return r.State.Over(), nil
}

// EditQueued replaces the text of a waiting message.
func (c *Commands) EditQueued(ctx context.Context, by Caller, sessionID, message, query string) (event.Position, error) {
	if err := checkQuery(query); err != nil {
		return "", err
	}
	return c.onSession(ctx, by, sessionID, "EditQueued", func(session.State) (session.Command, error) {
		return session.EditQueued{QueuedMessageEdited: session.QueuedMessageEdited{Message: message, Query: query, At: c.Now().UTC()}}, nil
	})
}

// WithdrawQueued takes a waiting message back.
func (c *Commands) WithdrawQueued(ctx context.Context, by Caller, sessionID, message string) (event.Position, error) {
	return c.onSession(ctx, by, sessionID, "WithdrawQueued", func(session.State) (session.Command, error) {
		return session.WithdrawQueued{QueuedMessageWithdrawn: session.QueuedMessageWithdrawn{Message: message, At: c.Now().UTC()}}, nil
	})
}

// steer hands the message to the run in progress; without one it is posted.
func (c *Commands) steer(ctx context.Context, by Caller, p PostMessage) (Posted, error) {
	m, err := c.message(ctx, by, p)
	if err != nil {
		return Posted{}, err
	}
	for range maxTries {
		s, err := c.Session(ctx, by.Tenant, p.Session)
		if err != nil {
			return Posted{}, err
		}
		last := s.LastRun()
		if last == "" {
			return c.PostMessage(ctx, by, p)
		}
		r, err := c.StartRun(ctx, by.Tenant, p.Session, last)
		if err != nil {
			return Posted{}, err
		}
		_, err = r.Do(ctx, by, "SteerRun", func(s run.State) ([]run.Command, error) {
			if len(m.Images)+len(m.Files) > 0 && !s.Over() {
				return nil, ErrSteerMedia
			}
			return []run.Command{run.Steer{Message: m.Message, Text: m.Query, By: by.Principal, Now: c.Now().UTC()}}, nil
		})
		switch {
		case errors.Is(err, run.ErrOver):
			posted, err := c.PostMessage(ctx, by, p)
			if errors.Is(err, session.ErrRunInProgress) {
				continue // another message was faster: steer its run
			}
			return posted, err
		case err != nil:
			return Posted{}, err
		}
		return Posted{Message: m.Message, Run: last, Steered: true, Position: r.Position}, nil
	}
	return Posted{}, event.ErrConflict
}

// displace stops the run in progress and posts the message in its place.
func (c *Commands) displace(ctx context.Context, by Caller, p PostMessage, busy string) (Posted, error) {
	m, err := c.message(ctx, by, p)
	if err != nil {
		return Posted{}, err
	}
	out := Posted{Message: m.Message, Run: m.Run}
	rollback := "" // the run that was in progress
	out.Position, err = c.onSession(ctx, by, p.Session, "PostMessage", func(s session.State) (session.Command, error) {
		m.At = c.Now().UTC()
		post := session.Post{MessagePosted: m}
		last := s.LastRun()
		if last == "" {
			return post, nil
		}
		ended, err := c.ended(ctx, by.Tenant, last)
		if err != nil {
			return nil, err
		}
		if !ended {
			if _, err := c.StopRun(ctx, by, p.Session, last, busy); err != nil && !errors.Is(err, ErrRunOver) {
				return nil, err
			}
			rollback = last
		}
		post.EndedRun = last
		if busy == BusyRollback && rollback == last {
			return session.Replace{Post: post}, nil
		}
		return session.Ahead{Post: post}, nil
	})
	return out, err
}
