package api

import (
	"net/http"
	"strings"

	"refold/commands"
	"refold/domain/knowledge"
	"refold/projections"
)

// tagFor gives the id of the tag that an entry names, by number or name, which is
// made if the base does not have it; "" if it names none and other is "".
func (a *API) tagFor(r *http.Request, base string, b entryBody, other string) (string, error) {
	if b.Tag != 0 {
		return itoa64(b.Tag), nil
	}
	name := strings.TrimSpace(b.TagName)
	if name == "" {
		name = other
	}
	if name == "" {
		return "", nil
	}
	by := caller(r)
	by.Versions = nil
	t, _, err := a.Commands.EnsureTag(r.Context(), by, base, name)
	return t.ID, err
}

func (a *API) createEntry(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in entryBody
	if err := decode(w, r, maxEntryBody, &in); err != nil {
		return 0, nil, err
	}
	b, err := a.faqBase(r)
	if err != nil {
		return 0, nil, err
	}
	f := in.faq()
	if err := f.Check(); err != nil {
		return 0, nil, err
	}
	again := in.ID
	if by := caller(r); again == 0 && by.Reservation != "" { // the entry that this very request has made before
		again = commands.EntryNumber(by)
	}
	if err := a.unlike(r, b.ID, f.Question, again); err != nil {
		return 0, nil, err
	}
	tag, err := a.tagFor(r, b.ID, in, Untagged)
	if err != nil {
		return 0, nil, err
	}
	e, err := a.Commands.AddEntry(r.Context(), caller(r), b.ID, commands.AddEntry{FAQ: f, Tag: tag, Disabled: in.Enabled != nil && !*in.Enabled})
	if err != nil {
		return 0, nil, err
	}
	return a.answerEntry(w, r, e.Number, e.Position)
}

// unlike refuses a question that another entry of the base has.
func (a *API) unlike(r *http.Request, base, question string, but int64) error {
	if err := a.fresh(r, projections.FAQEntries); err != nil {
		return err
	}
	p, err := a.Documents.Find(r.Context(), projections.Query{Collection: projections.FAQEntries.ID(), Tenant: tenant(r), Limit: 2,
		Where: []projections.Where{{Field: "base", Op: "=", Value: base}, {Field: "asked", Op: "=", Value: knowledge.SameQuestion(question)}}})
	if err != nil {
		return err
	}
	rows, err := documents[projections.FAQEntry](p.Documents)
	if err != nil {
		return err
	}
	for _, q := range rows {
		if q.ID != but {
			return existingEntry(q.ID)
		}
	}
	return nil
}

func existingEntry(number int64) error {
	return knowledge.ErrDuplicateEntry.With(map[string]any{"id": number})
}

func (a *API) updateEntry(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in entryBody
	if err := decode(w, r, maxEntryBody, &in); err != nil {
		return 0, nil, err
	}
	n, b, err := a.entry(r)
	if err != nil {
		return 0, nil, err
	}
	f := in.faq()
	f.ID = n
	if err := f.Check(); err != nil {
		return 0, nil, err
	}
	if err := a.unlike(r, b.ID, f.Question, n); err != nil {
		return 0, nil, err
	}
	tag, err := a.tagFor(r, b.ID, in, "")
	if err != nil {
		return 0, nil, err
	}
	if in.Recommended == nil { // it stays as it is
		d, err := a.document(r, knowledge.EntryID(b.ID, n))
		if err != nil {
			return 0, nil, err
		}
		f.Recommended = d.State.FAQ.Recommended
	}
	e, err := a.Commands.ChangeEntry(r.Context(), caller(r), b.ID, n, commands.EntryChange{FAQ: &f, Tag: &tag, Enabled: in.Enabled})
	if err != nil {
		return 0, nil, err
	}
	return a.answerEntry(w, r, n, e.Position)
}

// addSimilar adds other ways to ask the question of an entry.
func (a *API) addSimilar(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in struct {
		Similar []string `json:"similar_questions"`
	}
	if err := decode(w, r, maxBody, &in); err != nil {
		return 0, nil, err
	}
	if len(in.Similar) == 0 {
		return 0, nil, invalid("similar_questions is required: a list of questions")
	}
	n, b, err := a.entry(r)
	if err != nil {
		return 0, nil, err
	}
	e, err := a.Commands.ChangeEntry(r.Context(), caller(r), b.ID, n, commands.EntryChange{Similar: in.Similar})
	if err != nil {
		return 0, nil, err
	}
	return a.answerEntry(w, r, n, e.Position)
}
