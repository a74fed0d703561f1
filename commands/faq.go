package commands

import (
	"context"
	"strconv"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/request"
)

// Entry names an FAQ entry: its number, and the document that it is.
type Entry struct {
	Number   int64
	Document string
	Position event.Position
}

// AddEntry is an entry for an FAQ base. A number that is not 0 is the one that it
// gets, unless an entry that was deleted had it; one that is there is refused.
type AddEntry struct {
	knowledge.FAQ
	Tag      string // id or number, "" = none
	Disabled bool
	Import   string
}

// EntryNumber is the number of the entry that an idempotent request adds, unless
// it names one itself.
func EntryNumber(by Caller) int64 {
	return knowledge.NumberOf(request.DerivedID(by.Reservation, "entry") + "0")
}

// AddEntry adds an entry to an FAQ base. It does not look whether there is one
// with the same question: nobody but the read model can tell.
func (c *Commands) AddEntry(ctx context.Context, by Caller, base string, a AddEntry) (Entry, error) {
	b, err := c.Base(ctx, by.Tenant, base)
	if err != nil {
		return Entry{}, err
	}
	if b.Kind() != knowledge.KindFAQ {
		return Entry{}, knowledge.ErrWrongKind
	}
	e := knowledge.DocumentAdded{Base: base, Origin: knowledge.OriginFAQ, Disabled: a.Disabled, Import: a.Import}
	if a.Tag != "" {
		if e.Tags, err = b.TagIDs([]string{a.Tag}); err != nil {
			return Entry{}, err
		}
	}
	if e.Recipe, err = c.recipe(by.Tenant, b, nil); err != nil {
		return Entry{}, err
	}
	seed := c.idFor(by, "entry")
	f := a.FAQ
	e.FAQ = &f
	added, err := c.add(ctx, by, "AddEntry", e, func(n int) string {
		if f.ID = a.ID; f.ID == 0 || n > 0 {
			f.ID = knowledge.NumberOf(seed + strconv.Itoa(n))
		}
		return knowledge.EntryID(base, f.ID)
	}, knowledge.ErrDocumentExists)
	return Entry{Number: f.ID, Document: added.Document, Position: added.Position}, err
}

// EntryChange is what changes about an entry; nil stays as it is.
type EntryChange struct {
	FAQ         *knowledge.FAQ // all of it but its number
	Similar     []string       // are added
	Tag         *string        // id or number, "" = none
	Enabled     *bool
	Recommended *bool
}

// ChangeEntry changes an entry of an FAQ base.
func (c *Commands) ChangeEntry(ctx context.Context, by Caller, base string, number int64, ch EntryChange) (Entry, error) {
	id := knowledge.EntryID(base, number)
	pos, err := c.onDocument(ctx, by, id, "ChangeEntry", func(s knowledge.State) ([]knowledge.Command, error) {
		b, err := c.Base(ctx, by.Tenant, base)
		if err != nil {
			return nil, err
		}
		f := *s.FAQ
		set(&f, ch.FAQ)
		f.Similar = append(f.Similar[:len(f.Similar):len(f.Similar)], ch.Similar...)
		set(&f.Recommended, ch.Recommended)
		recipe, err := c.recipe(by.Tenant, b, nil)
		if err != nil {
			return nil, err
		}
		cmds := []knowledge.Command{knowledge.Replace{ContentReplaced: knowledge.ContentReplaced{FAQ: &f, Recipe: recipe, By: by.Principal, At: c.Now().UTC()}}}
		if ch.Enabled != nil {
			// The title is that of the question, also of a new one.
			cmds = append(cmds, c.change(by, s, DocumentChange{Enabled: ch.Enabled, Title: &f.Question}))
		}
		if ch.Tag != nil {
			var tags []string
			if *ch.Tag != "" {
				tags = []string{*ch.Tag}
			}
			more, err := c.tag(ctx, by, s, tags)
			if err != nil {
				return nil, err
			}
			cmds = append(cmds, more...)
		}
		return cmds, nil
	})
	return Entry{Number: number, Document: id, Position: pos}, err
}

// DeleteEntry deletes an entry of an FAQ base.
func (c *Commands) DeleteEntry(ctx context.Context, by Caller, base string, number int64) (event.Position, error) {
	return c.DeleteDocument(ctx, by, knowledge.EntryID(base, number))
}
