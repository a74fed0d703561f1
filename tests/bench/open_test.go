//go:build linux

package main

import (
	"context"
	"path/filepath"
	"testing"

	"refold/infra/sqlite"
)

// BenchmarkSQLiteOpen is the start on an existing file of 20,000 events.
func BenchmarkSQLiteOpen(b *testing.B) {
	db := filled(b, 20_000)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		again, err := sqlite.Open(context.Background(), db.Path(), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := again.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSQLiteCreate is the start without a file, with the migrations.
func BenchmarkSQLiteCreate(b *testing.B) {
	for b.Loop() {
		db, err := sqlite.Open(context.Background(), filepath.Join(b.TempDir(), "refold.db"), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
