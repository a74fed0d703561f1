package api

import (
	"net/http"
	"unicode/utf8"

	"refold/domain/chunk"
	"refold/domain/knowledge"
)

const (
	maxPreview       = 65536 // runes
	maxPreviewBody   = 1 << 20
	maxPreviewPieces = 500
)

// pieceJSON is a piece of a text that is cut to be looked at.
type pieceJSON struct {
	Seq     int    `json:"seq"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
	Chars   int    `json:"size_chars"`
	Tokens  int    `json:"size_tokens_approx"`
	Context string `json:"context_header,omitempty"`
	Content string `json:"content"`
}

// previewChunks shows how a text would be cut. Tokens are estimated.
func (a *API) previewChunks(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var b struct {
		Text   string             `json:"text"`
		Config knowledge.Chunking `json:"chunking_config"`
	}
	if err := decode(w, r, maxPreviewBody, &b); err != nil {
		return 0, nil, err
	}
	switch n := utf8.RuneCountInString(b.Text); {
	case n == 0:
		return 0, nil, invalid("text is required")
	case n > maxPreview:
		return http.StatusRequestEntityTooLarge, errorBody(1000, "text has more than "+itoa(maxPreview)+" characters; cut a part of it", nil), nil
	}
	if err := b.Config.Check(); err != nil {
		return 0, nil, err
	}
	o := chunk.Options{Size: b.Config.Size, Overlap: b.Config.Overlap, Separators: b.Config.Separators, ParentChild: b.Config.ParentChild, Parent: b.Config.Parent,
		Child: b.Config.Child, Limit: b.Config.Limit, Strategy: b.Config.Strategy}
	pieces := chunk.Split(b.Text, o, nil)
	plan, stats := chunk.Choose(b.Text, o), chunk.Measure(pieces)
	out := []pieceJSON{}
	for _, p := range pieces {
		if p.Kind == chunk.Text && len(out) < maxPreviewPieces {
			out = append(out, pieceJSON{len(out), p.Start, p.End, utf8.RuneCountInString(p.Content), p.Tokens, p.Context, p.Content})
		}
	}
	sums := body{"count": stats.Count, "avg_chars": stats.Mean, "min_chars": stats.Min, "max_chars": stats.Max, "stddev_chars": stats.Stddev}
	if stats.Count > len(out) {
		sums["truncated_to"] = len(out)
	}
	return http.StatusOK, ok(body{"selected_tier": plan.Tier, "tier_chain": plan.Chain, "rejected": plan.Rejected, "profile": plan.Profile, "chunks": out, "stats": sums}), nil
}
