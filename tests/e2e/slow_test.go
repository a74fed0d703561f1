package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"refold/tests/scripted"
)

// TestSlowReader (P90): who takes nothing is cut, slows nobody, and goes on
// from its place later.
func TestSlowReader(t *testing.T) {
	const rounds, pieces, size = 3, 560, 3500 // 6 MB and more than sockets hold
	gate := make(chan struct{})
	l := newLab(t, func(s *settings) { s.Heartbeat, s.Write = 100, 700 })
	text := strings.Repeat("x", size)
	l.model.Push(held(gate, []string{"Begin "}, []string{"."}))
	id := l.session(t)
	first := l.chat(t, id, "q")
	head := first.until(t, isAnswer("Begin "))

	// A subscribes to the session, and reads the headers at most.
	dial := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) }), err)
	}}
	conn, err := dial.DialContext(guarded(t), "tcp", l.p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET /api/v1/sessions/%s/events HTTP/1.0\r\nHost: localhost\r\n\r\n", id); err != nil {
		t.Fatal(err)
	}
	close(gate)
	checkFeed(t, append(head, first.rest(t)...))

	// The texts are longer than the model's window: what it is shown of earlier
	// rounds does not tell which one this is, and summaries are asked for.
	var asked atomic.Int64
	l.model.Always(func(r scripted.Request) scripted.Reply {
		if len(r.Tools) == 0 {
			return scripted.Reply{Parts: scripted.Chunks(r.Model, words("A summary.")...)}
		}
		n := int(asked.Add(1)) - 1
		var list []scripted.Delta
		if n < rounds {
			for range pieces {
				list = append(list, scripted.Text(text))
			}
			list = append(list, call(fmt.Sprintf("c%d", n), "look", fmt.Sprintf(`{"at":"p%d"}`, n)))
		} else {
			list = words("The end.")
		}
		return scripted.Reply{Parts: scripted.Chunks(r.Model, list...)}
	})
	b := l.chat(t, id, "long").rest(t)
	checkFeed(t, b)
	if n := strings.Count(wire(b), text); n != rounds*pieces {
		t.Errorf("B has %d of %d pieces", n, rounds*pieces)
	}
	// The write to A has begun by now or will within a heartbeat; its deadline
	// passes while another reader counts heartbeats.
	beats := l.open(t, "/api/v1/sessions/"+id+"/events", b[len(b)-1].id)
	for n := 0; n < 20; {
		f, err := beats.any()
		if err != nil {
			t.Fatal(err)
		}
		if f.comment {
			n++
		}
	}
	conn.SetReadDeadline(time.Now().Add(hang))
	lines := bufio.NewReaderSize(conn, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the headers of A: %v", err)
		}
		if strings.TrimSpace(line) == "" {
			break
		}
	}
	a := &reader{body: conn, cancel: func() {}, lines: lines}
	var seen []frame
	for {
		f, err := a.next()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				t.Fatal(err)
			}
			break // io.EOF or a reset: A was cut
		}
		seen = append(seen, f)
	}
	mark := l.open(t, "/api/v1/sessions/"+id+"/events?follow=false", "").rest(t)
	if len(seen) == 0 || len(seen) >= len(mark) {
		t.Fatalf("A was not cut: it has %d of %d frames", len(seen), len(mark))
	}
	rest := l.open(t, "/api/v1/sessions/"+id+"/events?follow=false", seen[len(seen)-1].id).rest(t)
	if wire(append(seen, rest...)) != wire(mark) {
		t.Errorf("A before and after its cut is not the whole")
	}
}
