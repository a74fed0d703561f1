package app

import (
	"context"

	"refold/domain/event"
	"refold/projections"
)

// takeQueues looks after messages that were waiting when the process began: the
// run that they waited for may have ended while nobody was there.
func (a *App) takeQueues(ctx context.Context, head event.Position) {
	q := projections.Query{Where: []projections.Where{{Field: "queued", Op: "=", Value: true}}}
	err := a.everywhere(ctx, head, projections.Sessions, q, func(d projections.Document) error {
		a.Runner.TakeQueued(ctx, d.Tenant, d.ID)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		a.Config.Log.Error("queued messages are taken when the next run of their session ends", "error", err)
	}
}
