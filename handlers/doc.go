// Package handlers is what follows from facts: it keeps open runs moving. It
// claims work that run.Due lists, acts (calls the model, runs the tool), and
// reports by command. It has no memory of its own: whatever line the process
// dies at, another one reads the log and goes on.
//
// The promise about effects: intent is durable before a tool runs, its result
// after. A lost result is UNKNOWN. A tool that only reads, or that honours the
// idempotency key, runs again by itself; any other is never repeated without a
// person's decision, and never reported as failed.
//
// It may import domain and commands. Start reading at runner.go, then actor.go;
// model.go and tool.go act, prompt.go, window.go and history.go build what the
// model sees, memory.go has older messages summed up, deltas.go shows text while
// it arrives. Built-in tools are in handlers/tools. ingest.go does for documents what
// runner.go does for runs.
package handlers
