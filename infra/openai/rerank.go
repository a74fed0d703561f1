package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"refold/domain/tool"
	"refold/handlers"
)

// What a reranker sees, in runes; more is cut.
const (
	maxRerankQuery   = 4000
	maxRerankPassage = 8000
)

// Reranker is a handlers.Reranker over the common /rerank (Jina, Cohere, vLLM,
// and what is like them). Safe for concurrent use.
type Reranker struct {
	client *Client
}

var _ handlers.Reranker = (*Reranker)(nil)

// NewReranker makes a reranker. It sends nothing. The model must be named.
func NewReranker(c Config) (*Reranker, error) {
	client, err := taskClient(c, "rerank", "query", "documents", "top_n")
	if err != nil {
		return nil, err
	}
	return &Reranker{client}, nil
}

// Name implements handlers.Reranker.
func (r *Reranker) Name() string { return r.client.Name() }

// Rerank implements handlers.Reranker. Passages that the server leaves out have
// 0. Scores that are not from 0 to 1 are taken for logits.
func (r *Reranker) Rerank(ctx context.Context, query string, passages []string) ([]float64, error) {
	if len(passages) == 0 {
		return nil, ctx.Err()
	}
	documents := make([]string, len(passages))
	for i, p := range passages {
		documents[i], _ = tool.Truncate(strings.ToValidUTF8(p, "\ufffd"), maxRerankPassage)
	}
	query, _ = tool.Truncate(strings.ToValidUTF8(query, "\ufffd"), maxRerankQuery)
	raw, err := r.client.post(ctx, "rerank", map[string]any{"query": query, "documents": documents, "top_n": len(documents), "return_documents": false})
	if err != nil {
		return nil, err
	}
	scores, err := scoresOf(raw, len(passages))
	if err != nil {
		return nil, r.client.bad("rerank", err.Error(), nil)
	}
	return scores, nil
}

type rerankResult struct {
	Index     *int     `json:"index"`
	Relevance *float64 `json:"relevance_score"`
	Score     *float64 `json:"score"`
}

// scoresOf reads the scores of n passages.
func scoresOf(raw json.RawMessage, n int) ([]float64, error) {
	var answer struct {
		Results []rerankResult `json:"results"`
		Data    []rerankResult `json:"data"`
		Output  struct {
			Results []rerankResult `json:"results"`
		} `json:"output"`
		Scores []*float64 `json:"scores"`
	}
	results := answer.Results
	if raw[0] == '[' {
		if json.Unmarshal(raw, &results) != nil {
			return nil, errors.New("it has another form")
		}
	} else if json.Unmarshal(raw, &answer) != nil {
		return nil, errors.New("it has another form")
	}
	for _, r := range [][]rerankResult{answer.Results, answer.Data, answer.Output.Results} {
		if len(results) == 0 {
			results = r
		}
	}
	if len(results) == 0 && len(answer.Scores) > 0 {
		if len(answer.Scores) != n {
			return nil, fmt.Errorf("it has %d scores for %d passages", len(answer.Scores), n)
		}
		for i, s := range answer.Scores {
			results = append(results, rerankResult{Index: &i, Score: s})
		}
	}
	if len(results) == 0 {
		return nil, errors.New("it has no scores")
	}
	out, seen := make([]float64, n), make([]bool, n)
	logits := false
	for _, r := range results {
		s := r.Relevance
		if s == nil {
			s = r.Score
		}
		switch {
		case r.Index == nil || *r.Index < 0 || *r.Index >= n || seen[*r.Index]:
			return nil, errors.New("its scores do not say which passage they are for")
		case s == nil:
			return nil, errors.New("a score is no number")
		}
		out[*r.Index], seen[*r.Index] = *s, true
		logits = logits || *s < 0 || *s > 1
	}
	for i := range out {
		if logits && seen[i] {
			out[i] = 1 / (1 + math.Exp(-out[i]))
		}
	}
	return out, nil
}
