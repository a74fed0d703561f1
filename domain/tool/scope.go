package tool

import "slices"

// Scope is what a run may see of the tenant's knowledge: the union of its
// targets. It is fixed when the run starts, and every id that a model supplies
// must lie in it. The zero value is nothing: a tool that gets it finds nothing.
type Scope struct {
	Targets []Target `json:"targets,omitempty"`
}

// Target is a knowledge base, or some of its documents. A tag in a request has
// become the documents that carried it, so that a narrower scope never widens.
type Target struct {
	Base       string   `json:"base"`
	Restricted bool     `json:"restricted,omitempty"` // to Documents; none of them = nothing
	Documents  []string `json:"documents,omitempty"`
}

// Empty tells whether nothing is in reach.
func (s Scope) Empty() bool {
	return !slices.ContainsFunc(s.Targets, func(t Target) bool { return !t.Restricted || len(t.Documents) > 0 })
}

// Holds tells whether a document of a base is in reach.
func (s Scope) Holds(base, document string) bool {
	return slices.ContainsFunc(s.Targets, func(t Target) bool {
		return t.Base == base && (!t.Restricted || slices.Contains(t.Documents, document))
	})
}

// HoldsBase tells whether anything of a base is in reach.
func (s Scope) HoldsBase(base string) bool {
	return slices.ContainsFunc(s.Targets, func(t Target) bool {
		return t.Base == base && (!t.Restricted || len(t.Documents) > 0)
	})
}

// Bases are the bases that anything is in reach of, each once, in order.
func (s Scope) Bases() []string {
	var out []string
	for _, t := range s.Targets {
		if !slices.Contains(out, t.Base) && s.HoldsBase(t.Base) {
			out = append(out, t.Base)
		}
	}
	return out
}

// Within narrows the scope to some of its bases; those outside it are left out.
func (s Scope) Within(bases ...string) Scope {
	var out Scope
	for _, t := range s.Targets {
		if slices.Contains(bases, t.Base) {
			out.Targets = append(out.Targets, t)
		}
	}
	return out
}

// Retrieval is how a run searches its scope. Zero fields are the defaults of
// whoever searches.
type Retrieval struct {
	TopK             int     `json:"top_k,omitempty"`        // results of a search
	RerankTopK       int     `json:"rerank_top_k,omitempty"` // of them, after reranking
	VectorThreshold  float64 `json:"vector_threshold,omitempty"`
	KeywordThreshold float64 `json:"keyword_threshold,omitempty"`
	RerankThreshold  float64 `json:"rerank_threshold,omitempty"`
	Pinned           bool    `json:"pinned,omitempty"`       // a person chose the documents: something is always kept
	FAQPriority      bool    `json:"faq_priority,omitempty"` // FAQ entries come first,
	FAQBoost         float64 `json:"faq_boost,omitempty"`    // by this factor,
	FAQDirect        float64 `json:"faq_direct,omitempty"`   // and answer by themselves from this score on
	Expand           bool    `json:"expand,omitempty"`       // ask in other words too
	WebResults       int     `json:"web_results,omitempty"`  // of a web search
	WebProvider      string  `json:"web_provider,omitempty"` // "" = the default one
	RerankModel      string  `json:"rerank_model,omitempty"` // "" = the default one, if any
}
