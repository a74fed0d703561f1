package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The binaries under test, built once.
var (
	serverBinary string // the server with tools for tests
	refoldBinary string // the product
)

// hang bounds every wait of a test. It is a guard against hanging and nothing
// is measured with it.
const hang = 3 * time.Minute

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "refold-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	serverBinary, refoldBinary = filepath.Join(dir, "refold-e2e"), filepath.Join(dir, "refold")
	for out, pkg := range map[string]string{serverBinary: serverPackage, refoldBinary: "refold/infra/cmd/refold"} {
		if err := build(out, pkg, buildFlags...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	// The user's own settings must not reach the processes under test.
	for _, name := range []string{"REFOLD_DATA", "REFOLD_CONFIG", "REFOLD_ADDR", "REFOLD_API_KEY", "REFOLD_MODEL", "REFOLD_MODEL_URL",
		"REFOLD_MODEL_KEY", "OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "E2E_CONFIG"} {
		os.Unsetenv(name)
	}
	return checked(m.Run())
}

const serverPackage = "refold/tests/e2e/cmd/refold-e2e"

func build(out, pkg string, flags ...string) error {
	args := append(append([]string{"build"}, flags...), "-o", out, pkg)
	if text, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// plainServer is the server without the race detector, built when it is needed.
var plainServer = sync.OnceValues(func() (string, error) {
	if len(buildFlags) == 0 {
		return serverBinary, nil
	}
	out := serverBinary + "-plain"
	return out, build(out, serverPackage)
})

// guarded gives a context that ends with the test, or when the test hangs.
func guarded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	return ctx
}
