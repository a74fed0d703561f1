package handlers

import (
	"context"
	"slices"

	"refold/domain/citation"
	"refold/domain/run"
	"refold/domain/tool"
)

// evidence is what the earlier turns of the session were answered from, each
// source once, as the newest of them saw it. What can't be read is left out: an
// answer does not fail for it.
func (a *actor) evidence(ctx context.Context, s run.State) []tool.Reference {
	var out []tool.Reference
	known := map[string]bool{}
	for _, id := range slices.Backward(s.Start.History) {
		r, err := a.runner.Commands.OpenRun(ctx, a.key.tenant, id)
		if err != nil {
			a.log().Warn("the evidence of an earlier turn can't be read and is left out", "earlier", id, "error", err)
			continue
		}
		for _, ref := range r.State.References() {
			if !known[ref.ID] {
				known[ref.ID] = true
				out = append(out, ref)
			}
		}
	}
	return out
}

// cited is the evidence of earlier turns that a text cites and this run has not
// found itself.
func (a *actor) cited(ctx context.Context, s run.State, text string) []tool.Reference {
	if len(s.Start.History) == 0 {
		return nil
	}
	ids := citation.Cited(text)
	for _, own := range s.References() {
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == own.ID })
	}
	if len(ids) == 0 {
		return nil
	}
	found := slices.DeleteFunc(a.evidence(ctx, s), func(r tool.Reference) bool { return !slices.Contains(ids, r.ID) })
	return found[:min(len(found), tool.MaxReferences)]
}
