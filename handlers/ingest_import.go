package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"refold/commands"
	"refold/domain"
	"refold/domain/knowledge"
)

// importStep is how many rows are done between two reports.
const importStep = 100

// importTime is how long a process may hold an import.
const importTime = time.Hour

// batch is an import that this process has claimed.
type batch struct {
	stage  // for its blobs
	id     string
	i      knowledge.Import
	rows   []knowledge.ImportRow
	held   map[string]int64 // entries by question
	before map[int64]bool   // that a replacement deletes
	tags   map[string]string
	notes  []knowledge.ImportNote // since the last report
}

// moveImport does an import, row by row. What a row becomes follows from the
// import and its place, so a row that is done again changes nothing.
func (g *Ingest) moveImport(ctx context.Context, j *job) (time.Time, error) {
	tenant, id := j.owed.Stream.Tenant, j.owed.Stream.ID
	i, err := g.Commands.Import(ctx, tenant, id)
	if err != nil || i.Over() {
		return time.Time{}, err
	}
	m := g.moment()
	if i.Claim != nil && i.Claim.Owner != g.Self && !i.Due(m) {
		return i.Claim.Deadline, nil
	}
	by := g.by(tenant)
	if i.Claim == nil || i.Claim.Owner != g.Self {
		err := g.Commands.ClaimImport(ctx, by, id, knowledge.ClaimImport{Moment: m, Deadline: m.Now.Add(importTime)})
		if errors.Is(err, knowledge.ErrNotDue) {
			return m.Now.Add(importTime), nil
		}
		if err != nil {
			return time.Time{}, err
		}
		if i, err = g.Commands.Import(ctx, tenant, id); err != nil {
			return time.Time{}, err
		}
	}
	b := &batch{stage: stage{g: g, tenant: tenant, log: g.log(j.owed)}, id: id, i: i, tags: map[string]string{}}
	end, err := b.run(ctx)
	if err != nil {
		refusal, refused := domain.AsRejection(err)
		switch {
		case errors.Is(err, errHandBack):
			back := knowledge.ImportProgressed{Tally: b.i.Tally, Released: true, At: b.now()}
			if back.Notes, err = b.noted(ctx); err != nil {
				return time.Time{}, err
			}
			end = back
		case refused:
			end = knowledge.ImportFailed{Code: refusal.Code, Message: refusal.Message, At: b.now()}
		case errors.Is(err, ErrNoBlob):
			end = knowledge.ImportFailed{Code: "content_missing", Message: "the entries are not there any more; import them again", At: b.now()}
		default:
			return time.Time{}, err
		}
	}
	return time.Time{}, g.Commands.RecordImport(ctx, by, id, knowledge.RecordImport{Owner: g.Self, Event: end})
}

func (b *batch) run(ctx context.Context) (knowledge.ImportEvent, error) {
	if b.i.Attempts > knowledge.MaxClaims {
		return knowledge.ImportFailed{Code: knowledge.CodeLost, Message: "every process that worked on it died", At: b.now()}, nil
	}
	if err := b.getJSON(ctx, b.i.Requested.Rows, &b.rows); err != nil {
		return nil, err
	}
	if err := b.look(ctx); err != nil {
		return nil, err
	}
	for b.i.Tally.Done < len(b.rows) {
		if b.g.isEnding() {
			return nil, errHandBack
		}
		row := b.i.Tally.Done
		note := b.row(ctx, row, b.rows[row])
		if note.err != nil {
			return nil, note.err
		}
		b.notes = append(b.notes, note.ImportNote)
		t := &b.i.Tally
		t.Done++
		*map[string]*int{"added": &t.Added, "merged": &t.Merged, "skipped": &t.Skipped, "failed": &t.Failed}[note.Outcome]++
		if len(b.notes) == importStep {
			if err := b.report(ctx, knowledge.Blob{}); err != nil {
				return nil, err
			}
		}
	}
	if err := b.replace(ctx); err != nil {
		return nil, err
	}
	done := knowledge.ImportCompleted{Tally: b.i.Tally, At: b.now()}
	var err error
	done.Report, err = b.all(ctx)
	return done, err
}

// look finds what the base holds before the first row.
func (b *batch) look(ctx context.Context) error {
	head, err := b.g.Store.Head(ctx)
	if err != nil {
		return err
	}
	b.held, b.before = map[string]int64{}, map[int64]bool{}
	replacing := b.i.Requested.Mode == knowledge.ImportReplace
	if replacing && b.i.Before.Digest != "" {
		var numbers []int64
		if err := b.getJSON(ctx, b.i.Before, &numbers); err != nil {
			return err
		}
		for _, n := range numbers {
			b.before[n] = true
		}
	}
	begun := b.i.Before.Digest != ""
	var numbers []int64
	err = b.g.Holdings.Entries(ctx, b.tenant, b.i.Requested.Base, head, func(e HeldEntry) error {
		if replacing && !begun {
			b.before[e.Number] = true
			numbers = append(numbers, e.Number)
		}
		if !b.before[e.Number] {
			b.held[knowledge.SameQuestion(e.Question)] = e.Number
		}
		return nil
	})
	for _, r := range b.rows { // those stay, as the rows say
		delete(b.before, r.Number)
	}
	if err != nil || !replacing || begun {
		return err
	}
	before, err := b.putJSON(ctx, append([]int64{}, numbers...))
	if err != nil {
		return err
	}
	return b.report(ctx, before)
}

