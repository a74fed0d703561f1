package projections

import (
	"slices"
	"strings"
	"time"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// FAQEntry is an FAQ entry that is not deleted.
type FAQEntry struct {
	knowledge.FAQ
	Document  string    `json:"document"`
	Base      string    `json:"base"`
	Chunk     string    `json:"chunk"` // id of its chunk, of the revision that the index has or will have
	Tags      []string  `json:"tags,omitempty"`
	Disabled  bool      `json:"disabled,omitempty"`
	Mode      string    `json:"mode"` // what of it is searched
	Import    string    `json:"import,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// FAQEntries are the FAQ entries of all bases; the id is the document's. Index:
// base, number, asked (the question as it is compared with others, see
// knowledge.SameQuestion), question, similar, answers and text (all of them), in
// lower case and cut, tags (ids, each between spaces), enabled, recommended,
// created_at and updated_at (unix microseconds). AskedCollection has who asks what.
var FAQEntries = Projection{Name: "faq_entries", Version: 2, Filter: event.Filter{Categories: []string{knowledge.Category}}, Fold: foldFAQ}

// AskedCollection has an Asked for every question of an entry, standard or
// similar, under AskedID.
const AskedCollection = "asked"

// Asked are the numbers of the entries that ask one question.
type Asked struct {
	Entries []int64 `json:"entries"`
}

// AskedID names the document of a question in a base, in whatever spelling that
// knowledge.SameQuestion makes the same.
func AskedID(base, question string) string {
	return base + " " + knowledge.Digest(knowledge.SameQuestion(question))
}

// asks records that an entry asks its questions, or no longer does.
func asks(v *View, tenant string, q *FAQEntry, does bool) {
	for _, question := range q.Asked() {
		id := AskedID(q.Base, question)
		a := Get[Asked](v, AskedCollection, tenant, id)
		if a == nil {
			a = &Asked{}
		}
		a.Entries = slices.DeleteFunc(a.Entries, func(n int64) bool { return n == q.ID })
		if does {
			a.Entries = append(a.Entries, q.ID)
		}
		if len(a.Entries) == 0 {
			Remove(v, AskedCollection, tenant, id)
		} else {
			Put(v, AskedCollection, tenant, id, a, nil)
		}
	}
}

// maxEntryText is how much of the texts of an entry can be found, in runes.
const maxEntryText = 4000

func foldFAQ(v *View, f Fact) {
	tenant, id := f.Stream.Tenant, f.Stream.ID
	var q *FAQEntry
	switch e := f.Event.(type) {
	case knowledge.DocumentAdded:
		if e.FAQ == nil {
			return
		}
		q = &FAQEntry{FAQ: *e.FAQ, Document: id, Base: e.Base, Chunk: knowledge.ChunkID(id, 1, 0), Tags: e.Tags, Disabled: e.Disabled, Mode: e.Recipe.FAQ,
			Import: e.Import, CreatedAt: e.At, UpdatedAt: e.At}
		asks(v, tenant, q, true)
	case knowledge.ContentReplaced:
		if q = Get[FAQEntry](v, "", tenant, id); q != nil && e.FAQ != nil {
			asks(v, tenant, q, false)
			q.FAQ, q.Chunk, q.Mode, q.UpdatedAt = *e.FAQ, knowledge.ChunkID(id, e.Revision, 0), e.Recipe.FAQ, e.At
			asks(v, tenant, q, true)
		}
	case knowledge.ReparseRequested:
		if q = Get[FAQEntry](v, "", tenant, id); q != nil {
			q.Chunk, q.Mode = knowledge.ChunkID(id, e.Revision, 0), e.Recipe.FAQ
		}
	case knowledge.DocumentChanged:
		if q = Get[FAQEntry](v, "", tenant, id); q != nil {
			q.Disabled, q.UpdatedAt = e.Disabled, e.At
		}
	case knowledge.DocumentTagged:
		if q = Get[FAQEntry](v, "", tenant, id); q != nil {
			q.Tags, q.UpdatedAt = e.Tags, e.At
		}
	case knowledge.DocumentDeleted:
		if gone := Get[FAQEntry](v, "", tenant, id); gone != nil {
			asks(v, tenant, gone, false)
			Remove(v, "", tenant, id)
		}
	}
	if q == nil {
		return
	}
	small := func(texts ...string) string { return strings.ToLower(cut(strings.Join(texts, "\n"), maxEntryText)) }
	question, similar, answers := small(q.Question), small(q.Similar...), small(q.Answers...)
	Put(v, "", tenant, id, q, map[string]any{"base": q.Base, "number": q.ID, "asked": knowledge.SameQuestion(q.Question), "question": question, "similar": similar,
		"answers": answers, "text": question + "\n" + similar + "\n" + answers, "tags": spaced(q.Tags), "enabled": !q.Disabled, "recommended": q.Recommended,
		"created_at": q.CreatedAt.UnixMicro(), "updated_at": q.UpdatedAt.UnixMicro()})
}

// ImportEntry is an import of FAQ entries.
type ImportEntry struct {
	ID        string          `json:"id"`
	Base      string          `json:"base"`
	Mode      string          `json:"mode"`
	Dry       bool            `json:"dry_run,omitempty"`
	Total     int             `json:"total"`
	Tally     knowledge.Tally `json:"tally"`
	Report    knowledge.Blob  `json:"report,omitzero"`
	Status    string          `json:"status"` // pending, processing, completed, failed
	Code      string          `json:"error_code,omitempty"`
	Error     string          `json:"error,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// Imports are the imports of FAQ entries. Index: base, status, created_at (unix
// microseconds). OwingCollection has those that are not over.
var Imports = Projection{Name: "faq_imports", Version: 1, Filter: event.Filter{Categories: []string{knowledge.ImportCategory}}, Fold: foldImport}

func foldImport(v *View, f Fact) {
	tenant, id := f.Stream.Tenant, f.Stream.ID
	i := Get[ImportEntry](v, "", tenant, id)
	if e, ok := f.Event.(knowledge.ImportRequested); ok && i == nil {
		i = &ImportEntry{ID: id, Base: e.Base, Mode: e.Mode, Dry: e.Dry, Total: e.Total, Status: "pending", CreatedAt: e.At, UpdatedAt: e.At}
	}
	if i == nil {
		return
	}
	switch e := f.Event.(type) {
	case knowledge.ImportStarted:
		i.Status, i.UpdatedAt = "processing", e.At
	case knowledge.ImportProgressed:
		i.Tally, i.UpdatedAt = e.Tally, e.At
	case knowledge.ImportCompleted:
		i.Status, i.Tally, i.Report, i.UpdatedAt = "completed", e.Tally, e.Report, e.At
	case knowledge.ImportFailed:
		i.Status, i.Code, i.Error, i.UpdatedAt = "failed", e.Code, e.Message, e.At
	}
	Put(v, "", tenant, id, i, map[string]any{"base": i.Base, "status": i.Status, "created_at": i.CreatedAt.UnixMicro()})
	owe(v, f, i.Base, i.Status == "pending" || i.Status == "processing")
}
