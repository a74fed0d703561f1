//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"refold/domain/event"
	"refold/projections"
)

// BenchmarkSearch100k is a search through 100,000 messages (50,000 turns of a
// short question and an answer of some 300 words): a word that stands nowhere,
// which reads all of them, one in every hundredth, and one in every turn.
func BenchmarkSearch100k(b *testing.B) {
	d := fresh(b).Documents()
	const turns = 50_000
	id := projections.Search.ID()
	filler := strings.Repeat("the server keeps every event in the order in which it was written and gives it back 服务器保存所有事件 ", 8)
	var last event.Position
	for i := 0; i < turns; i += 1000 {
		batch := projections.Batch{Projection: id, From: last, To: event.Position(fmt.Sprintf("%016x", i+1))}
		for k := i; k < i+1000; k++ {
			text := projections.SearchText(fmt.Sprintf("question %d about backups", k), 4000)
			answer := filler
			if k%100 == 7 {
				answer += " 发票报销 invoice"
			}
			text += "\n" + projections.SearchText(answer, 16000)
			batch.Put = append(batch.Put, projections.Document{Key: projections.Key{Collection: id, Tenant: "t", ID: fmt.Sprintf("run-%06d", k)}, Body: []byte("{}"),
				Index: map[string]any{"session": fmt.Sprintf("s-%d", k/20), "at": int64(k), "asked": true, "answered": true, "text": text}})
		}
		if err := d.Commit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		last = batch.To
	}
	for _, query := range []string{"zebra", "斑马", "报销", "invoice 发票", "backups"} {
		b.Run(query, func(b *testing.B) {
			q := projections.Query{Collection: id, Tenant: "t", Limit: 200, OrderBy: []projections.Order{{Field: "at", Desc: true}}}
			for _, n := range projections.Needles(query, false) {
				q.Where = append(q.Where, projections.Where{Field: "text", Op: "contains", Value: n})
			}
			for b.Loop() {
				if _, err := d.Find(context.Background(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
