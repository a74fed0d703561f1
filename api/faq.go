package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

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
	n, err := entryNumber(chi.URLParam(r, "entry"))
	if err != nil {
		return 0, projections.BaseEntry{}, err
	}
	b, err := a.faqBase(r)
	if err == nil {
		_, err = a.document(r, knowledge.EntryID(b.ID, n))
	}
	return n, b, err
}

// besideEntries refuses other methods of the routes that stand where the number of
// an entry would.
func (a *API) besideEntries(next http.HandlerFunc) http.HandlerFunc {
	allowed := map[string]string{"fields": http.MethodPut, "tags": http.MethodPut, "export": http.MethodGet}
	return func(w http.ResponseWriter, r *http.Request) {
		if method := allowed[chi.URLParam(r, "entry")]; method != "" {
			notAllowed(w, r, method)
			return
		}
		next(w, r)
	}
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
	if field == "" {
		return 0, nil, invalid(`search_field must be "standard_question", "similar_questions" or "answers"`)
	}
	if err := bounded(bound{"keyword", v.Get("keyword"), maxKeyword}); err != nil {
		return 0, nil, err
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

// check refuses what is too long, or no number of an entry.
func (b entryBody) check() error {
	if b.ID < 0 || b.ID > maxExact || b.Tag < 0 || b.Tag > maxExact {
		return invalid("id and tag_id are numbers from 0 to " + itoa(maxExact))
	}
	err := bounded(bound{"standard_question", b.Question, knowledge.MaxQuestion}, bound{"tag_name", b.TagName, knowledge.MaxTagName})
	if err == nil {
		err = boundedList("similar_questions", b.Similar, knowledge.MaxQuestions, knowledge.MaxQuestion)
	}
	if err == nil {
		err = boundedList("negative_questions", b.Negative, knowledge.MaxQuestions, knowledge.MaxQuestion)
	}
	if err == nil {
		err = boundedList("answers", b.Answers, knowledge.MaxAnswers, knowledge.MaxAnswer)
	}
	return err
}

// maxEntryBody holds the largest entry with every character escaped.
const maxEntryBody = 4 << 20

// Untagged is the tag of entries that are made without one.
const Untagged = "未分类"
