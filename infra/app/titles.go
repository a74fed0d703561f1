package app

import (
	"context"

	"refold/api"
	"refold/domain/event"
	"refold/handlers"
	"refold/projections"
)

// untitled lists the sessions that had no title at a position and may be owed
// one: the process that would have made it may have died.
func (a *App) untitled(ctx context.Context, head event.Position) []handlers.Untitled {
	var out []handlers.Untitled
	err := a.Engine.Await(ctx, projections.Sessions, head)
	q := projections.Query{Collection: projections.Sessions.ID(), Tenant: api.DefaultTenant,
		Where: []projections.Where{{Field: "untitled", Op: "=", Value: true}}, Limit: 1000}
	for err == nil {
		var page projections.Page
		if page, err = a.DB.Documents().Find(ctx, q); err != nil {
			break
		}
		for _, d := range page.Documents {
			out = append(out, handlers.Untitled{Tenant: d.Tenant, Session: d.ID})
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return out
		}
	}
	if ctx.Err() == nil {
		a.Config.Log.Error("list the sessions without a title; they get one when their next run completes", "error", err)
	}
	return out
}
