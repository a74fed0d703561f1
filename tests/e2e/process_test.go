package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// settings configure the server under test; see cmd/refold-e2e.
type settings struct {
	Data, Addr, Key                            string
	Roots                                      []string
	ModelURL                                   string
	Vision, VLM                                bool
	Ledger                                     string
	Gate                                       string
	Heartbeat, Write, Read, Approval, RunLimit int // ms
	Context                                    int // tokens of the window
	Gone                                       int // ms
	Collect, Grace                             int // ms
	Rate, ChatRate                             string
	Store                                      string // "" = a file in Data
	Upload                                     int64  // bytes of a file for a knowledge base
	Sample                                     bool   // begin with the sample knowledge base

	// Volume is for tests of how much, not of what happens at once: the server is
	// built without the race detector, which takes ten times as long for them.
	Volume bool `json:"-"`
}

// process is a running server.
type process struct {
	addr string
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{} // closed when it has ended
	once sync.Once
}

// start starts a server and waits until it serves. It is killed with the test.
func start(t testing.TB, s settings) *process {
	t.Helper()
	p, err := launch(s)
	if err != nil {
		t.Fatalf("start the server: %v", err)
	}
	t.Cleanup(func() { p.kill(t) })
	return p
}

func launch(s settings) (*process, error) {
	if s.Addr == "" {
		s.Addr = "127.0.0.1:0"
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	binary := serverBinary
	if s.Volume {
		if binary, err = plainServer(); err != nil {
			return nil, err
		}
	}
	p := &process{cmd: exec.Command(binary), log: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "E2E_CONFIG="+string(raw), "GORACE=halt_on_error=1")
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	guard := time.AfterFunc(hang, func() { p.cmd.Process.Kill() })
	line, readErr := bufio.NewReader(out).ReadBytes('\n')
	guard.Stop()
	go func() {
		p.cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	var hello struct{ Addr string }
	if readErr != nil || json.Unmarshal(line, &hello) != nil {
		p.cmd.Process.Kill()
		<-p.done
		return nil, &startError{p.cmd.ProcessState.ExitCode(), p.log.String()}
	}
	p.addr = hello.Addr
	return p, nil
}

// startError is a server that ended before it served.
type startError struct {
	code int
	text string
}

func (e *startError) Error() string { return e.text }

// kill ends the process as a power cut would, and fails the test if it had
// reported a data race or a panic before.
func (p *process) kill(t testing.TB) {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
	p.inspect(t)
}

// term asks the process to end and gives its exit code.
func (p *process) term(t testing.TB) int {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	guard := time.AfterFunc(hang, func() { p.cmd.Process.Kill() })
	defer guard.Stop()
	<-p.done
	p.inspect(t)
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) inspect(t testing.TB) {
	t.Helper()
	p.once.Do(func() {
		log := p.log.String()
		for _, bad := range []string{"DATA RACE", "fatal error:", "panic while"} {
			if i := strings.Index(log, bad); i >= 0 {
				t.Errorf("the server's log has %q:\n%s", bad, log[i:min(len(log), i+4000)])
			}
		}
		if t.Failed() {
			t.Logf("server %s:\n%s", p.addr, tail(log, 4000))
		}
	})
}

func tail(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

// lockedBuffer is a buffer that a process writes and a test reads.
type lockedBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{} // closed by the next write; nil if nobody waits for it
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
	return b.b.Write(p)
}

// has waits until the buffer has a text.
func (b *lockedBuffer) has(t testing.TB, text string) {
	t.Helper()
	ctx := guarded(t)
	for {
		b.mu.Lock()
		if b.more == nil {
			b.more = make(chan struct{})
		}
		found, more := strings.Contains(b.b.String(), text), b.more
		b.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("nobody said %q: %s", text, b)
		}
	}
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
