package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"refold/commands"
	"refold/domain/knowledge"
	"refold/projections"
)

// maxEntries bounds how many entries one request changes.
const maxEntries = 1000

// fieldsBody is what changes about entries. A tag 0 is none.
type fieldsBody struct {
	Enabled     *bool  `json:"is_enabled"`
	Recommended *bool  `json:"is_recommended"`
	Tag         *int64 `json:"tag_id"`
}

func (f fieldsBody) change() commands.EntryChange {
	ch := commands.EntryChange{Enabled: f.Enabled, Recommended: f.Recommended}
	if f.Tag != nil {
		tag := ""
		if *f.Tag != 0 {
			tag = itoa64(*f.Tag)
		}
		ch.Tag = &tag
	}
	return ch
}

// entryNumber reads the number of an entry out of a path or the name of a member.
func entryNumber(name string) (int64, error) {
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || n <= 0 || len(name) > 16 || itoa64(n) != name {
		return 0, invalid("the id of an FAQ entry is a number, not " + quote(name))
	}
	return n, nil
}

// changeEntries changes entries by number, in order. That an unknown one is among
// them is found out before anything is done.
func (a *API) changeEntries(r *http.Request, b projections.BaseEntry, changes map[int64]commands.EntryChange) error {
	if len(changes) > maxEntries {
		return invalid("at most " + itoa(maxEntries) + " entries are changed at once")
	}
	for n, ch := range changes {
		if ch.Tag != nil && *ch.Tag != "" {
			if _, found := tagOf(b, *ch.Tag); !found {
				return knowledge.ErrNoTag
			}
		}
		if _, err := a.document(r, knowledge.EntryID(b.ID, n)); err != nil {
			return err
		}
	}
	for n, ch := range changes {
		if _, err := a.Commands.ChangeEntry(r.Context(), caller(r), b.ID, n, ch); err != nil {
			return err
		}
	}
	return nil
}

// changeFields changes fields of entries that are named by number, or by a tag.
func (a *API) changeFields(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in struct {
		ByID    map[string]fieldsBody `json:"by_id"`
		ByTag   map[string]fieldsBody `json:"by_tag"`
		Exclude []int64               `json:"exclude_ids"`
	}
	err := decode(w, r, maxBody, &in)
	if err == nil {
		err = boundedNumbers("exclude_ids", in.Exclude, maxEntries)
	}
	if err != nil {
		return 0, nil, err
	}
	b, err := a.faqBase(r)
	if err != nil {
		return 0, nil, err
	}
	if len(in.ByID)+len(in.ByTag) == 0 {
		return 0, nil, invalid("by_id or by_tag is required: what changes about which entries")
	}
	changes := map[int64]commands.EntryChange{}
	for tag, f := range in.ByTag {
		rows, err := a.entriesOf(r, b, tag)
		if err != nil {
			return 0, nil, err
		}
		for _, n := range rows {
			if !slices.Contains(in.Exclude, n) {
				changes[n] = f.change()
			}
		}
	}
	for id, f := range in.ByID {
		n, err := entryNumber(id)
		if err != nil {
			return 0, nil, err
		}
		changes[n] = f.change()
	}
	return http.StatusOK, body{"success": true}, a.changeEntries(r, b, changes)
}

// entriesOf gives the numbers of the entries that carry a tag.
func (a *API) entriesOf(r *http.Request, b projections.BaseEntry, tag string) ([]int64, error) {
	ids := tagIDs(b, []string{tag})
	if len(ids) == 0 {
		return nil, knowledge.ErrNoTag
	}
	if err := a.fresh(r, projections.FAQEntries); err != nil {
		return nil, err
	}
	var out []int64
	q := projections.Query{Collection: projections.FAQEntries.ID(), Tenant: tenant(r), Where: []projections.Where{{Field: "base", Op: "=", Value: b.ID}, carries(ids[0])}}
	return out, a.walk(r, q, func(d projections.Document) error {
		rows, err := documents[projections.FAQEntry]([]projections.Document{d})
		if err == nil {
			out = append(out, rows[0].ID)
		}
		return err
	})
}

// tagEntries gives entries another tag; null takes it away.
func (a *API) tagEntries(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in struct {
		Updates map[string]*int64 `json:"updates"`
	}
	if err := decode(w, r, maxBody, &in); err != nil {
		return 0, nil, err
	}
	b, err := a.faqBase(r)
	if err != nil {
		return 0, nil, err
	}
	if len(in.Updates) == 0 {
		return 0, nil, invalid("updates is required: the tag of each entry")
	}
	changes := map[int64]commands.EntryChange{}
	for id, tag := range in.Updates {
		n, err := entryNumber(id)
		if err != nil {
			return 0, nil, err
		}
		if tag == nil {
			tag = new(int64)
		}
		changes[n] = fieldsBody{Tag: tag}.change()
	}
	return http.StatusOK, body{"success": true}, a.changeEntries(r, b, changes)
}

// deleteEntries deletes entries; those that are not there are no error.
func (a *API) deleteEntries(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in struct {
		IDs []int64 `json:"ids"`
	}
	if err := decode(w, r, maxBody, &in); err != nil {
		return 0, nil, err
	}
	if len(in.IDs) == 0 {
		return 0, nil, invalid("ids is required: the numbers of entries")
	}
	if err := boundedNumbers("ids", in.IDs, maxEntries); err != nil {
		return 0, nil, err
	}
	b, err := a.faqBase(r)
	if err != nil {
		return 0, nil, err
	}
	for _, n := range in.IDs {
		if _, err := a.Commands.DeleteEntry(r.Context(), caller(r), b.ID, n); err != nil && !errors.Is(err, knowledge.ErrNoDocument) {
			return 0, nil, err
		}
	}
	return http.StatusOK, body{"success": true}, nil
}
