// Package projections is what can be seen: folds of the log into documents,
// and the live fold of a run into the frames of the SSE feed. A fold never
// fails, calls out or asks the time; models never speak in one.
//
// It may import domain. Start reading at engine.go (how folds run), then
// sessions.go, history.go, toollog.go, runs.go, approvals.go, bases.go, library.go
// (read models) and feed.go (what readers of a run are shown).
package projections
