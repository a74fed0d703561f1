// Package run is the aggregate of one run: one question, its rounds of model
// and tool calls, one answer. A run is one assistant message and one stream.
//
// The whole engine is three pure functions: Decide says which events follow
// from a command, Evolve folds an event into state, Due lists what the outside
// world still owes. None of them has a clock, makes ids, or does I/O. The
// promise that follows: whatever line a process dies at, another process that
// folds the stream knows what to do next.
//
// Start reading at decide.go, then due.go. Files: reply.go a model reply,
// failure.go a failed attempt, call.go tool calls, approval.go approvals (also:
// expired), stop.go, recover.go lost claims, memory.go the model's window,
// loop.go repeated rounds, transcript.go what the model sees, shown.go what
// readers saw, wire.go names.
//
// It may import the standard library, domain, domain/event and domain/tool.
package run
