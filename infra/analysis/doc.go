// Package analysis answers SQL about table files (handlers.Analyst) with the
// help of a process of its own for each run and file: refold-data, a second
// binary, which loads the rows it is sent and has no other way to the world (see
// infra/duckdb). Losing the process, or ending it because it took too long, is a
// failed query; the next one starts another.
//
// It imports handlers, domain/tool and infra/analysis/line. Start reading at
// Engine.Query, then process.go.
package analysis
