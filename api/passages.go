package api

import (
	"net/http"
	"slices"
	"unicode/utf8"

	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/projections"
)

// Search is a search for passages of documents. Whoever serves it ranks what
// words and vectors find together.
type Search struct {
	Tenant string
	Scope  tool.Scope // the zero value finds nothing
	Query  string
	Vector []float32        // of the query, nil = it is made if there is a model; refused if its length is wrong
	Kinds  []knowledge.Kind // nil = all that are searched
	Limit  int              // 1 to MaxPassages
	// What is below a threshold is left out; 0 = nothing is. The unit of
	// VectorThreshold is the cosine.
	VectorThreshold, KeywordThreshold float64
	NoKeywords, NoVectors             bool
	Recommended                       bool // only FAQ entries that are recommended
}

// MaxPassages is how many passages a search gives at most.
const MaxPassages = 200

// How a passage was found.
const (
	MatchVector  = 0
	MatchKeyword = 1
)

// Passage is a chunk that was found. Larger scores are better.
type Passage struct {
	knowledge.Found
	Score float64
	Match int    // MatchVector or MatchKeyword
	Text  string // what stands around it, "" = its content
}

// passageJSON is a passage on the wire.
type passageJSON struct {
	ID          string            `json:"id"`
	Content     string            `json:"content"`
	Document    string            `json:"knowledge_id"`
	Index       int               `json:"chunk_index"`
	Title       string            `json:"knowledge_title"`
	Start       int               `json:"start_at"`
	End         int               `json:"end_at"`
	Seq         int               `json:"seq"`
	Score       float64           `json:"score"`
	Match       int               `json:"match_type"`
	Sub         []string          `json:"sub_chunk_id"`
	Metadata    map[string]string `json:"metadata"`
	Kind        knowledge.Kind    `json:"chunk_type"`
	Parent      string            `json:"parent_chunk_id"`
	Image       string            `json:"image_info"`
	FileName    string            `json:"knowledge_filename"`
	Source      string            `json:"knowledge_source"`
	Channel     string            `json:"knowledge_channel"`
	Matched     string            `json:"matched_content,omitempty"`
	Description string            `json:"knowledge_description,omitempty"`
	Base        string            `json:"knowledge_base_id,omitempty"`
}

// searched does a search and answers with what it finds of documents that are still
// there, and with notes, if there are any.
func (a *API) searched(r *http.Request, s Search) (body, error) {
	found, notes, err := a.find(r, &s)
	if err != nil {
		return nil, err
	}
	if err := a.fresh(r, projections.Library); err != nil {
		return nil, err
	}
	docs := map[string]*projections.DocumentEntry{}
	out := []passageJSON{}
	for _, p := range found {
		id := p.Entry.Document
		if _, known := docs[id]; !known {
			if docs[id], err = one[projections.DocumentEntry](r.Context(), a, projections.Library, tenant(r), id); err != nil {
				return nil, err
			}
		}
		d := docs[id]
		if d == nil || d.Disabled {
			continue
		}
		row := passageJSON{ID: p.Chunk.ID, Content: p.Content, Document: id, Index: p.Index, Title: d.Title, Start: p.Start, End: p.End, Seq: len(out), Score: p.Score,
			Match: p.Match, Sub: []string{}, Kind: p.Kind, Parent: p.Parent, FileName: d.FileName, Source: d.URL, Channel: d.Channel, Description: d.Description, Base: d.Base}
		if p.Text != "" && p.Text != p.Content {
			row.Content, row.Matched = p.Text, p.Content
		}
		out = append(out, row)
	}
	return annotated(out, notes), nil
}

// annotated is an answer with notes beside its data, if there are any.
func annotated(data any, notes []string) body {
	b := ok(data)
	if len(notes) > 0 {
		b["notes"] = notes
	}
	return b
}

// find checks a search and does it.
func (a *API) find(r *http.Request, s *Search) ([]Passage, []string, error) {
	s.Tenant = tenant(r)
	switch {
	case blank(s.Query):
		return nil, nil, invalid("the query is empty")
	case utf8.RuneCountInString(s.Query) > knowledge.MaxQuery:
		return nil, nil, invalid("the query has more than " + itoa(knowledge.MaxQuery) + " characters")
	case s.Scope.Empty():
		return nil, nil, nil
	}
	s.Limit = min(max(s.Limit, 1), MaxPassages)
	return a.Search(r.Context(), *s)
}

// maxScope bounds how many bases and documents a search names.
const maxScope = 100

// sourcesOf says what a request may search in: bases, documents, and of the only
// base that is named the documents that carry one of the tags. What the tenant
// does not have is refused.
func (a *API) sourcesOf(r *http.Request, bases, documents, tags []string) (tool.Scope, error) {
	var out tool.Scope
	if len(bases)+len(documents)+len(tags) > maxScope {
		return out, invalid("at most " + itoa(maxScope) + " knowledge bases, documents and tags are searched at once")
	}
	for _, id := range bases {
		if id == "" || !isID(id) {
			return out, knowledge.ErrNoBase
		}
		if _, err := a.Commands.Base(r.Context(), tenant(r), id); err != nil {
			return out, err
		}
	}
	within := map[string][]string{}
	for _, id := range documents {
		d, err := a.document(r, id)
		if err != nil {
			return out, err
		}
		within[d.State.Base()] = append(within[d.State.Base()], id)
	}
	if len(tags) > 0 {
		if len(bases) != 1 {
			return out, invalid("tag_ids belong to one knowledge base: name exactly one")
		}
		tagged, err := a.carriers(r, bases[0], tags)
		if err != nil {
			return out, err
		}
		if len(documents) > 0 { // both narrow it
			tagged = slices.DeleteFunc(tagged, func(id string) bool { return !slices.Contains(within[bases[0]], id) })
		}
		return tool.Scope{Targets: []tool.Target{{Base: bases[0], Restricted: true, Documents: tagged}}}, nil
	}
	for _, id := range bases {
		if len(within[id]) == 0 {
			out.Targets = append(out.Targets, tool.Target{Base: id})
		}
	}
	for base, ids := range within {
		out.Targets = append(out.Targets, tool.Target{Base: base, Restricted: true, Documents: ids})
	}
	return out, nil
}

// maxCarriers bounds how many documents tags may stand for.
const maxCarriers = 10_000

// carriers gives the documents of a base that carry one of the tags.
func (a *API) carriers(r *http.Request, base string, tags []string) ([]string, error) {
	b, err := a.loadBase(r, base)
	if err != nil {
		return nil, err
	}
	ids := tagIDs(b, tags)
	if len(ids) < len(tags) {
		return nil, knowledge.ErrNoTag
	}
	if err := a.fresh(r, projections.Library); err != nil {
		return nil, err
	}
	out := []string{}
	for _, tag := range ids {
		q := projections.Query{Collection: projections.Library.ID(), Tenant: tenant(r), Where: []projections.Where{{Field: "base", Op: "=", Value: base}, carries(tag)}}
		err := a.walk(r, q, func(d projections.Document) error {
			if out = append(out, d.ID); len(out) > maxCarriers {
				return invalid("more than " + itoa(maxCarriers) + " documents carry these tags; search the whole knowledge base")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
