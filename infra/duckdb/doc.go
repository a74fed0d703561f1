// Package duckdb is the process that analyses one table file with SQL: it loads
// the rows that it is sent into memory, shuts every door, and answers queries
// until its standard input ends. What a query may do is decided by the engine: by
// the kind of statement, and by its own tree of it (tree.go). It needs cgo, so it is the package of a binary
// of its own (infra/cmd/refold-data) that the server starts and may lose at any
// moment. It imports infra/analysis/line and the DuckDB driver. Start reading at
// Serve.
package duckdb