// report records how far it is.
func (b *batch) report(ctx context.Context, before knowledge.Blob) error {
	e := knowledge.ImportProgressed{Tally: b.i.Tally, Before: before, At: b.now()}
	var err error
	if e.Notes, err = b.noted(ctx); err != nil {
		return err
	}
	if err := b.g.Commands.RecordImport(ctx, b.g.by(b.tenant), b.id, knowledge.RecordImport{Owner: b.g.Self, Event: e}); err != nil {
		return err
	}
	b.i = knowledge.EvolveImport(b.i, e)
	b.notes = nil
	return nil
}

// noted stores the notes since the last report.
func (b *batch) noted(ctx context.Context) (knowledge.Blob, error) {
	if len(b.notes) == 0 {
		return knowledge.Blob{}, nil
	}
	return b.putJSON(ctx, b.notes)
}

// all joins the notes.
func (b *batch) all(ctx context.Context) (knowledge.Blob, error) {
	var all []knowledge.ImportNote
	for _, blob := range b.i.Notes {
		var some []knowledge.ImportNote
		if err := b.getJSON(ctx, blob, &some); err != nil {
			return knowledge.Blob{}, err
		}
		all = append(all, some...)
	}
	return b.putJSON(ctx, append(all, b.notes...))
}

type rowNote struct {
	knowledge.ImportNote
	err error // of a store: the row is done again
}

// row does one row.
func (b *batch) row(ctx context.Context, place int, r knowledge.ImportRow) rowNote {
	note := rowNote{ImportNote: knowledge.ImportNote{Row: place, Question: line(r.Question), Outcome: "added"}}
	f := r.FAQ()
	err := f.Check()
	if err == nil {
		err = b.write(ctx, &note, place, r, f)
	}
	if refusal, refused := domain.AsRejection(err); refused {
		note.Outcome, note.Reason = "failed", refusal.Message
	} else {
		note.err = err
	}
	return note
}

func (b *batch) write(ctx context.Context, note *rowNote, place int, r knowledge.ImportRow, f knowledge.FAQ) error {
	by, base := b.g.by(b.tenant), b.i.Requested.Base
	own := knowledge.NumberOf(knowledge.DerivedID("import", b.id, fmt.Sprint(place)))
	question := knowledge.SameQuestion(f.Question)
	number, known := b.held[question]
	if r.Number != 0 {
		if d, err := b.g.Commands.OpenDocument(ctx, b.tenant, knowledge.EntryID(base, r.Number)); err != nil {
			return err
		} else if d.State.Live() {
			number, known = r.Number, true
		}
	}
	if known && number != own {
		return b.merge(ctx, note, number, r, f)
	}
	if f.ID == 0 {
		f.ID = own
	}
	note.Number = f.ID
	if b.i.Requested.Dry {
		b.held[question] = f.ID
		return nil
	}
	tag, err := b.tag(ctx, cmp.Or(r.Tag, r.Otherwise))
	if err != nil {
		return err
	}
	added, err := b.g.Commands.AddEntry(ctx, by, base, commands.AddEntry{FAQ: f, Tag: tag, Disabled: r.Disabled, Import: b.id})
	if errors.Is(err, knowledge.ErrDocumentExists) {
		err = nil // this row, before a crash
	}
	if added.Number != 0 {
		note.Number = added.Number
	}
	b.held[question] = note.Number
	return err
}

// merge adds what a row has to the entry that is there.
func (b *batch) merge(ctx context.Context, note *rowNote, number int64, r knowledge.ImportRow, f knowledge.FAQ) error {
	base := b.i.Requested.Base
	note.Number, note.Outcome = number, "merged"
	if b.i.Requested.Dry {
		return nil
	}
	d, err := b.g.Commands.Document(ctx, b.tenant, knowledge.EntryID(base, number))
	if err != nil {
		return err
	}
	merged := d.State.FAQ.Merge(f)
	if r.Number == number { // it names this entry
		merged = f
	}
	ch := commands.EntryChange{FAQ: &merged}
	if r.Tag != "" {
		tag, err := b.tag(ctx, r.Tag)
		if err != nil {
			return err
		}
		ch.Tag = &tag
	}
	done, err := b.g.Commands.ChangeEntry(ctx, b.g.by(b.tenant), base, number, ch)
	if err == nil && done.Position == "" {
		note.Outcome = "skipped"
	}
	return err
}

// tag gives the id of a tag by its name.
func (b *batch) tag(ctx context.Context, name string) (string, error) {
	if name = line(name); name == "" {
		return "", nil
	}
	if id, ok := b.tags[name]; ok {
		return id, nil
	}
	t, _, err := b.g.Commands.EnsureTag(ctx, b.g.by(b.tenant), b.i.Requested.Base, name)
	if err == nil {
		b.tags[name] = t.ID
	}
	return t.ID, err
}

// replace deletes what was there before.
func (b *batch) replace(ctx context.Context) error {
	if b.i.Requested.Mode != knowledge.ImportReplace {
		return nil
	}
	b.i.Tally.Deleted = len(b.before)
	if b.i.Requested.Dry {
		return nil
	}
	for number := range b.before {
		if b.g.isEnding() {
			return errHandBack
		}
		_, err := b.g.Commands.DeleteEntry(ctx, b.g.by(b.tenant), b.i.Requested.Base, number)
		if err != nil && !errors.Is(err, knowledge.ErrNoDocument) {
			return err
		}
	}
	return nil
}
