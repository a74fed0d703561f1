//go:build linux

package main

import (
	"strings"
	"testing"

	"refold/tests/bench/load"
)

// BenchmarkSessions asks for a page of 20 sessions over HTTP, 8 callers at a time,
// with the client in the same process.
func BenchmarkSessions(b *testing.B) {
	base := serve(b, "http://127.0.0.1:9/v1")
	for range 20 {
		if _, err := load.Session(base); err != nil {
			b.Fatal(err)
		}
	}
	addr := strings.TrimSuffix(strings.TrimPrefix(base, "http://"), "/api/v1")
	clients := make(chan *raw, 8)
	for range cap(clients) {
		c, err := dial(addr, "/api/v1/sessions?page_size=20")
		if err != nil {
			b.Fatal(err)
		}
		defer c.conn.Close()
		clients <- c
	}
	parallel(b, cap(clients), 1, func() error {
		c := <-clients
		defer func() { clients <- c }()
		_, err := c.get()
		return err
	})
}
