package commands

import (
	"context"
	"errors"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// ImportEntries is a list of entries for an FAQ base, stored already as JSON of
// []knowledge.ImportRow.
type ImportEntries struct {
	Task  string // id of the import, "" = a fresh one
	Base  string
	Mode  string // append or replace
	Rows  knowledge.Blob
	Total int
	Dry   bool
}

// ImportEntries asks for an import, which is done in the background, and gives its
// id.
func (c *Commands) ImportEntries(ctx context.Context, by Caller, im ImportEntries) (string, event.Position, error) {
	b, err := c.Base(ctx, by.Tenant, im.Base)
	if err != nil {
		return "", "", err
	}
	if b.Kind() != knowledge.KindFAQ {
		return "", "", knowledge.ErrWrongKind
	}
	id := im.Task
	if id == "" {
		id = c.idFor(by, "import")
	}
	pos, err := c.onImport(ctx, by, id, im.Base, "ImportEntries", knowledge.RequestImport{ImportRequested: knowledge.ImportRequested{Import: id, Base: im.Base, Mode: im.Mode,
		Rows: im.Rows, Total: im.Total, Dry: im.Dry, By: by.Principal, At: c.Now().UTC()}})
	return id, pos, err
}

// Import gives an import; knowledge.ErrNoImport if there is none.
func (c *Commands) Import(ctx context.Context, tenant, id string) (knowledge.Import, error) {
	var i knowledge.Import
	recs, err := c.Imports.Load(ctx, tenant, id, 0)
	for _, rec := range recs {
		i = knowledge.EvolveImport(i, rec.Event)
	}
	if err == nil && i.Requested == nil {
		err = knowledge.ErrNoImport
	}
	return i, err
}

// ClaimImport claims an import; knowledge.ErrNotDue if it is done, or somebody
// else's.
func (c *Commands) ClaimImport(ctx context.Context, by Caller, id string, claim knowledge.ClaimImport) error {
	_, err := c.onImport(ctx, by, id, "", "ClaimImport", claim)
	return err
}

// RecordImport reports about an import that the process has claimed.
func (c *Commands) RecordImport(ctx context.Context, by Caller, id string, r knowledge.RecordImport) error {
	_, err := c.onImport(ctx, by, id, "", "RecordImport", r)
	return err
}

func (c *Commands) onImport(ctx context.Context, by Caller, id, base, command string, cmd knowledge.ImportCommand) (event.Position, error) {
	for try := 1; ; try++ {
		recs, err := c.Imports.Load(ctx, by.Tenant, id, 0)
		if err != nil {
			return "", err
		}
		if pos, done := executed(recs, by, command); done {
			return pos, nil
		}
		var i knowledge.Import
		for _, rec := range recs {
			i = knowledge.EvolveImport(i, rec.Event)
		}
		if i.Requested != nil {
			base = i.Requested.Base
		}
		events, err := knowledge.DecideImport(i, cmd)
		if err != nil || len(events) == 0 {
			return "", err
		}
		recs, err = c.Imports.Append(ctx, by.Tenant, id, event.Exactly(int64(len(recs))), c.envelope(by, base, command), facts(c.NewID, events)...)
		if errors.Is(err, event.ErrConflict) && try < maxTries {
			continue
		}
		if err != nil {
			return "", err
		}
		return recs[len(recs)-1].Position, nil
	}
}
