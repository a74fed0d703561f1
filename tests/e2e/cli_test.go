package e2e

import (
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
