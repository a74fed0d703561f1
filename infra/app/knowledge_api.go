package app

import (
	"context"

	"refold/api"
	"refold/domain"
	"refold/domain/knowledge"
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

// search finds passages by words.
func (a *App) search(ctx context.Context, s api.Search) ([]api.Passage, error) {
	if s.NoKeywords {
		return nil, nil
	}
	hits, err := a.DB.Index().Keyword(ctx, knowledge.Query{Tenant: s.Tenant, Scope: s.Scope, Text: s.Query, Kinds: s.Kinds, Limit: s.Limit})
	out := make([]api.Passage, len(hits))
	for i, h := range hits {
		out[i] = api.Passage{Found: h.Found, Score: h.Score, Match: api.MatchKeyword}
	}
	return out, err
}
