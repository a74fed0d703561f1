package e2e

import (
	"bufio"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// trap holds tools at the places around their effects, one at a time.
type trap struct {
	path string
	l    *net.UnixListener
	conn net.Conn
}

func newTrap(t testing.TB) *trap {
	t.Helper()
	x := &trap{path: filepath.Join(t.TempDir(), "trap")}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: x.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	x.l = l
	t.Cleanup(func() {
		l.Close()
		if x.conn != nil {
			x.conn.Close()
		}
	})
	return x
}

// caught waits until a tool stands at a place, and holds it there.
func (x *trap) caught(t testing.TB, place string) {
	t.Helper()
	x.l.SetDeadline(time.Now().Add(hang))
	conn, err := x.l.Accept()
	if err != nil {
		t.Fatalf("no tool came to %q: %v", place, err)
	}
	x.conn = conn
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || strings.TrimSuffix(line, "\n") != place {
		t.Fatalf("a tool stands at %q (%v), not at %q", line, err, place)
	}
}

// release lets the tool go on.
func (x *trap) release(t testing.TB) {
	t.Helper()
	if _, err := x.conn.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	x.conn.Close()
}

// gone waits until the tool that is held has given up.
func (x *trap) gone(t testing.TB) {
	t.Helper()
	x.conn.SetDeadline(time.Now().Add(hang))
	if n, err := x.conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatalf("the tool said %d bytes more (%v)", n, err)
	}
	x.conn.Close()
}
