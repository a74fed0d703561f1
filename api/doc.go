// Package api is how people reach Refold over HTTP: it translates requests into
// commands and views into JSON, and never decides. The wire format is that of
// the reference, so that its public clients work, with a few fields of our own.
//
// It may import domain, commands, projections and chi. Start reading at
// router.go; feed.go writes the SSE frames, tail.go brings them.
package api
