package api

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/projections"
)

// entryJSON is an FAQ entry on the wire.
type entryJSON struct {
	ID          int64          `json:"id"`
	Chunk       string         `json:"chunk_id"`
	Document    string         `json:"knowledge_id"`
	Base        string         `json:"knowledge_base_id"`
	Tag         int64          `json:"tag_id"`
	TagName     string         `json:"tag_name"`
	IsEnabled   bool           `json:"is_enabled"`
	Recommended bool           `json:"is_recommended"`
	Question    string         `json:"standard_question"`
	Similar     []string       `json:"similar_questions"`
	Negative    []string       `json:"negative_questions"`
	Answers     []string       `json:"answers"`
	Strategy    string         `json:"answer_strategy"`
	Mode        string         `json:"index_mode"`
	UpdatedAt   time.Time      `json:"updated_at"`
	CreatedAt   time.Time      `json:"created_at"`
	Score       float64        `json:"score,omitempty"`
	Kind        knowledge.Kind `json:"chunk_type"`
	Matched     string         `json:"matched_question,omitempty"`
}

func wireEntry(q projections.FAQEntry, b projections.BaseEntry) entryJSON {
	out := entryJSON{ID: q.ID, Chunk: q.Chunk, Document: q.Document, Base: q.Base, IsEnabled: !q.Disabled, Recommended: q.Recommended, Question: q.Question,
		Similar: orNone(q.Similar), Negative: orNone(q.Negative), Answers: orNone(q.Answers), Strategy: cmp.Or(q.Strategy, knowledge.AnswerAll), Mode: q.Mode,
		UpdatedAt: q.UpdatedAt, CreatedAt: q.CreatedAt, Kind: knowledge.FAQText}
	for _, t := range b.Tags {
		if slices.Contains(q.Tags, t.ID) {
			out.Tag, out.TagName = t.Number, t.Name
		}
	}
	return out
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// faqBase gives the base in the path, which must be one of entries.
func (a *API) faqBase(r *http.Request) (projections.BaseEntry, error) {
	b, err := a.loadBase(r, chi.URLParam(r, "base"))
	if err == nil && b.Kind != knowledge.KindFAQ {
		err = knowledge.ErrWrongKind
	}
	return b, err
}

// entry gives the number of the entry in the path and the base that has it.
func (a *API) entry(r *http.Request) (int64, projections.BaseEntry, error) {
	n, err := strconv.ParseInt(chi.URLParam(r, "entry"), 10, 64)
	if err != nil {
		return 0, projections.BaseEntry{}, invalid("the id of an FAQ entry is a number")
	}
	b, err := a.faqBase(r)
	if err == nil {
		_, err = a.document(r, knowledge.EntryID(b.ID, n))
	}
	return n, b, err
}

// answerEntry answers with an entry as the lists show it.
func (a *API) answerEntry(w http.ResponseWriter, r *http.Request, number int64, pos event.Position) (int, any, error) {
	positionHeader(w, pos)
	b, err := a.faqBase(r)
	if err == nil {
		err = a.fresh(r, projections.FAQEntries)
	}
	if err != nil {
		return 0, nil, err
	}
	q, err := one[projections.FAQEntry](r.Context(), a, projections.FAQEntries, tenant(r), knowledge.EntryID(b.ID, number))
	if err != nil || q == nil {
		return 0, nil, orElse(err, knowledge.ErrNoDocument)
	}
	return http.StatusOK, ok(wireEntry(*q, b)), nil
}

func (a *API) getEntry(w http.ResponseWriter, r *http.Request) (int, any, error) {
	n, _, err := a.entry(r)
	if err != nil {
		return 0, nil, err
	}
	return a.answerEntry(w, r, n, "")
}

// entryOrders are the orders of lists of entries by their names.
var entryOrders = map[string]projections.Order{
	"": {Field: "updated_at", Desc: true}, "desc": {Field: "updated_at", Desc: true}, "asc": {Field: "updated_at"},
}

// listEntries lists the entries of a base, the newest change first.
func (a *API) listEntries(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	v := r.URL.Query()
	order, known := entryOrders[strings.ToLower(v.Get("sort_order"))]
	if !known {
		return 0, nil, invalid(`sort_order must be "asc" or "desc"`)
	}
	q, page, err := query(r, projections.FAQEntries.ID(), order)
	if err != nil {
		return 0, nil, err
	}
	field := map[string]string{"": "text", "standard_question": "question", "similar_questions": "similar", "answers": "answers"}[v.Get("search_field")]
	keyword := strings.ToLower(strings.TrimSpace(v.Get("keyword")))
	switch {
	case field == "":
		return 0, nil, invalid(`search_field must be "standard_question", "similar_questions" or "answers"`)
	case utf8.RuneCountInString(keyword) > maxKeyword:
		return 0, nil, invalid("keyword has at most " + itoa(maxKeyword) + " characters")
	}
	b, err := a.faqBase(r)
	if err == nil {
		err = a.fresh(r, projections.FAQEntries)
	}
	if err != nil {
		return 0, nil, err
	}
	q.Where = []projections.Where{{Field: "base", Op: "=", Value: b.ID}}
	if keyword != "" {
		q.Where = append(q.Where, projections.Where{Field: field, Op: "contains", Value: keyword})
	}
	p, err := a.taggedDocuments(r, q, tagIDs(b, append(splitList(v.Get("tag_ids")), splitList(v.Get("tag_id"))...)))
	if err != nil {
		return 0, nil, err
	}
	rows, err := documents[projections.FAQEntry](p.Documents)
	if err != nil {
		return 0, nil, err
	}
	out := make([]entryJSON, len(rows))
	for i, e := range rows {
		out[i] = wireEntry(e, b)
	}
	return http.StatusOK, nested(out, page, q.Limit, p.Total), nil
}

// entryBody is an entry as clients send it.
type entryBody struct {
	ID          int64    `json:"id"`
	Question    string   `json:"standard_question"`
	Similar     []string `json:"similar_questions"`
	Negative    []string `json:"negative_questions"`
	Answers     []string `json:"answers"`
	Strategy    string   `json:"answer_strategy"`
	Tag         int64    `json:"tag_id"`
	TagName     string   `json:"tag_name"`
	Enabled     *bool    `json:"is_enabled"`
	Recommended *bool    `json:"is_recommended"`
}

func (b entryBody) faq() knowledge.FAQ {
	return knowledge.FAQ{ID: b.ID, Question: b.Question, Similar: b.Similar, Negative: b.Negative, Answers: b.Answers, Strategy: b.Strategy, Recommended: b.Recommended == nil || *b.Recommended}
}

// maxEntryBody holds the largest entry with every character escaped.
const maxEntryBody = 4 << 20

// Untagged is the tag of entries that are made without one.
const Untagged = "未分类"

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
