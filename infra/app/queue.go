package app

import (
	"context"

	"refold/api"
	"refold/domain/event"
	"refold/projections"
)

// takeQueues looks after messages that were waiting when the process began: the
// run that they waited for may have ended while nobody was there.
func (a *App) takeQueues(ctx context.Context, head event.Position) {
	if err := a.Engine.Await(ctx, projections.Sessions, head); err != nil {
		if ctx.Err() == nil {
			a.Config.Log.Error("queued messages are taken when the next run of their session ends", "error", err)
		}
		return
	}
	cursor := ""
	for {
		page, err := a.DB.Documents().Find(ctx, projections.Query{Collection: projections.Sessions.ID(), Tenant: api.DefaultTenant,
			Where: []projections.Where{{Field: "queued", Op: "=", Value: true}}, Limit: 1000, Cursor: cursor})
		if err != nil {
			if ctx.Err() == nil {
				a.Config.Log.Error("list the sessions with queued messages", "error", err)
			}
			return
		}
		for _, d := range page.Documents {
			a.Runner.TakeQueued(ctx, d.Tenant, d.ID)
		}
		if cursor = page.Next; cursor == "" {
			return
		}
	}
}
