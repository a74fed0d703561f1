// Package domain is the map of Refold: agents on the record. Every step of an
// agent is an event in an append-only log, all state is a fold of that log, and
// everything a person sees is a projection of it.
//
//	domain/       what is true        events, state, rules; pure; imports nothing of ours but domain
//	commands/     what may be asked   one file per use case: load, fold, decide, append
//	projections/  what can be seen    folds of the log into documents; no effects
//	handlers/     what follows        reactions to facts: call the model, run the tool, relay; then report by command
//	api/          how people reach it HTTP, SSE, /docs; translates, never decides
//	infra/        what it is made of  one folder per outside thing, the composition root, the binary
//	tests/        how we know         suites, scenarios, fakes, end-to-end, the arrow test, benchmarks
//
// If a sentence about a new file does not begin with one of these seven lines,
// the file is in the wrong place. Start reading at domain/run/decide.go.
package domain
