package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"refold/domain/event"
	"refold/domain/run"
)

// Run is a run as one process sees it: its state up to a version. It is not
// safe for concurrent use.
type Run struct {
	commands *Commands
	Tenant   string
	ID       string
	State    run.State
	Version  int64
	Position event.Position // of the last event that this process appended
	Trace    string         // of the request that the run answers: W3C trace id, or its request id

	executed map[string]event.Position // what idempotent requests did, by reservation and command
}

// OpenRun folds a run's stream. A run that does not exist (yet) has version 0.
func (c *Commands) OpenRun(ctx context.Context, tenant, id string) (*Run, error) {
	r := &Run{commands: c, Tenant: tenant, ID: id}
	return r, r.Refresh(ctx)
}

// Refresh folds what others have appended.
func (r *Run) Refresh(ctx context.Context) error {
	recs, err := r.commands.Runs.Load(ctx, r.Tenant, r.ID, r.Version)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		r.State = run.Evolve(r.State, rec.Event)
		r.Version = rec.Version
		if rec.Version == 1 {
			r.Trace = rec.Meta.Trace
		}
		if rec.Meta.Causation != "" {
			if r.executed == nil {
				r.executed = map[string]event.Position{}
			}
			r.executed[rec.Meta.Causation+" "+rec.Meta.Command] = rec.Position
		}
	}
	return nil
}

// Do decides and appends in one step what ask wants in the current state, and
// folds it. After a lost race it asks again on the new state; ask must not have
// effects. It gives the events appended; none is no error.
func (r *Run) Do(ctx context.Context, by Caller, command string, ask func(run.State) ([]run.Command, error)) ([]run.Event, error) {
	return r.Decided(ctx, by, command, func(s run.State) ([]run.Event, run.State, error) {
		cmds, err := ask(s)
		if err != nil {
			return nil, s, err
		}
		return run.DecideAll(s, cmds...)
	})
}

// Decided is Do for who has decided already: decide gives the events and the
// state after them.
func (r *Run) Decided(ctx context.Context, by Caller, command string, decide func(run.State) ([]run.Event, run.State, error)) ([]run.Event, error) {
	c := r.commands
	for try := 1; ; try++ {
		if pos, done := r.executed[by.Reservation+" "+command]; done && by.Reservation != "" {
			r.Position = pos
			return nil, nil
		}
		events, next, err := decide(r.State)
		if err != nil || len(events) == 0 {
			return nil, err
		}
		sessionID := ""
		if next.Start != nil {
			sessionID = next.Start.Session
			if by.Request == "" {
				by.Request = next.Start.Request
				by.Trace = cmp.Or(by.Trace, r.Trace)
			}
		}
		recs, err := c.Runs.Append(ctx, r.Tenant, r.ID, event.Exactly(r.Version), c.envelope(by, sessionID, command), facts(c.NewID, events)...)
		if errors.Is(err, event.ErrConflict) && try < maxTries {
			if err := r.Refresh(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
		if r.Version == 0 {
			r.Trace = recs[0].Meta.Trace
		}
		r.State, r.Version, r.Position = next, recs[len(recs)-1].Version, recs[len(recs)-1].Position
		return events, nil
	}
}

func one(cmd run.Command) func(run.State) ([]run.Command, error) {
	return func(run.State) ([]run.Command, error) { return []run.Command{cmd}, nil }
}
