// Package e2e tests Refold from outside: real processes, real HTTP, SQLite
// files on disk, a scripted model server. Nothing is waited for by time: tests
// read streams, and a context bounds every wait as a guard against hanging.
//
// Start reading at process_test.go (a server that can be killed and started
// again), reader_test.go (an SSE client) and crash_test.go.
package e2e
