package app

import (
	"context"
	"errors"
	"fmt"

	"refold/domain/event"
	"refold/handlers"
	"refold/projections"
)

// errMoved says that the view of references was built anew while it was asked.
var errMoved = errors.New("the view of references is being built; what is unused is found out later")

// references answers what content is in use.
type references struct {
	store     event.Store
	documents projections.Documents
	engine    *projections.Engine
	// reach brings the view up to a position.
	reach func(ctx context.Context, head event.Position) error
}

// InUse is handlers.Collector.InUse. It asks one copy of the view, and is content
// only if that copy held everything before and after: it may be taken away
// meanwhile, in favour of another.
func (r references) InUse(ctx context.Context, contents []handlers.Content) ([]bool, error) {
	head, err := r.store.Head(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.reach(ctx, head); err != nil {
		return nil, err
	}
	view, err := r.engine.Resolve(ctx, projections.References)
	if err != nil {
		return nil, err
	}
	whole := func() error {
		at, err := r.documents.Checkpoint(ctx, view.ID())
		if err == nil && at < head {
			err = errMoved
		}
		return err
	}
	if err := whole(); err != nil {
		return nil, err
	}
	out := make([]bool, len(contents))
	for i, c := range contents {
		if out[i], err = projections.InUse(ctx, r.documents, view, c.Tenant, c.Digest); err != nil {
			return nil, err
		}
	}
	return out, whole()
}

// collector removes unused content while the process serves.
func (a *App) collector() *handlers.Collector {
	r := references{store: a.Store, documents: a.DB.Documents(), engine: a.Engine, reach: func(ctx context.Context, head event.Position) error {
		return a.Engine.Await(ctx, projections.References, head)
	}}
	return &handlers.Collector{Contents: a.DB.Contents(), InUse: r.InUse, Clock: a.Config.Clock, Log: a.Config.Log,
		Grace: a.Config.CollectGrace, Every: a.Config.CollectEvery}
}

// Clean removes unused content of a database that this process has open, once.
// With count it only says what it would remove.
func Clean(ctx context.Context, c Config, db Database, count bool) (handlers.Collected, error) {
	engine := &projections.Engine{Store: db.Events(), Documents: db.Documents(), Log: c.Log, List: projections.All()}
	r := references{store: db.Events(), documents: db.Documents(), engine: engine, reach: func(ctx context.Context, _ event.Position) error {
		if err := engine.CatchUp(ctx, projections.References); err != nil {
			return fmt.Errorf("bring the view of references up to date: %w", err)
		}
		return nil
	}}
	collector := &handlers.Collector{Contents: db.Contents(), InUse: r.InUse, Clock: handlers.SystemClock{}, Log: c.Log, Grace: c.CollectGrace}
	return collector.Once(ctx, count)
}
