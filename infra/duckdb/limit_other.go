//go:build cgo && !linux

package duckdb

// limit does nothing here: the engine's own limits hold.
func limit() error { return nil }
