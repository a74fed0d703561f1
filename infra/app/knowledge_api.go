package app

import (
	"context"
	"errors"

	"refold/api"
	"refold/domain"
	"refold/domain/tool"
	"refold/handlers/retrieval"
)

// teach connects the API with what reads and finds documents.
func (a *App) teach() {
	a.API.Index, a.API.Types, a.API.MaxUpload = a.DB.Index(), a.parser.Types(), a.Config.MaxUpload
	a.API.Reachable = func(address string) error {
		if err := a.web.Check(address); err != nil {
			return domain.Reject(domain.Invalid, "ssrf_rejected", "the address can't be fetched: "+err.Error()+"; only public ones are")
		}
		return nil
	}
	a.API.Search = a.search
}

// search finds passages for people.
func (a *App) search(ctx context.Context, s api.Search) ([]api.Passage, []string, error) {
	req := retrieval.Request{Tenant: s.Tenant, Scope: s.Scope, Queries: []string{s.Query}, Kinds: s.Kinds, NoKeywords: s.NoKeywords, NoVectors: s.NoVectors,
		Vector: s.Vector, Recommended: s.Recommended,
		Retrieval: tool.Retrieval{TopK: s.Limit, VectorThreshold: orNone(s.VectorThreshold), KeywordThreshold: orNone(s.KeywordThreshold), RerankThreshold: -1}}
	found, err := a.retriever.Search(ctx, req)
	if errors.Is(err, retrieval.ErrNoQuery) {
		return nil, nil, domain.Reject(domain.Invalid, "empty_query", "the query is empty; write what to look for")
	}
	if errors.Is(err, retrieval.ErrWrongVector) {
		return nil, nil, domain.Reject(domain.Invalid, "wrong_vector", "query_embedding has another length than the vectors of this knowledge base; make it with the base's embedding model, or leave it out")
	}
	out := make([]api.Passage, len(found.Hits))
	for i, h := range found.Hits {
		match := api.MatchKeyword
		if h.Match == retrieval.MatchVector {
			match = api.MatchVector
		}
		out[i] = api.Passage{Found: h.Found, Score: h.Score, Match: match, Text: h.Text}
	}
	return out, found.Notes, err
}

// orNone says "no threshold" for 0, which would mean the default.
func orNone(threshold float64) float64 {
	if threshold == 0 {
		return -1
	}
	return threshold
}
