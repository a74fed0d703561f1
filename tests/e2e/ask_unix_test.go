//go:build unix

package e2e

import (
	"strings"
	"syscall"
	"testing"
)

// TestAskFindsTheNextServer: the server dies, and another is there before the
// command line has seen it: that one moves the run, and it goes on there.
func TestAskFindsTheNextServer(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	l := newLab(t, nil, held(gate, []string{"One "}, nil), say("Done."))
	r := begin(t, "--data", l.s.Data, "ask", "--json", "q")
	r.reads(t, `"content":"One "`)
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l.p.kill(t)
	l.up(t)
	if err := r.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// Without a model of its own it could only quote.
	rest, code := r.wait(t)
	if code != 0 || !strings.Contains(rest, `"content":"Done."`) || !strings.Contains(rest, `"reason":"recovered"`) {
		t.Errorf("exit %d\n%s\n%s", code, rest, r.stderr)
	}
}
