package retrieval

import (
	"context"
	"fmt"
	"unicode/utf8"

	"refold/domain/knowledge"
)

// A passage below thin runes is shown with its neighbours, up to full runes; one
// that is part of a larger piece with that, up to whole runes.
const (
	thin  = 350
	full  = 850
	whole = 4000
	reach = 3  // neighbours on each side
	kin   = 20 // the same, in which all pieces of a larger piece must lie
)

// surround gives each passage the text around it. What is disabled, or not of the
// same revision, is no part of it.
func (s *searching) surround(ctx context.Context, hits []Hit) error {
	wanted := map[string]bool{}
	for _, h := range hits {
		switch {
		case h.Parent != "":
			wanted[h.Parent] = true
			for i := max(h.Index-kin, 0); i <= h.Index+kin; i++ {
				wanted[knowledge.ChunkID(h.Entry.Document, h.Entry.Revision, i)] = true
			}
		case h.Kind == knowledge.Text && utf8.RuneCountInString(h.Content) < thin:
			for d := 1; d <= reach; d++ {
				for _, i := range []int{h.Index - d, h.Index + d} {
					if i >= 0 {
						wanted[knowledge.ChunkID(h.Entry.Document, h.Entry.Revision, i)] = true
					}
				}
			}
		}
	}
	around := map[string]knowledge.Found{}
	changed := map[string]bool{} // larger pieces that hold what is no longer to be seen
	if len(wanted) > 0 {
		ids := make([]string, 0, len(wanted))
		for id := range wanted {
			ids = append(ids, id)
		}
		found, err := s.r.Index.Chunks(ctx, s.req.Tenant, ids...)
		if err != nil {
			return fmt.Errorf("read what is around the passages: %w", err)
		}
		for _, f := range found {
			if f.Chunk.Disabled || f.Edition > 0 {
				changed[f.Parent] = true
			}
			if !f.Chunk.Disabled && !f.Entry.Disabled && s.req.Scope.Holds(f.Entry.Base, f.Entry.Document) {
				around[f.ID] = f
			}
		}
	}
	for i := range hits {
		if changed[hits[i].Parent] {
			delete(around, hits[i].Parent)
		}
		hits[i].Text = text(hits[i], around)
	}
	return nil
}

func text(h Hit, around map[string]knowledge.Found) string {
	if p, ok := around[h.Parent]; ok && h.Parent != "" && p.Entry.Document == h.Entry.Document &&
		utf8.RuneCountInString(p.Content) <= whole && inside(h, around) {
		return p.Content
	}
	out := h.Content
	if h.Kind != knowledge.Text || utf8.RuneCountInString(out) >= thin {
		return out
	}
	first, last := h.Chunk, h.Chunk
	for d := 1; d <= reach; d++ {
		for _, side := range []int{-d, d} {
			f, ok := around[knowledge.ChunkID(h.Entry.Document, h.Entry.Revision, h.Index+side)]
			if !ok || f.Kind != knowledge.Text || f.Context != h.Context || f.Parent != h.Parent {
				continue
			}
			joined := ""
			if side < 0 && f.Index == first.Index-1 {
				joined = join(f.Chunk, first, f.Content, out)
			} else if side > 0 && f.Index == last.Index+1 {
				joined = join(last, f.Chunk, out, f.Content)
			}
			if joined == "" || utf8.RuneCountInString(joined) > full {
				continue
			}
			out = joined
			if side < 0 {
				first = f.Chunk
			} else {
				last = f.Chunk
			}
		}
	}
	return out
}

// inside tells whether all pieces of the passage's larger piece have been read.
func inside(h Hit, around map[string]knowledge.Found) bool {
	sibling := func(i int) bool {
		f, ok := around[knowledge.ChunkID(h.Entry.Document, h.Entry.Revision, i)]
		return ok && f.Parent == h.Parent
	}
	return !sibling(h.Index+kin) && (h.Index < kin || !sibling(h.Index-kin))
}

// join puts two texts together, a's chunk being right before b's, without what
// both have where they overlap.
func join(a, b knowledge.Chunk, before, after string) string {
	shared := a.End - b.Start
	if shared <= 0 || !cut(a) || !cut(b) || shared >= b.End-b.Start {
		return before + "\n" + after
	}
	runes := []rune(after)
	if shared > len(runes) {
		return before + "\n" + after
	}
	return before + string(runes[shared:])
}

// cut tells whether a content is still what stands between Start and End.
func cut(c knowledge.Chunk) bool {
	return c.Edition == 0 && utf8.RuneCountInString(c.Content) == c.End-c.Start
}
