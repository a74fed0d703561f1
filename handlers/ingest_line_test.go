package handlers

import (
	"fmt"
	"strings"
	"testing"

	"refold/domain/event"
)

// Who brings much does not keep the others waiting.
func TestTurns_AreFair(t *testing.T) {
	l := newTurns()
	push := func(tenant, base string, from, n int) {
		for i := range n {
			l.push(Owed{Stream: event.Stream{Tenant: tenant, Category: "document", ID: fmt.Sprint(base, from+i)}, Base: base})
		}
	}
	push("1", "a", 0, 5)
	push("1", "a", 0, 5) // is waiting already
	push("1", "b", 0, 2)
	push("2", "c", 0, 2)
	if l.len() != 9 {
		t.Fatal(l.len())
	}
	var got []string
	take := func() {
		o, ok := l.pop()
		if !ok {
			t.Fatal("nothing waits")
		}
		got = append(got, o.Stream.ID)
	}
	for range 5 {
		take()
	}
	push("2", "c", 2, 1)
	for range 5 {
		take()
	}
	if want := "a0 c0 b0 c1 a1 b1 c2 a2 a3 a4"; strings.Join(got, " ") != want {
		t.Fatalf("%v, want %s", got, want)
	}
	if _, ok := l.pop(); ok || l.len() != 0 {
		t.Fatal("something is left")
	}
	select {
	case <-l.news:
	default:
		t.Fatal("nobody was told")
	}
}
