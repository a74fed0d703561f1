// Package scripted is a model server over real HTTP, in OpenAI's wire format,
// that says what a script tells it and remembers what it was asked. Tests of the
// model client and end-to-end tests talk to it; scriptedmodel serves a script
// from a file by hand. It may import the standard library only.
//
// Start reading at New, then Step and Reply.
package scripted
