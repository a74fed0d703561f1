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
	if err := in.check(); err != nil {
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
	if err := a.unlike(r, b.ID, f, again); err != nil {
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

// unlike refuses an entry with a question that another entry of the base asks, as
// its standard question or as a similar one.
func (a *API) unlike(r *http.Request, base string, f knowledge.FAQ, but int64) error {
	if err := a.fresh(r, projections.FAQEntries); err != nil {
		return err
	}
	var keys []projections.Key
	for _, q := range f.Asked() {
		keys = append(keys, projections.Key{Collection: projections.FAQEntries.ID() + "." + projections.AskedCollection, Tenant: tenant(r), ID: projections.AskedID(base, q)})
	}
	docs, err := a.Documents.Get(r.Context(), keys...)
	if err != nil {
		return err
	}
	rows, err := documents[projections.Asked](docs)
	if err != nil {
		return err
	}
	for _, asked := range rows {
		for _, n := range asked.Entries {
			if n != but {
				return existingEntry(n)
			}
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
	if err := in.check(); err != nil {
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
	if err := a.unlike(r, b.ID, f, n); err != nil {
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
	if len(in.Similar) == 0 || len(in.Similar) > knowledge.MaxQuestions {
		return 0, nil, invalid("similar_questions is required: a list of 1 to " + itoa(knowledge.MaxQuestions) + " questions")
	}
	if err := boundedList("similar_questions", in.Similar, knowledge.MaxQuestions, knowledge.MaxQuestion); err != nil {
		return 0, nil, err
	}
	n, b, err := a.entry(r)
	if err != nil {
		return 0, nil, err
	}
	if err := a.unlike(r, b.ID, knowledge.FAQ{Similar: in.Similar}, n); err != nil {
		return 0, nil, err
	}
	e, err := a.Commands.ChangeEntry(r.Context(), caller(r), b.ID, n, commands.EntryChange{Similar: in.Similar})
	if err != nil {
		return 0, nil, err
	}
	return a.answerEntry(w, r, n, e.Position)
}
