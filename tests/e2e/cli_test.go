package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// result is what a command line printed and how it ended.
type result struct {
	code           int
	stdout, stderr string
}

// refold runs the product's command line.
func refold(t testing.TB, args ...string) result {
	t.Helper()
	return refoldIn(t, nil, nil, args...)
}

func refoldIn(t testing.TB, env []string, in io.Reader, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(guarded(t), refoldBinary, args...)
	var out, errOut bytes.Buffer
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("refold %s: %v", strings.Join(args, " "), err)
	}
	r := result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
	if strings.Contains(r.stderr, "DATA RACE") || strings.Contains(r.stderr, "goroutine ") {
		t.Errorf("refold %s:\n%s", strings.Join(args, " "), r.stderr)
	}
	return r
}

// running is a command line that has not ended yet.
type running struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr *lockedBuffer
}

func begin(t testing.TB, args ...string) *running {
	t.Helper()
	r := &running{cmd: exec.CommandContext(guarded(t), refoldBinary, args...), stderr: &lockedBuffer{}}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.out, r.cmd.Stderr = bufio.NewReader(out), r.stderr
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.cmd.Process.Kill() })
	return r
}

// reads reads from standard output until it has shown a text.
func (r *running) reads(t testing.TB, text string) {
	t.Helper()
	var got []byte
	for !bytes.HasSuffix(got, []byte(text)) {
		b, err := r.out.ReadByte()
		if err != nil {
			t.Fatalf("standard output ended before %q: %q\n%s", text, got, r.stderr)
		}
		got = append(got, b)
	}
}

// interrupt is Ctrl-C; it gives the rest of standard output and the exit code.
func (r *running) interrupt(t testing.TB) (string, int) {
	t.Helper()
	r.cmd.Process.Signal(os.Interrupt)
	return r.wait(t)
}

// wait gives the rest of standard output and the exit code.
func (r *running) wait(t testing.TB) (string, int) {
	t.Helper()
	rest, err := io.ReadAll(r.out)
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Wait() // the exit code says how it ended
	if strings.Contains(r.stderr.String(), "DATA RACE") {
		t.Error(r.stderr)
	}
	return string(rest), r.cmd.ProcessState.ExitCode()
}

// jsonLines decodes JSON, one object a line.
func jsonLines(t testing.TB, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		out = append(out, decode(t, line))
	}
	return out
}
