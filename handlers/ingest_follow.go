package handlers

import (
	"context"
	"slices"
	"time"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// follow turns facts into work. A failing store is asked again, for ever.
func (g *Ingest) follow(ctx context.Context, from event.Position) {
	pause := 50 * time.Millisecond
	filter := event.Filter{Categories: []string{knowledge.Category, knowledge.BaseCategory, knowledge.ImportCategory, knowledge.TransferCategory}}
	for ctx.Err() == nil {
		err := event.Follow(ctx, g.Store, from, filter, func(batch []event.Raw, upTo event.Position) error {
			newest := map[event.Stream]event.Raw{}
			for _, raw := range batch {
				g.fence(raw)
				newest[raw.Stream] = raw
			}
			for _, raw := range batch {
				if newest[raw.Stream].Version == raw.Version {
					g.notice(raw)
				}
			}
			from, pause = upTo, 50*time.Millisecond
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		g.Log.Error("ingestion can't follow the log", "error", err, "again_in", pause)
		g.sleep(ctx, pause)
		pause = min(2*pause, 5*time.Second)
	}
}

// fence ends what is being done for a document that somebody has cancelled,
// deleted, or given other content.
func (g *Ingest) fence(raw event.Raw) {
	switch raw.Type {
	case "IngestionCancelled", "DocumentDeleted", "ContentReplaced", "ReparseRequested":
	default:
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	j := g.busy[raw.Stream]
	if j == nil || raw.Version <= j.folded {
		return
	}
	if j.fence = raw.Version; j.cancel != nil {
		j.cancel(errOver)
	}
}

// results are the facts that end a stage.
var results = []string{"Fetched", "Parsed", "Chunked", "Embedded", "Indexed", "Synced", "DocumentRemoved", "StageFailed"}

// notice wakes the stream that a fact gives work to. What follows from a result
// is done by who has reported it.
func (g *Ingest) notice(raw event.Raw) {
	switch {
	case raw.Type == "StageStarted", raw.Type == "ImportStarted", raw.Type == "ImportProgressed",
		raw.Type == "TransferStarted", raw.Type == "TransferProgressed":
		return // somebody works on it
	case raw.Stream.Category == knowledge.BaseCategory && raw.Type != "BaseDeleted":
		return
	case slices.Contains(results, raw.Type) && raw.Meta.Actor == g.by(raw.Stream.Tenant).Principal:
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wake(Owed{Stream: raw.Stream, Base: raw.Meta.Correlation}, raw.Version)
}

// wake puts a stream into the line. A fact that is known to whoever works on it,
// or has left it waiting (version not newer), does not. The lock is held.
func (g *Ingest) wake(o Owed, version int64) {
	select {
	case <-g.ending:
		return
	default:
	}
	if j := g.busy[o.Stream]; j != nil {
		if version == 0 || version > j.folded {
			j.again = true
		}
		return
	}
	if p, ok := g.parked[o.Stream]; ok {
		if version > 0 && version <= p.version {
			return
		}
		p.cancel()
		delete(g.parked, o.Stream)
	}
	g.line.push(o)
}
