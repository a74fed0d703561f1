package projections

import (
	"time"

	"refold/domain/event"
	"refold/domain/run"
	"refold/domain/session"
)

// Spent is what model calls have used on one day (UTC, "2026-01-31"): of one
// model, one run or one session.
type Spent struct {
	Key   string    `json:"key"` // the model as its server names it, the run's or the session's id
	Day   string    `json:"day"`
	Calls int       `json:"calls"`
	Usage run.Usage `json:"usage"`
}

// UsageByRun and UsageBySession are collections of Usage.
const (
	UsageByRun     = "run"
	UsageBySession = "session"
)

// Usage adds up the tokens of all model calls, also of those that belong to no
// round (titles, summaries), in three ways, so that each sums up to the same: by
// model (the main collection), by run and by session, each per day. What
// belongs to no run is booked on its session's id. Index: day, key.
var Usage = Projection{Name: "usage", Version: 1, Filter: event.Filter{Categories: facts}, Fold: foldUsage}

func foldUsage(v *View, f Fact) {
	switch e := f.Event.(type) {
	case run.Thought:
		spend(v, f, f.Stream.ID, sessionOf(f), e.Model, e.Usage, e.At)
	case run.ImagesDescribed:
		spend(v, f, f.Stream.ID, sessionOf(f), e.Model, e.Usage, e.At)
	case run.MemoryConsolidated:
		spend(v, f, f.Stream.ID, sessionOf(f), e.Model, e.Usage, e.At)
	case session.SessionTitled:
		if e.Source != session.TitleByModel && e.Usage.Total == 0 {
			return // no model was asked
		}
		runID := e.Run
		if runID == "" {
			runID = f.Stream.ID
		}
		spend(v, f, runID, f.Stream.ID, e.Model, sessionUsage(e.Usage), e.At)
	}
}

func sessionUsage(u session.Usage) run.Usage {
	return run.Usage{Prompt: u.Prompt, Completion: u.Completion, Total: u.Total, Cached: u.Cached}
}

func spend(v *View, f Fact, runID, sessionID, model string, u run.Usage, at time.Time) {
	day := at.UTC().Format(time.DateOnly)
	for _, to := range [][2]string{{"", cut(model, 100)}, {UsageByRun, runID}, {UsageBySession, sessionID}} {
		collection, key := to[0], to[1]
		id := day + " " + key
		row := Get[Spent](v, collection, f.Stream.Tenant, id)
		if row == nil {
			row = &Spent{Key: key, Day: day}
		}
		row.Calls++
		row.Usage = row.Usage.Add(u)
		Put(v, collection, f.Stream.Tenant, id, row, map[string]any{"day": day, "key": key})
	}
}
