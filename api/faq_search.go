package api

import (
	"net/http"
	"slices"

	"refold/domain/knowledge"
	"refold/domain/search"
	"refold/domain/tool"
	"refold/projections"
)

// searchEntries finds entries by what people ask. Entries with a preferred tag come
// first.
func (a *API) searchEntries(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var in struct {
		Query       string  `json:"query_text"`
		Threshold   float64 `json:"vector_threshold"`
		Count       int     `json:"match_count"`
		First       []int64 `json:"first_priority_tag_ids"`
		Second      []int64 `json:"second_priority_tag_ids"`
		Recommended bool    `json:"only_recommended"`
	}
	if err := decode(w, r, maxBody, &in); err != nil {
		return 0, nil, err
	}
	for name, tags := range map[string][]int64{"first_priority_tag_ids": in.First, "second_priority_tag_ids": in.Second} {
		if err := boundedNumbers(name, tags, maxScope); err != nil {
			return 0, nil, err
		}
	}
	b, err := a.faqBase(r)
	if err != nil {
		return 0, nil, err
	}
	if in.Count <= 0 {
		in.Count = 10
	}
	in.Count = min(in.Count, MaxPassages)
	// More than are shown: some are left out, and preferred ones move up.
	found, notes, err := a.find(r, &Search{Scope: tool.Scope{Targets: []tool.Target{{Base: b.ID}}}, Query: in.Query, Kinds: []knowledge.Kind{knowledge.FAQText},
		Limit: 2 * in.Count, VectorThreshold: in.Threshold, Recommended: in.Recommended})
	if err == nil {
		err = a.fresh(r, projections.FAQEntries)
	}
	if err != nil {
		return 0, nil, err
	}
	out := []entryJSON{}
	for _, p := range found {
		q, err := one[projections.FAQEntry](r.Context(), a, projections.FAQEntries, tenant(r), p.Entry.Document)
		if err != nil {
			return 0, nil, err
		}
		if q == nil || q.Disabled || in.Recommended && !q.Recommended {
			continue
		}
		row := wireEntry(*q, b)
		row.Score, row.Matched = p.Score, closest(in.Query, *q)
		out = append(out, row)
	}
	rank := func(e entryJSON) int {
		switch {
		case slices.Contains(in.First, e.Tag):
			return 0
		case slices.Contains(in.Second, e.Tag):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(out, func(x, y entryJSON) int { return rank(x) - rank(y) })
	return http.StatusOK, annotated(out[:min(in.Count, len(out))], notes), nil
}

// closest is the question of an entry that has most words of the query.
func closest(query string, q projections.FAQEntry) string {
	asked := search.Terms(query)
	best, most := q.Question, -1
	for _, question := range append([]string{q.Question}, q.Similar...) {
		terms, n := search.Terms(question), 0
		for _, t := range asked {
			if slices.Contains(terms, t) {
				n++
			}
		}
		if n > most {
			best, most = question, n
		}
	}
	return best
}
