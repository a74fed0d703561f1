// Package commands is what may be asked of Refold, one file per use case: load
// the stream, fold it, decide, append. Requests come from api and the command
// line, reports from handlers. A command answers with the position of what it
// wrote, so that a reader can ask for a view that includes it.
//
// A lost race is decided again on the new state, a few times; then it is
// event.ErrConflict. It may import domain. Start reading at post_message.go.
package commands
