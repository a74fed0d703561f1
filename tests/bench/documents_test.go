//go:build linux

// Benchmarks beyond the table, for benchstat: go test -bench NAME ./tests/bench.
package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"refold/domain/event"
	"refold/infra/postgres"
	"refold/projections"
)

// documents is how many are stored for the benchmarks of Find.
const documents = 100_000

var updated = projections.Order{Field: "updated", Desc: true}

// findings are pages of 20 out of the stored documents.
var findings = []struct {
	name string
	q    projections.Query
}{
	{"by id", projections.Query{}},
	{"one order", projections.Query{OrderBy: []projections.Order{updated}}},
	{"one order and total", projections.Query{OrderBy: []projections.Order{updated}, CountTotal: true}},
	{"two orders", projections.Query{OrderBy: []projections.Order{{Field: "pinned", Desc: true}, updated}}},
	{"equality and order", projections.Query{Where: []projections.Where{{Field: "owner", Op: "=", Value: "user-7"}}, OrderBy: []projections.Order{updated}}},
	{"wide equality, order, total", projections.Query{Where: []projections.Where{{Field: "pinned", Op: "=", Value: false}}, OrderBy: []projections.Order{updated}, CountTotal: true}},
	{"offset 1000", projections.Query{OrderBy: []projections.Order{updated}, Offset: 1000}},
	{"contains", projections.Query{Where: []projections.Where{{Field: "title", Op: "contains", Value: "TION 7"}}, OrderBy: []projections.Order{updated}}},
}

// keep stores the documents and gives the checkpoint.
func keep(b *testing.B, d projections.Documents) (last event.Position) {
	b.Helper()
	const n = documents
	begin := time.Now()
	for i := 0; i < n; i += 1000 {
		batch := projections.Batch{Projection: "sessions@1", From: last, To: event.Position(fmt.Sprintf("%016x", i+1))}
		for j := range 1000 {
			k := i + j
			batch.Put = append(batch.Put, projections.Document{
				Key:  projections.Key{Collection: "sessions@1", Tenant: "t", ID: fmt.Sprintf("session-%06d", k)},
				Body: fmt.Appendf(nil, `{"id":%d,"title":"A conversation about something"}`, k),
				Index: map[string]any{"pinned": k%1000 == 0, "updated": int64(k * 7919 % n), "title": fmt.Sprintf("Conversation %d", k),
					"owner": fmt.Sprintf("user-%d", k%50)}})
		}
		if err := d.Commit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		last = batch.To
	}
	b.Logf("%.0f puts/s", n/time.Since(begin).Seconds())
	return last
}

func find(b *testing.B, d projections.Documents) {
	for _, c := range findings {
		b.Run(c.name, func(b *testing.B) {
			c.q.Collection, c.q.Tenant = "sessions@1", "t"
			for b.Loop() {
				p, err := d.Find(context.Background(), c.q)
				if err != nil || len(p.Documents) != 20 {
					b.Fatalf("%d documents, %v", len(p.Documents), err)
				}
			}
		})
	}
}

// BenchmarkPostgresFind is a page of 20 out of 100,000 documents.
func BenchmarkPostgresFind(b *testing.B) {
	db, _ := freshPostgres(b, postgres.Options{})
	keep(b, db.Documents())
	find(b, db.Documents())
}

// BenchmarkSQLiteFind is a page of 20 out of 100,000 documents.
func BenchmarkSQLiteFind(b *testing.B) {
	d := fresh(b).Documents()
	last := keep(b, d)
	find(b, d)
	b.Run("one order in parallel", func(b *testing.B) {
		b.SetParallelism(4)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := d.Find(context.Background(), projections.Query{Collection: "sessions@1", Tenant: "t", OrderBy: []projections.Order{updated}, CountTotal: true}); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("commit of one", func(b *testing.B) {
		k := 0
		for b.Loop() {
			to := event.Position(fmt.Sprintf("%016x", documents+k+1))
			doc := projections.Document{Key: projections.Key{Collection: "sessions@1", Tenant: "t", ID: fmt.Sprintf("session-%06d", k%documents)}, Body: payload,
				Index: map[string]any{"pinned": false, "updated": int64(documents + k), "title": "x", "owner": "user-1"}}
			if err := d.Commit(context.Background(), projections.Batch{Projection: "sessions@1", From: last, To: to, Put: []projections.Document{doc}}); err != nil {
				b.Fatal(err)
			}
			last = to
			k++
		}
	})
}
