package api

import (
	"math"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"refold/domain"
)

// resourceURLs checks how a client wants resources in texts to be named.
func resourceURLs(r *http.Request) error {
	switch v := r.URL.Query().Get("resource_urls"); v {
	case "", "handle", "public": // texts hold no handles, so all are the same
		return nil
	default:
		return invalid(`resource_urls must be "handle" or "public"`)
	}
}

// searchResults is how many passages POST /knowledge-search gives.
const searchResults = 10

// searchKnowledge finds passages in what the request names.
func (a *API) searchKnowledge(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct {
		Query     string    `json:"query"`
		Base      string    `json:"knowledge_base_id"`
		Bases     []string  `json:"knowledge_base_ids"`
		Documents []string  `json:"knowledge_ids"`
		Tags      []string  `json:"tag_ids"`
		Mentions  []mention `json:"mentioned_items"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		return 0, nil, err
	}
	if err := resourceURLs(r); err != nil {
		return 0, nil, err
	}
	if b.Base != "" && !slices.Contains(b.Bases, b.Base) {
		b.Bases = append(b.Bases, b.Base)
	}
	for _, m := range b.Mentions {
		switch m.Type {
		case "kb":
			if !slices.Contains(b.Bases, m.ID) {
				b.Bases = append(b.Bases, m.ID)
			}
		case "file":
			b.Documents = append(b.Documents, m.ID)
		}
	}
	if len(b.Bases)+len(b.Documents) == 0 {
		return 0, nil, domain.Reject(domain.Invalid, "no_scope", "name what to search: knowledge_base_ids, knowledge_base_id or knowledge_ids")
	}
	scope, err := a.sourcesOf(r, b.Bases, b.Documents, b.Tags)
	if err != nil {
		return 0, nil, err
	}
	out, err := a.searched(r, Search{Scope: scope, Query: b.Query, Limit: searchResults})
	return http.StatusOK, out, err
}

// hybridSearch finds passages in one base, or in some together.
func (a *API) hybridSearch(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct {
		Query     string     `json:"query_text"`
		Vector    []*float64 `json:"query_embedding"`
		ByVector  float64    `json:"vector_threshold"`
		ByWord    float64    `json:"keyword_threshold"`
		Count     int        `json:"match_count"`
		NoWords   bool       `json:"disable_keywords_match"`
		NoVectors bool       `json:"disable_vector_match"`
		Bases     []string   `json:"knowledge_base_ids"`
		Documents []string   `json:"knowledge_ids"`
		Tags      []string   `json:"tag_ids"`
		MoreTags  []string   `json:"scope_tag_ids"`

		OnlyRecommended bool `json:"only_recommended"`
	}
	if err := decode(w, r, maxBody, &b); err != nil {
		return 0, nil, err
	}
	switch {
	case b.Count > MaxPassages:
		return 0, nil, invalid("match_count is at most " + itoa(MaxPassages) + "; 0 and less is 50")
	case b.NoWords && b.NoVectors:
		return 0, nil, invalid("disable_keywords_match and disable_vector_match together leave nothing to search by")
	case len(b.Vector) > maxDimensions:
		return 0, nil, invalid("query_embedding has at most " + itoa(maxDimensions) + " numbers")
	case b.Count <= 0:
		b.Count = 50
	}
	bases := []string{chi.URLParam(r, "base")}
	for _, id := range b.Bases {
		if !slices.Contains(bases, id) {
			bases = append(bases, id)
		}
	}
	vector, err := vectorOf(b.Vector)
	if err != nil {
		return 0, nil, err
	}
	scope, err := a.sourcesOf(r, bases, b.Documents, append(b.Tags, b.MoreTags...))
	if err != nil {
		return 0, nil, err
	}
	s := Search{Scope: scope, Query: b.Query, Vector: vector, Limit: b.Count, VectorThreshold: b.ByVector, KeywordThreshold: b.ByWord, NoKeywords: b.NoWords, NoVectors: b.NoVectors, Recommended: b.OnlyRecommended}
	out, err := a.searched(r, s)
	return http.StatusOK, out, err
}

// Bounds of a vector that a client sends.
const (
	maxDimensions = 8192
	maxComponent  = 1e6
)

// vectorOf reads a vector; nil is none.
func vectorOf(numbers []*float64) ([]float32, error) {
	var out []float32
	for _, n := range numbers {
		if n == nil || math.Abs(*n) > maxComponent {
			return nil, invalid("query_embedding holds numbers from " + itoa(-maxComponent) + " to " + itoa(maxComponent))
		}
		out = append(out, float32(*n))
	}
	return out, nil
}
