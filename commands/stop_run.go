package commands

import (
	"context"
	"errors"

	"refold/domain/event"
	"refold/domain/run"
)

// ErrRunOver says that there is nothing to stop.
var ErrRunOver = run.ErrOver

// StopRun ends a run now, wherever it is being worked on. The delta stream of
// an open model call is closed first, so that the text that is kept is exactly
// what readers have seen.
func (c *Commands) StopRun(ctx context.Context, by Caller, sessionID, runID, reason string) (event.Position, error) {
	r, err := c.StartRun(ctx, by.Tenant, sessionID, runID)
	if err != nil {
		return "", err
	}
	for try := 1; ; try++ {
		stop := run.Stop{By: by.Principal, Reason: reason, Now: c.Now().UTC()}
		if m := r.State.Model; m != nil && !r.State.Over() {
			segments, err := c.CloseDeltas(ctx, by.Tenant, runID, m.Call)
			if err != nil {
				return "", err
			}
			stop.Call = m.Call
			stop.Text, stop.Reasoning, stop.Shown = run.Compact(segments)
		}
		open := r.State.Model
		_, err := r.Do(ctx, by, "StopRun", func(s run.State) ([]run.Command, error) {
			// The call whose text was read must still be the open one.
			if (s.Model == nil) != (open == nil) || s.Model != nil && s.Model.Call != open.Call {
				return nil, event.ErrConflict
			}
			return []run.Command{stop}, nil
		})
		if errors.Is(err, event.ErrConflict) && try < maxTries {
			if err := r.Refresh(ctx); err != nil {
				return "", err
			}
			continue
		}
		return r.Position, err
	}
}

// CloseDeltas closes the transient stream of a model call and gives all that
// was ever appended to it. Whoever still writes to it loses the race.
func (c *Commands) CloseDeltas(ctx context.Context, tenant, runID string, call int) ([]run.Segment, error) {
	id := run.DeltaID(runID, call)
	var segments []run.Segment
	var version int64
	for {
		recs, err := c.Deltas.Load(ctx, tenant, id, version)
		if err != nil {
			return nil, err
		}
		for _, rec := range recs {
			version = rec.Version
			segments = append(segments, rec.Event.Segments...)
			if rec.Event.Closed {
				return segments, nil
			}
		}
		_, err = c.Deltas.Append(ctx, tenant, id, event.Exactly(version), event.Envelope{Time: c.Now().UTC()},
			event.Fact[run.Delta]{ID: c.NewID(), Event: run.Delta{Closed: true}})
		if err == nil {
			return segments, nil
		}
		if !errors.Is(err, event.ErrConflict) {
			return nil, err
		}
	}
}
