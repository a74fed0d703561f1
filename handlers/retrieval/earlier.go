package retrieval

import (
	"context"
	"fmt"
	"slices"

	"refold/domain/search"
	"refold/domain/tool"
)

// earlier adds what an earlier turn was answered from and what this search has
// not found again: passages that share words with a question, as they are now.
// What was changed, deleted, taken out of sight, or is not in scope any more, is
// not among them.
func (s *searching) earlier(ctx context.Context, hits []Hit) ([]Hit, error) {
	if len(s.req.Earlier) == 0 {
		return hits, nil
	}
	var queries []search.Set
	for _, q := range s.req.Queries {
		queries = append(queries, search.SetOf(q))
	}
	alike := func(text string) bool {
		set := search.SetOf(text)
		return slices.ContainsFunc(queries, func(q search.Set) bool { return q.Jaccard(set) >= earlierAlike })
	}
	refs := slices.DeleteFunc(slices.Clone(s.req.Earlier), func(r tool.Reference) bool {
		return !s.req.Scope.Holds(r.Base, r.Document) || !alike(r.Content)
	})
	search.Sort(refs, func(r tool.Reference) float64 { return r.Score })
	refs = refs[:min(len(refs), judgedMax)]
	ids := make([]string, len(refs))
	scores := map[string]float64{}
	for i, r := range refs {
		ids[i] = r.ID
		scores[r.ID] = max(scores[r.ID], earlierShare*search.Clamp(r.Score))
	}
	if len(ids) == 0 {
		return hits, nil
	}
	found, err := s.r.Index.Chunks(ctx, s.req.Tenant, ids...)
	if err != nil {
		return nil, fmt.Errorf("read the evidence of earlier turns: %w", err)
	}
	var more []Hit
	for _, f := range found {
		forbidden := f.FAQ != nil && slices.ContainsFunc(s.req.Queries, func(q string) bool { return forbids(f.FAQ, q) })
		if s.req.Recommended && (f.FAQ == nil || !f.FAQ.Recommended) {
			continue
		}
		if f.Chunk.Disabled || f.Entry.Disabled || forbidden || !s.query().Wants(f.Kind) || !s.req.Scope.Holds(f.Entry.Base, f.Entry.Document) {
			continue
		}
		more = append(more, Hit{Found: f, Score: scores[f.ID], Match: MatchHistory, Query: s.req.Queries[0]})
	}
	search.Sort(more, func(h Hit) float64 { return h.Score })
	all := s.distinct(append(slices.Clip(hits), more...)) // what was found now comes first
	all = all[:min(len(all), len(hits)+earlierMax)]
	search.Sort(all, func(h Hit) float64 { return h.Score })
	return all, nil
}
