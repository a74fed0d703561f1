package handlers

import (
	"cmp"
	"context"
	"slices"

	"refold/domain/run"
	"refold/domain/tool"
)

// unit is a part of the conversation as a model reads it: kept, left out or
// summed up as one, so that a call and its results are never separated.
type unit struct {
	first, last run.Place
	source      []run.Message // as the record has it
	messages    []ModelMessage
	tokens      []int // of each message
	total       int
}

func newUnit(c TokenCounter, runID string, p run.Part) unit {
	u := unit{first: run.Place{Run: runID, Step: p.From}, last: run.Place{Run: runID, Step: p.To}, source: p.Messages,
		messages: appendTranscript(nil, p.Messages)}
	for _, m := range u.messages {
		n := TokensOf(c, m)
		u.tokens = append(u.tokens, n)
		u.total += n
	}
	return u
}

// says tells whether the unit is of exactly these messages.
func (u unit) says(ms []run.Message) bool {
	return slices.EqualFunc(u.source, ms, func(a, b run.Message) bool {
		return a.Role == b.Role && a.Content == b.Content && a.CallID == b.CallID && a.Reasoning == b.Reasoning &&
			slices.EqualFunc(a.Calls, b.Calls, func(x, y run.ProposedCall) bool { return x.ID == y.ID && x.Arguments == y.Arguments })
	})
}

// past is what a run knows of the session before it: a summary, if one was made,
// and the turns after what it stands for.
type past struct {
	memory *run.MemoryConsolidated
	units  []unit
	sized  run.Sizing // of the newest request of those turns, by the same model
}

// loadPast folds the earlier turns of the session that the run was started with.
func (a *actor) loadPast(ctx context.Context, s run.State) (past, error) {
	states := make([]run.State, len(s.Start.History))
	for i, id := range s.Start.History {
		r, err := a.runner.Commands.OpenRun(ctx, a.key.tenant, id)
		if err != nil {
			return past{}, err
		}
		states[i] = r.State
	}
	return pastOf(a.runner.counter(), s, states, func(m run.MemoryConsolidated) bool {
		kept, err := a.runner.Commands.SummaryKept(ctx, a.key.tenant, s.Start.Session, m)
		if err != nil { // the turns themselves are still there
			a.log().Warn("a summary of earlier turns can't be checked and is not used", "error", err)
		}
		return kept && err == nil
	}), nil
}

// pastOf makes a run's past of the states of its earlier runs, oldest first; kept
// tells whether a summary may still be used, nil = always.
func pastOf(c TokenCounter, s run.State, states []run.State, kept func(run.MemoryConsolidated) bool) past {
	var out past
	for i := len(states) - 1; i >= 0 && out.memory == nil; i-- {
		if m, ok := states[i].Memory(); ok && (kept == nil || kept(m)) {
			out.memory = &m
		}
	}
	order := newOrder(s)
	for i, st := range states {
		if !st.Begun() {
			continue
		}
		if st.ModelName() == s.Start.Agent.Model && st.Sized.Prompt > 0 {
			out.sized = st.Sized
		}
		for _, p := range st.TurnParts() {
			if out.memory != nil && !order.after(run.Place{Run: s.Start.History[i], Step: p.To}, out.memory.To) {
				continue
			}
			for k, m := range p.Messages {
				p.Messages[k] = remembered(m, s.Start.Agent.KeepRetrieval)
			}
			out.units = append(out.units, newUnit(c, s.Start.History[i], p))
		}
	}
	return out
}

// order compares places of the earlier runs and of the run itself. A run that is
// in neither is older than all.
type order map[string]int

func newOrder(s run.State) order {
	o := order{}
	for i, id := range s.Start.History {
		o[id] = i + 1
	}
	o[s.Start.Run] = len(s.Start.History) + 1
	return o
}

// after tells whether a place comes after another.
func (o order) after(p, q run.Place) bool {
	if c := cmp.Compare(o[p.Run], o[q.Run]); c != 0 || o[p.Run] == 0 {
		return c > 0
	}
	return p.Step > q.Step
}

// retrieval are the tools whose results may be out of date in a later turn.
var retrieval = []string{"knowledge_search", "grep_chunks", "list_knowledge_chunks", "query_knowledge_graph", "get_document_info",
	"wiki_search", "wiki_read_page", "wiki_read_source_doc", "grep_files", "read_file", "list_files"}

const redacted = "[The result of an earlier search was left out, because its sources may have changed since. Search again if it is needed.]"

// remembered is a message of an earlier turn as a later one reads it: old results
// of retrieval are left out unless the agent keeps them, payloads for the UI are
// one line.
func remembered(m run.Message, keep bool) run.Message {
	switch {
	case m.Role != RoleTool || m.Failed:
	case slices.Contains(retrieval, m.Name):
		if !keep {
			m.Content, m.Untrusted = redacted, false
		}
	default:
		if line := tool.Summary(m.Name, m.Data); line != "" {
			m.Content = "[" + line + "]"
		}
	}
	return m
}
