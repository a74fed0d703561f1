package app

import (
	"context"

	"refold/domain/event"
	"refold/handlers"
	"refold/projections"
)

// untitled lists the sessions that had no title at a position and may be owed
// one: the process that would have made it may have died.
func (a *App) untitled(ctx context.Context, head event.Position) []handlers.Untitled {
	var out []handlers.Untitled
	q := projections.Query{Where: []projections.Where{{Field: "untitled", Op: "=", Value: true}}}
	err := a.everywhere(ctx, head, projections.Sessions, q, func(d projections.Document) error {
		out = append(out, handlers.Untitled{Tenant: d.Tenant, Session: d.ID})
		return nil
	})
	if err == nil {
		return out
	}
	if ctx.Err() == nil {
		a.Config.Log.Error("list the sessions without a title; they get one when their next run completes", "error", err)
	}
	return out
}
