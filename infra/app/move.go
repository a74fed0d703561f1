package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"refold/domain"
	"refold/domain/event"
	"refold/handlers"
	"refold/infra/postgres"
	"refold/projections"
)

// move takes over the runs that were open at head, and then moves runs, until
// ctx ends. On a shared record it does so under an instance id that it keeps
// alive; when it can't, others take its claims over, so it stops acting on them
// and begins again under another id.
func (a *App) move(ctx context.Context, head event.Position) {
	shared, ok := a.DB.(members)
	if !ok {
		a.moveAs(ctx, head)
		return
	}
	for pause := 100 * time.Millisecond; ctx.Err() == nil; {
		if err := a.moveShared(ctx, shared, head); err != nil && ctx.Err() == nil {
			a.trouble("runs are not moved: " + err.Error())
			a.Config.Log.Error("runs are not moved", "error", err, "again_in", pause)
			sleep(ctx, pause)
			pause = min(2*pause, 5*time.Second)
			continue
		}
		pause = 100 * time.Millisecond
	}
}

// moveShared moves runs under a fresh instance id as long as it can be kept
// alive.
func (a *App) moveShared(ctx context.Context, shared members, head event.Position) error {
	self := instanceID()
	if err := shared.Mark(ctx, self); err != nil {
		return err
	}
	now, err := a.Store.Head(ctx)
	if err != nil {
		return err
	}
	a.Runner.Self, a.Ingest.Self = self, self
	alive, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		stop(shared.Beat(alive, self))
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		a.watchGone(alive, shared)
	}()
	a.moveAs(alive, max(head, now))
	cause := context.Cause(alive)
	stop(nil)
	<-done
	<-done
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := shared.Leave(bound, self); err != nil {
		a.Config.Log.Warn("leave; others notice later", "error", err)
	}
	return cause
}

// moveAs moves runs, and documents, until ctx ends.
func (a *App) moveAs(ctx context.Context, head event.Position) {
	var documents sync.WaitGroup
	documents.Go(func() { a.ingest(ctx, head) })
	defer documents.Wait()
	if a.Config.Own {
		a.started.Store(true)
		if err := a.Runner.Run(ctx, head, nil); err != nil && ctx.Err() == nil {
			a.trouble("the runner has stopped: " + err.Error())
		}
		return
	}
	open, err := a.openRuns(ctx, head)
	if ctx.Err() != nil {
		return
	}
	a.problem.Store(nil)
	if err != nil {
		a.trouble("open runs could not be listed: " + err.Error())
		a.Config.Log.Error("runs are not taken over; new ones are moved", "error", err)
	}
	a.work.Go(func() {
		if err := a.Runner.SweepDeltas(ctx); err != nil && ctx.Err() == nil {
			a.Config.Log.Warn("sweep left-over deltas; the next start does it", "error", err)
		}
	})
	a.work.Go(func() { a.takeQueues(ctx, head) })
	a.started.Store(true)
	if err := a.Runner.Run(ctx, head, open); err != nil && ctx.Err() == nil {
		a.trouble("the runner has stopped: " + err.Error())
		a.Config.Log.Error("the runner has stopped", "error", err)
	}
}

// watchGone tells the runner which instances are gone, and wakes the open runs
// when another one is: it may have left claims behind.
func (a *App) watchGone(ctx context.Context, shared members) {
	known := []string{}
	for ctx.Err() == nil {
		gone, err := shared.Gone(ctx)
		if err != nil {
			if ctx.Err() == nil {
				a.Config.Log.Warn("ask which processes are gone", "error", err)
			}
		} else {
			news := slices.ContainsFunc(gone, func(id string) bool { return !slices.Contains(known, id) })
			a.Runner.SetGone(gone)
			a.Ingest.SetGone(gone)
			if news {
				err = a.wakeAll(ctx)
			}
			if err == nil {
				known = gone
			} else if ctx.Err() == nil {
				a.Config.Log.Warn("look after the runs of a process that is gone", "error", err)
			}
		}
		sleep(ctx, cmp.Or(a.Config.Gone, postgres.GoneAfter)/4)
	}
}

func (a *App) wakeAll(ctx context.Context) error {
	head, err := a.Store.Head(ctx)
	if err != nil {
		return err
	}
	open, err := a.openRuns(ctx, head)
	if err != nil {
		return err
	}
	for _, o := range open {
		a.Runner.Wake(o)
	}
	owed, err := a.owed(ctx, head)
	for _, o := range owed {
		a.Ingest.Wake(o)
	}
	return err
}

// CanMove is a domain.Rejection if this process does not have the model of a run.
func (a *App) CanMove(ctx context.Context, tenant, runID string) error {
	r, err := a.Commands.OpenRun(ctx, tenant, runID)
	if err != nil || r.State.Start == nil || r.State.Over() {
		return err
	}
	if err := a.Commands.Models(r.State.ModelName()); err != nil {
		return domain.Reject(domain.Invalid, "model_not_configured", fmt.Sprintf("its run needs the model %q, which is not configured here", r.State.ModelName()))
	}
	return nil
}

// Take moves a run that was begun by another process, which is gone.
func (a *App) Take(tenant, session, run string) {
	a.Runner.Wake(handlers.OpenRun{Tenant: tenant, Session: session, Run: run})
}

func (a *App) trouble(text string) { a.problem.Store(&text) }

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// openRuns lists the runs of every tenant that were open at a position.
func (a *App) openRuns(ctx context.Context, head event.Position) ([]handlers.OpenRun, error) {
	var out []handlers.OpenRun
	q := projections.Query{Where: []projections.Where{{Field: "open", Op: "=", Value: true}}}
	err := a.everywhere(ctx, head, projections.Runs, q, func(d projections.Document) error {
		var r projections.RunEntry
		if err := json.Unmarshal(d.Body, &r); err != nil {
			return fmt.Errorf("run %s: %w", d.ID, err)
		}
		out = append(out, handlers.OpenRun{Tenant: d.Tenant, Session: r.Session, Run: r.ID})
		return nil
	})
	return out, err
}
