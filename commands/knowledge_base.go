package commands

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// NewBase is what a base is made of.
type NewBase struct {
	Name        string
	Kind        string // "" = document
	Description string
	Settings    knowledge.Settings
}

// CreateBase makes a knowledge base and gives its id.
func (c *Commands) CreateBase(ctx context.Context, by Caller, n NewBase) (string, event.Position, error) {
	id := c.idFor(by, "knowledge_base")
	rec, err := c.onBase(ctx, by, id, "CreateBase", func(knowledge.Base) (knowledge.BaseCommand, error) {
		return knowledge.CreateBase{BaseCreated: knowledge.BaseCreated{Base: id, Name: n.Name, Kind: n.Kind, Description: n.Description,
			Settings: n.Settings, By: by.Principal, At: c.Now().UTC()}}, nil
	})
	return id, rec.Position, err
}

// BaseChange is what changes about a base; nil stays as it is. Of Other, the
// settings that are named are replaced.
type BaseChange struct {
	Name        *string
	Description *string
	Chunking    *knowledge.Chunking
	Strategy    *knowledge.Strategy
	FAQ         *knowledge.FAQMode
	Embedding   *string
	Other       map[string]json.RawMessage
}

// ChangeBase changes a base. What is in it stays as it is until it is read again.
func (c *Commands) ChangeBase(ctx context.Context, by Caller, id string, ch BaseChange) (event.Position, error) {
	rec, err := c.onBase(ctx, by, id, "ChangeBase", func(b knowledge.Base) (knowledge.BaseCommand, error) {
		e := knowledge.BaseChanged{Name: b.Name, Description: b.Description, Settings: b.Settings, By: by.Principal, At: c.Now().UTC()}
		set(&e.Name, ch.Name)
		set(&e.Description, ch.Description)
		set(&e.Settings.Chunking, ch.Chunking)
		set(&e.Settings.Strategy, ch.Strategy)
		set(&e.Settings.Embedding, ch.Embedding)
		if ch.FAQ != nil {
			e.Settings.FAQ = ch.FAQ
		}
		if len(ch.Other) > 0 {
			e.Settings.Other = maps.Clone(b.Settings.Other)
			if e.Settings.Other == nil {
				e.Settings.Other = map[string]json.RawMessage{}
			}
			for name, raw := range ch.Other {
				if string(raw) != "null" {
					e.Settings.Other[name] = raw
				}
			}
		}
		return knowledge.ChangeBase{BaseChanged: e}, nil
	})
	return rec.Position, err
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// PinBase turns the caller's pin of a base on or off, and tells which.
func (c *Commands) PinBase(ctx context.Context, by Caller, id string) (bool, event.Position, error) {
	rec, err := c.onBase(ctx, by, id, "PinBase", func(knowledge.Base) (knowledge.BaseCommand, error) {
		return knowledge.PinBase{By: by.Principal, Now: c.Now().UTC()}, nil
	})
	_, on := rec.Event.(knowledge.BasePinned)
	return on, rec.Position, err
}

// DeleteBase hides a base and what is in it; the documents are deleted in the
// background (handlers.Ingest).
func (c *Commands) DeleteBase(ctx context.Context, by Caller, id string) (event.Position, error) {
	rec, err := c.onBase(ctx, by, id, "DeleteBase", func(knowledge.Base) (knowledge.BaseCommand, error) {
		return knowledge.DeleteBase{BaseDeleted: knowledge.BaseDeleted{By: by.Principal, At: c.Now().UTC()}}, nil
	})
	return rec.Position, err
}

// RecordEmptied reports that a deleted base holds nothing any more; again, that it
// held something since it was reported before.
func (c *Commands) RecordEmptied(ctx context.Context, by Caller, id string, documents int, again bool) error {
	_, err := c.onBase(ctx, by, id, "RecordEmptied", func(knowledge.Base) (knowledge.BaseCommand, error) {
		return knowledge.RecordEmptied{BaseEmptied: knowledge.BaseEmptied{Documents: documents, At: c.Now().UTC()}, Again: again}, nil
	})
	return err
}

// CreateTag adds a tag to a base.
func (c *Commands) CreateTag(ctx context.Context, by Caller, base, name, color string, order int) (knowledge.Tag, event.Position, error) {
	return c.createTag(ctx, by, base, "CreateTag", knowledge.TagCreated{Tag: c.idFor(by, "tag"), Name: name, Color: color, Order: order, At: c.Now().UTC()})
}

func (c *Commands) createTag(ctx context.Context, by Caller, base, command string, e knowledge.TagCreated) (knowledge.Tag, event.Position, error) {
	rec, err := c.onBase(ctx, by, base, command, func(knowledge.Base) (knowledge.BaseCommand, error) {
		return knowledge.CreateTag{TagCreated: e}, nil
	})
	if err != nil {
		return knowledge.Tag{}, "", err
	}
	t, _ := knowledge.EvolveBase(knowledge.Base{}, rec.Event).Tag(e.Tag)
	return t, rec.Position, nil
}

// EnsureTag gives the tag of a base with a name, which is made if there is none.
func (c *Commands) EnsureTag(ctx context.Context, by Caller, base, name string) (knowledge.Tag, event.Position, error) {
	for try := 1; ; try++ {
		b, err := c.Base(ctx, by.Tenant, base)
		if err != nil {
			return knowledge.Tag{}, "", err
		}
		if t, ok := b.TagNamed(name); ok {
			return t, "", nil
		}
		id := c.idFor(by, "tag "+name)
		t, pos, err := c.createTag(ctx, by, base, "EnsureTag "+id, knowledge.TagCreated{Tag: id, Name: name, At: c.Now().UTC()})
		if errors.Is(err, knowledge.ErrTagExists) && try < maxTries {
			continue
		}
		return t, pos, err
	}
}

// TagChange is what changes about a tag; nil stays as it is.
type TagChange struct {
	Name  *string
	Color *string
	Order *int
}

// ChangeTag changes a tag, which is named by its id or number.
func (c *Commands) ChangeTag(ctx context.Context, by Caller, base, tag string, ch TagChange) (event.Position, error) {
	rec, err := c.onBase(ctx, by, base, "ChangeTag", func(b knowledge.Base) (knowledge.BaseCommand, error) {
		t, ok := b.Tag(tag)
		if !ok {
			return nil, knowledge.ErrNoTag
		}
		e := knowledge.TagChanged{Tag: t.ID, Name: t.Name, Color: t.Color, Order: t.Order, At: c.Now().UTC()}
		set(&e.Name, ch.Name)
		set(&e.Color, ch.Color)
		set(&e.Order, ch.Order)
		return knowledge.ChangeTag{TagChanged: e}, nil
	})
	return rec.Position, err
}

// DeleteTag takes a tag away, which is named by its id or number. The documents
// that carried it stay.
func (c *Commands) DeleteTag(ctx context.Context, by Caller, base, tag string) (event.Position, error) {
	rec, err := c.onBase(ctx, by, base, "DeleteTag", func(knowledge.Base) (knowledge.BaseCommand, error) {
		return knowledge.DeleteTag{TagDeleted: knowledge.TagDeleted{Tag: tag, At: c.Now().UTC()}}, nil
	})
	return rec.Position, err
}

// Base gives the state of a live base; knowledge.ErrNoBase otherwise.
func (c *Commands) Base(ctx context.Context, tenant, id string) (knowledge.Base, error) {
	b, _, err := c.LookBase(ctx, tenant, id)
	if err == nil && !b.Live() {
		err = knowledge.ErrNoBase
	}
	return b, err
}

// LookBase folds a base, also one that is deleted or does not exist, and gives its
// version.
func (c *Commands) LookBase(ctx context.Context, tenant, id string) (knowledge.Base, int64, error) {
	var b knowledge.Base
	recs, err := c.Bases.Load(ctx, tenant, id, 0)
	for _, rec := range recs {
		b = knowledge.EvolveBase(b, rec.Event)
	}
	return b, int64(len(recs)), err
}

// onBase loads, decides and appends, again after a lost race, and gives the fact
// that followed, now or when the same request was first made; none if nothing is
// new.
func (c *Commands) onBase(ctx context.Context, by Caller, id, command string, ask func(knowledge.Base) (knowledge.BaseCommand, error)) (event.Recorded[knowledge.BaseEvent], error) {
	var none event.Recorded[knowledge.BaseEvent]
	for try := 1; ; try++ {
		recs, err := c.Bases.Load(ctx, by.Tenant, id, 0)
		if err != nil {
			return none, err
		}
		var b knowledge.Base
		for _, rec := range recs {
			if by.Reservation != "" && rec.Meta.Causation == by.Reservation && rec.Meta.Command == command {
				return rec, nil
			}
			b = knowledge.EvolveBase(b, rec.Event)
		}
		version := int64(len(recs))
		if b.Live() {
			if err := by.holdsAt(version); err != nil {
				return none, err
			}
		}
		cmd, err := ask(b)
		if err != nil {
			return none, err
		}
		events, err := knowledge.DecideBase(b, cmd)
		if err != nil || len(events) == 0 {
			return none, err
		}
		recs, err = c.Bases.Append(ctx, by.Tenant, id, event.Exactly(version), c.envelope(by, id, command), facts(c.NewID, events)...)
		if errors.Is(err, event.ErrConflict) && try < maxTries {
			continue
		}
		if err != nil {
			return none, err
		}
		return recs[len(recs)-1], nil
	}
}
