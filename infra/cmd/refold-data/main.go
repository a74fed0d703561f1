//go:build cgo

// Command refold-data is the process in which table files are analysed: see
// infra/duckdb. The server starts it; it has no use of its own.
package main

import (
	"fmt"
	"os"

	"refold/infra/duckdb"
)

func main() {
	if err := duckdb.Serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "refold-data:", err)
		os.Exit(1)
	}
}
