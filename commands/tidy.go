package commands

import (
	"context"
	"errors"

	"refold/domain/event"
	"refold/domain/session"
)

// PinSession puts a session at the top of the list, or takes that back. Doing it
// again changes nothing.
func (c *Commands) PinSession(ctx context.Context, by Caller, id string, on bool) (event.Position, error) {
	return c.onSession(ctx, by, id, "PinSession", func(session.State) (session.Command, error) {
		return session.Pin{On: on, Now: c.Now().UTC()}, nil
	})
}

// ClearMessages stops the session's run, if one is in progress, and empties the
// conversation. The record stays; later prompts begin anew.
func (c *Commands) ClearMessages(ctx context.Context, by Caller, id string) (event.Position, error) {
	return c.onSession(ctx, by, id, "ClearMessages", func(s session.State) (session.Command, error) {
		last := s.LastRun()
		if last != "" && s.Live() {
			if _, err := c.StopRun(ctx, by, id, last, "messages_cleared"); err != nil && !errors.Is(err, ErrRunOver) {
				return nil, err
			}
		}
		return session.Clear{EndedRun: last, Now: c.Now().UTC()}, nil
	})
}

// DeleteMessage hides a question or an answer. While the run of its turn is in
// progress it is refused with session.ErrRunInProgress.
func (c *Commands) DeleteMessage(ctx context.Context, by Caller, id, message string) (event.Position, error) {
	return c.onSession(ctx, by, id, "DeleteMessage", func(s session.State) (session.Command, error) {
		cmd := session.DeleteMessage{Message: message, Now: c.Now().UTC()}
		post, found := s.Message(message)
		if !found {
			return cmd, nil
		}
		ended, err := c.ended(ctx, by.Tenant, post.Run)
		if ended {
			cmd.EndedRun = post.Run
		}
		return cmd, err
	})
}

// DeleteSessions deletes those of the sessions that exist and gives their
// number, and the position of the last fact.
func (c *Commands) DeleteSessions(ctx context.Context, by Caller, ids []string) (int, event.Position, error) {
	deleted := 0
	var last event.Position
	for _, id := range ids {
		if id == "" || len(id) > event.MaxIDLen {
			continue // nobody can have made it
		}
		pos, err := c.DeleteSession(ctx, by, id)
		switch {
		case errors.Is(err, session.ErrNotFound):
			continue
		case err != nil:
			return deleted, last, err
		}
		deleted++
		last = max(last, pos)
	}
	return deleted, last, nil
}
