package handlers

import (
	"context"
	"errors"
	"time"

	"refold/domain/knowledge"
)

// emptyBase deletes what a deleted base holds, and makes the index forget it. Cut
// short, it is done again from the start: what is deleted is not there to be
// listed. So is what was added while the base was deleted, and came late (see
// projections.Bases).
func (g *Ingest) emptyBase(ctx context.Context, j *job) (time.Time, error) {
	tenant, base := j.owed.Stream.Tenant, j.owed.Stream.ID
	b, version, err := g.Commands.LookBase(ctx, tenant, base)
	g.known(j, version)
	if err != nil || !b.Deleted {
		return time.Time{}, err
	}
	head, err := g.Store.Head(ctx)
	if err != nil {
		return time.Time{}, err
	}
	deleted := 0
	err = g.Holdings.Documents(ctx, tenant, base, head, func(id string) error {
		if g.isEnding() {
			return errHandBack
		}
		_, err := g.Commands.DeleteDocument(ctx, g.by(tenant), id)
		if errors.Is(err, knowledge.ErrNoDocument) {
			return nil
		}
		deleted++
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	if err := g.Index.RemoveBase(ctx, tenant, base); err != nil {
		return time.Time{}, err
	}
	return time.Time{}, g.Commands.RecordEmptied(ctx, g.by(tenant), base, deleted, b.Emptied)
}
