package commands

import (
	"context"
	"errors"

	"refold/domain/event"
	"refold/domain/session"
)

// CreateSession opens a session and gives its id and the position of the fact.
func (c *Commands) CreateSession(ctx context.Context, by Caller, title, description string) (string, event.Position, error) {
	id := c.idFor(by, "session")
	pos, err := c.onSession(ctx, by, id, "CreateSession", func(session.State) (session.Command, error) {
		return session.Create{SessionCreated: session.SessionCreated{Session: id, Title: title, Description: description,
			Principal: by.Principal, At: c.Now().UTC()}}, nil
	})
	return id, pos, err
}

// UpdateSession replaces title and description.
func (c *Commands) UpdateSession(ctx context.Context, by Caller, id, title, description string) (event.Position, error) {
	return c.onSession(ctx, by, id, "UpdateSession", func(session.State) (session.Command, error) {
		return session.Update{SessionUpdated: session.SessionUpdated{Title: title, Description: description, At: c.Now().UTC()}}, nil
	})
}

// DeleteSession stops the session's run, if one is in progress, and hides the
// session.
func (c *Commands) DeleteSession(ctx context.Context, by Caller, id string) (event.Position, error) {
	h, err := c.loadSession(ctx, by.Tenant, id)
	if err != nil {
		return "", err
	}
	if pos, done := executed(h.recs, by, "DeleteSession"); done {
		return pos, nil
	}
	if !h.state.Live() {
		return "", session.ErrNotFound
	}
	if err := by.holdsAt(h.version); err != nil {
		return "", err // before the run is stopped
	}
	if last := h.state.LastRun(); last != "" {
		if _, err := c.StopRun(ctx, by, id, last, "session_deleted"); err != nil && !errors.Is(err, ErrRunOver) {
			return "", err
		}
	}
	return c.onSession(ctx, by, id, "DeleteSession", func(session.State) (session.Command, error) {
		return session.Delete{SessionDeleted: session.SessionDeleted{At: c.Now().UTC()}}, nil
	})
}

// Session gives the state of a live session, to be read only;
// session.ErrNotFound otherwise.
func (c *Commands) Session(ctx context.Context, tenant, id string) (session.State, error) {
	h, err := c.loadSession(ctx, tenant, id)
	if err == nil && !h.state.Live() {
		err = session.ErrNotFound
	}
	return h.state, err
}

// SessionRecord gives all facts of a session, deleted or not, and their fold, to
// be read only; none if it was never made.
func (c *Commands) SessionRecord(ctx context.Context, tenant, id string) ([]event.Recorded[session.Event], session.State, error) {
	h, err := c.loadSession(ctx, tenant, id)
	return h.recs, h.state, err
}

// onSession loads, decides and appends, again after a lost race. If the request
// has done it before, its first position is the answer.
func (c *Commands) onSession(ctx context.Context, by Caller, id, command string, ask func(session.State) (session.Command, error)) (event.Position, error) {
	for try := 1; ; try++ {
		h, err := c.loadSession(ctx, by.Tenant, id)
		if err != nil {
			return "", err
		}
		if pos, done := executed(h.recs, by, command); done {
			return pos, nil
		}
		if h.state.Live() {
			if err := by.holdsAt(h.version); err != nil {
				return "", err
			}
		}
		cmd, err := ask(h.state)
		if err != nil {
			return "", err
		}
		events, err := session.Decide(h.state, cmd)
		if err != nil {
			return "", err
		}
		if len(events) == 0 {
			return "", nil // nothing to do
		}
		recs, err := c.Sessions.Append(ctx, by.Tenant, id, event.Exactly(h.version), c.envelope(by, id, command), facts(c.NewID, events)...)
		if errors.Is(err, event.ErrConflict) && try < maxTries {
			if try > 1 { // once is a race; again, what is known may be wrong
				c.known.forget(h.stream)
			}
			continue
		}
		if err != nil {
			return "", err
		}
		return recs[len(recs)-1].Position, nil
	}
}
