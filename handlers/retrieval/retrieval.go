package retrieval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"refold/domain/knowledge"
	"refold/domain/search"
	"refold/domain/tool"
	"refold/handlers"
)

// Defaults and bounds of a search.
const (
	DefaultTopK      = 5
	MaxTopK          = 50
	MaxQueries       = 5
	VectorThreshold  = 0.6 // cosine
	KeywordThreshold = 0.5 // of the best BM25 of the query
	FAQBoost         = 1.2
	FAQDirect        = 0.9

	recallEach = 5 // times TopK,
	recallMin  = 50
	recallMax  = 500
	fanOut     = 4
	timeout    = 30 * time.Second
	judgedMax  = 60 // passages that a reranker sees

	expandFanOut = 16
	expandShare  = 0.8 // of the threshold and the weight of words, in other ways to ask
	earlierMax   = 3
	earlierShare = 0.6  // of the score that it had
	earlierAlike = 0.15 // Jaccard of its text and a question, at least
)

// How a passage was found.
const (
	MatchVector  = "vector"
	MatchKeyword = "keyword"
	MatchHistory = "history" // by an earlier turn of the conversation
)

// Retriever searches. All but Index may be nil. Safe for concurrent use.
type Retriever struct {
	Index knowledge.Index
	// Embedder gives what turns texts into the vectors of a base, by the name that
	// the base is configured with ("" is the default one); nil if there is none.
	Embedder func(tenant, name string) handlers.Embedder
	// Bases tells how bases are searched; those that it does not give are searched by
	// words, and by the default vectors.
	Bases func(ctx context.Context, tenant string, ids []string) (map[string]Base, error)
	// Reranker gives what judges passages, by name ("" is the default one); nil if
	// there is none.
	Reranker func(tenant, name string) handlers.Reranker
	// Model judges where a reranker failed.
	Model handlers.Model
	// Timeout is 30 s if it is 0.
	Timeout time.Duration
}

// Base says how a base is searched.
type Base struct {
	Embedding       string // configured name, "" = the default one
	Vector, Keyword bool
}

// Request asks for passages.
type Request struct {
	Tenant  string
	Scope   tool.Scope // the zero value finds nothing
	Queries []string   // 1 to MaxQueries: the same need in several wordings, or several needs
	Kinds   []knowledge.Kind
	Tags    []string // documents with any of them; nil = all
	// Retrieval holds the options. What is 0 is the default; a negative threshold is
	// none.
	tool.Retrieval
	// NoKeywords and NoVectors leave one way out, NoRerank the judging of passages.
	NoKeywords, NoVectors, NoRerank bool
	// Vector is that of the one query, nil = it is made. What does not have the length
	// of the vectors in scope is ErrWrongVector.
	Vector []float32
	// Recommended finds FAQ entries that are recommended, and nothing else.
	Recommended bool
	// Plain leaves out what stands around a passage.
	Plain bool
	// Earlier is evidence of earlier turns. Up to three passages of it that share
	// words with a question are results too, if they are still there and in scope.
	// Tags do not narrow it.
	Earlier []tool.Reference
}

// Results are the passages, best first.
type Results struct {
	Hits       []Hit
	Candidates int      // chunks that were looked at
	Notes      []string // what was left out, and why; for people and models
	// Direct is the FAQ entry that answers by itself, if one is so near; it is among
	// Hits.
	Direct *Hit
}

// Hit is a passage.
type Hit struct {
	knowledge.Found
	Score float64 // 0 to 1; of this search only
	Match string  // MatchVector or MatchKeyword, what ranked it higher; or MatchHistory
	Query string  // that found it best
	Text  string  // the content with what stands around it: its larger piece, or its neighbours

	base    float64
	cosine  float64
	keyword float64
	model   float64
}

// ErrNoQuery says that there is nothing to search for.
var ErrNoQuery = errors.New("a search needs 1 to 5 questions")

// ErrWrongVector says that the given vector does not fit those in scope.
var ErrWrongVector = errors.New("the vector of the query has another length than those of what is searched")

// Search finds passages. Models that fail are a note; errors are those of the
// index, the context's, ErrNoQuery and ErrWrongVector.
func (r *Retriever) Search(ctx context.Context, req Request) (Results, error) {
	if err := req.plain(); err != nil {
		return Results{}, err
	}
	if req.Scope.Empty() {
		return Results{Notes: []string{"nothing is in scope"}}, ctx.Err()
	}
	limit := r.Timeout
	if limit <= 0 {
		limit = timeout
	}
	bound, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s := &searching{r: r, req: req}
	hits, err := s.recall(bound)
	if err != nil {
		if ctx.Err() == nil && bound.Err() != nil {
			err = fmt.Errorf("the search took more than %s; ask for less, or in a narrower scope: %w", limit, err)
		}
		return Results{}, err
	}
	out := Results{Candidates: len(hits)}
	hits = s.distinct(hits)
	hits = s.judge(bound, hits)
	hits = s.choose(hits)
	if hits, err = s.earlier(bound, hits); err != nil {
		return Results{}, err
	}
	if !req.Plain {
		if err := s.surround(bound, hits); err != nil {
			return Results{}, err
		}
	}
	out.Hits, out.Notes = hits, s.notes
	if i := s.direct(hits); i >= 0 {
		out.Direct = &out.Hits[i]
	}
	return out, ctx.Err()
}

