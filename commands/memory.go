package commands

import (
	"context"

	"refold/domain"
	"refold/domain/run"
	"refold/domain/session"
)

// ErrNoMemory says that the run has no summary of that number.
var ErrNoMemory = domain.Reject(domain.Missing, "memory_not_found", "this run has no summary of that number; list them without ?expand")

// Memories lists the summaries that a run has made of older messages, in order.
func (c *Commands) Memories(ctx context.Context, tenant, runID string) ([]run.MemoryConsolidated, error) {
	r, _, err := c.openLive(ctx, tenant, runID)
	if err != nil {
		return nil, err
	}
	return r.State.Memories, nil
}

// Original is a message that a summary stands for, as the record has it.
type Original struct {
	run.Place
	run.Message
}

// ExpandMemory gives the messages that the n-th summary of a run (from 1) stands
// for, whole, from the record. Turns that were deleted since are left out.
func (c *Commands) ExpandMemory(ctx context.Context, tenant, runID string, n int) ([]Original, error) {
	r, s, err := c.openLive(ctx, tenant, runID)
	if err != nil {
		return nil, err
	}
	if n < 1 || n > len(r.State.Memories) {
		return nil, ErrNoMemory
	}
	m := r.State.Memories[n-1]
	out := []Original{}
	within := false
	for _, post := range s.Posts {
		within = within || post.Run == m.From.Run
		if within && s.Kept(post) {
			state, parts := r.State, []run.Part(nil)
			if post.Run == runID {
				parts = state.Parts(0)
			} else {
				earlier, err := c.OpenRun(ctx, tenant, post.Run)
				if err != nil {
					return nil, err
				}
				parts = earlier.State.TurnParts()
			}
			for _, p := range parts {
				if post.Run == m.From.Run && p.To < m.From.Step || post.Run == m.To.Run && p.To > m.To.Step {
					continue
				}
				for _, message := range p.Messages {
					out = append(out, Original{run.Place{Run: post.Run, Step: p.From}, message})
				}
			}
		}
		if post.Run == m.To.Run || post.Run == runID {
			break
		}
	}
	return out, nil
}

// SummaryKept tells whether everything that a summary stands for is still there:
// what a person has deleted must not live on in it.
func (c *Commands) SummaryKept(ctx context.Context, tenant, sessionID string, m run.MemoryConsolidated) (bool, error) {
	h, err := c.loadSession(ctx, tenant, sessionID)
	if err != nil {
		return false, err
	}
	s := h.state
	within := false
	for _, post := range s.Posts {
		within = within || post.Run == m.From.Run
		if within && !s.Kept(post) {
			return false, nil
		}
		if post.Run == m.To.Run {
			break
		}
	}
	return within, nil
}

// openLive opens a run whose session was not deleted.
func (c *Commands) openLive(ctx context.Context, tenant, runID string) (*Run, session.State, error) {
	r, err := c.OpenRun(ctx, tenant, runID)
	if err == nil && !r.State.Begun() {
		err = run.ErrNotStarted
	}
	if err != nil {
		return nil, session.State{}, err
	}
	s, err := c.Session(ctx, tenant, r.State.Start.Session)
	return r, s, err
}