// plain fills in the defaults.
func (req *Request) plain() error {
	var queries []string
	for _, q := range req.Queries {
		if q = strings.TrimSpace(q); q != "" && !slices.Contains(queries, q) {
			queries = append(queries, q)
		}
	}
	if len(queries) == 0 || len(queries) > MaxQueries {
		return ErrNoQuery
	}
	req.Queries = queries
	if req.TopK <= 0 {
		req.TopK = DefaultTopK
	}
	req.TopK = min(req.TopK, MaxTopK)
	if req.RerankTopK > 0 {
		req.TopK = min(req.TopK, req.RerankTopK)
	}
	if req.VectorThreshold == 0 {
		req.VectorThreshold = VectorThreshold
	}
	if req.KeywordThreshold == 0 {
		req.KeywordThreshold = KeywordThreshold
	}
	if req.FAQBoost <= 0 {
		req.FAQBoost = 1
		if req.FAQPriority {
			req.FAQBoost = FAQBoost
		}
	}
	if req.FAQDirect <= 0 {
		req.FAQDirect = FAQDirect
	}
	return nil
}

// searching is one search on its way.
type searching struct {
	r     *Retriever
	req   Request
	notes []string
}

func (s *searching) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(s.notes, n) {
		s.notes = append(s.notes, n)
	}
}

// distinct leaves out what says the same as something better: by id, larger
// piece, place and content.
func (s *searching) distinct(hits []Hit) []Hit {
	return search.Distinct(hits, func(h Hit) []string {
		keys := []string{"id:" + h.ID, fmt.Sprintf("place:%s:%s#%d", h.Entry.Base, h.Entry.Document, h.Index)}
		if h.Parent != "" {
			keys = append(keys, "parent:"+h.Parent)
		}
		if sig := search.Signature(h.Content); utf8.RuneCountInString(sig) >= 8 {
			keys = append(keys, "text:"+sig)
		}
		return keys
	})
}

// choose takes the best that do not say the same.
func (s *searching) choose(hits []Hit) []Hit {
	for i := range hits {
		h := &hits[i]
		if h.FAQ != nil {
			h.Score = search.Clamp(h.Score * s.req.FAQBoost)
		}
	}
	search.Sort(hits, func(h Hit) float64 { return h.Score })
	hits = hits[:min(len(hits), judgedMax)]
	sets := make([]search.Set, len(hits))
	var kept []Hit
	for _, h := range hits {
		set, again := search.SetOf(h.Content), false
		for _, k := range sets[:len(kept)] {
			// Short texts overlap by chance.
			again = again || len(set) >= 12 && set.Overlap(k) >= search.SameText
		}
		if !again {
			sets[len(kept)] = set
			kept = append(kept, h)
		}
	}
	relevance := make([]float64, len(kept))
	for i, h := range kept {
		relevance[i] = h.Score
	}
	out := make([]Hit, 0, s.req.TopK)
	for _, i := range search.MMR(relevance, sets[:len(kept)], s.req.TopK) {
		out = append(out, kept[i])
	}
	// Chosen for being different, shown by how good they are.
	search.Sort(out, func(h Hit) float64 { return h.Score })
	return out
}

// direct gives the place of the FAQ entry that answers by itself, -1 if none does:
// one of its questions is asked, or its vector is as near as it must be.
func (s *searching) direct(hits []Hit) int {
	best, near := -1, 0.0
	for i, h := range hits {
		if h.FAQ == nil {
			continue
		}
		d := h.cosine
		for _, q := range s.req.Queries {
			if asks(h.FAQ, q) {
				d = 1
			}
		}
		if d >= s.req.FAQDirect && d > near {
			best, near = i, d
		}
	}
	return best
}

func asks(f *knowledge.FAQ, query string) bool {
	same := func(q string) bool { return knowledge.SameQuestion(q) == knowledge.SameQuestion(query) }
	return same(f.Question) || slices.ContainsFunc(f.Similar, same)
}

// forbids tells whether an entry must not answer a query.
func forbids(f *knowledge.FAQ, query string) bool {
	terms := search.SetOf(query)
	return slices.ContainsFunc(f.Negative, func(n string) bool {
		return knowledge.SameQuestion(n) == knowledge.SameQuestion(query) || terms.Jaccard(search.SetOf(n)) >= 0.9
	})
}
