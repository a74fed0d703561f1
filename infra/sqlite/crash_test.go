package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"refold/domain/event"
	"refold/infra/sqlite"
)

// crashFile names the database that a child process works on until it is killed.
const crashFile = "REFOLD_TEST_CRASH_FILE"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(crashFile) != "":
		appendForever(os.Getenv(crashFile))
	case os.Getenv(holdFile) != "":
		hold(os.Getenv(holdFile))
	default:
		os.Exit(m.Run())
	}
}

// appendForever appends with eight writers, facts and deltas, and prints each
// acknowledged append as "category stream version".
func appendForever(path string) {
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	s := db.Events()
	var out sync.Mutex
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			st := event.Stream{Tenant: "t", Category: []string{"run", event.CategoryDelta}[w%2], ID: fmt.Sprint(os.Getpid(), "-", w)}
			for v := int64(0); ; {
				batch := make([]event.New, 1+int(v)%3)
				for i := range batch {
					batch[i] = event.New{ID: fmt.Sprint(st.ID, "-", v+int64(i)), Type: "Happened", Schema: 1, Data: fmt.Appendf(nil, `{"pad":%q}`, strings.Repeat("x", int(v*37%3000)))}
				}
				a, err := s.Append(context.Background(), st, event.Exactly(v), batch...)
				if err != nil {
					fmt.Println("error", err)
					os.Exit(1)
				}
				v = a.Version
				out.Lock()
				fmt.Println(st.Category, st.ID, v) // one write: a line is there whole or not
				out.Unlock()
			}
		})
	}
	wg.Wait()
}

// TestKill kills a process that appends, ten times, and finds every
// acknowledged event again, with no hole in any stream.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refold.db")
	acknowledged := map[event.Stream]int64{}
	for round := range 10 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashFile+"="+path)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The moment is random in what the child has done, not in time.
		last := 1 + rand.IntN(400)
		lines := bufio.NewScanner(pipe)
		for n := 0; lines.Scan(); n++ {
			if n == last {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			f := strings.Fields(lines.Text())
			if len(f) != 3 || f[0] == "error" {
				t.Fatalf("the child said %q", lines.Text())
			}
			v, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			acknowledged[event.Stream{Tenant: "t", Category: f[0], ID: f[1]}] = v
		}
		_ = cmd.Wait() // killed
		check(t, path, acknowledged)
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
}

func check(t *testing.T, path string, acknowledged map[event.Stream]int64) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := db.Events()
	versions := map[event.Stream]int64{}
	var at event.Position
	for {
		page, upTo, err := s.Scan(t.Context(), at, event.Filter{Categories: []string{"run", event.CategoryDelta}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			versions[r.Stream]++
			if r.Version != versions[r.Stream] {
				t.Fatalf("version %d of %s where %d was due", r.Version, r.Stream, versions[r.Stream])
			}
		}
		if upTo == at {
			break
		}
		at = upTo
	}
	for st, v := range acknowledged {
		if versions[st] < v {
			t.Errorf("%s was acknowledged up to %d, %d are there", st, v, versions[st])
		}
		if err := s.Trim(t.Context(), event.Stream{Tenant: "t", Category: event.CategoryDelta, ID: "unknown"}); err != nil {
			t.Error(err)
		}
	}
	if n, err := db.Integrity(t.Context()); err != nil || n != "ok" {
		t.Errorf("integrity check: %s, %v", n, err)
	}
}

// holdFile names the database that a child process opens and holds until its
// standard input ends.
const holdFile = "REFOLD_TEST_HOLD_FILE"

func hold(path string) {
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	st := event.Stream{Tenant: "t", Category: "run", ID: "held"}
	in := bufio.NewScanner(os.Stdin)
	for v := int64(0); ; v++ {
		_, err := db.Events().Append(context.Background(), st, event.Exactly(v), event.New{ID: fmt.Sprint("held-", v), Type: "Happened", Schema: 1, Data: []byte("1")})
		fmt.Println("appended", v+1, err)
		if !in.Scan() {
			break
		}
	}
	if err := db.Close(); err != nil {
		fmt.Println("error", err)
	}
}

// TestOtherProcess opens a file that another process serves: for serving it is
// refused, for reading it works and sees what comes.
func TestOtherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refold.db")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holdFile+"="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the other process said %q, want %q", lines.Text(), want)
		}
	}
	expect("appended 1 <nil>")
	for _, other := range []string{path, link(t, path)} {
		_, err = sqlite.Open(t.Context(), other, sqlite.Options{})
		unavailable(t, err, path, "in use by process "+strconv.Itoa(cmd.Process.Pid), "stop")
		_, _, err = sqlite.Migrate(t.Context(), other)
		unavailable(t, err, path, "in use")
	}
	if v, err := sqlite.Version(t.Context(), path); err != nil || v != sqlite.Latest {
		t.Fatalf("version %d, %v", v, err)
	}
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := db.Events()
	got, at, err := s.Scan(t.Context(), "", event.Filter{}, 0)
	if err != nil || len(got) != 1 {
		t.Fatalf("%d events, %v", len(got), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waited := make(chan error, 1)
	go func() { waited <- s.Wait(ctx, at) }()
	if _, err := stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	expect("appended 2 <nil>")
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Scan(t.Context(), at, event.Filter{}, 0); err != nil || len(got) != 1 || got[0].Version != 2 {
		t.Fatalf("%d events, %v", len(got), err)
	}
	_, err = s.Append(t.Context(), got[0].Stream, event.Exactly(2), event.New{ID: "x", Type: "X", Schema: 1})
	unavailable(t, err, "read-only")
	if _, err := db.Blobs().Put(t.Context(), "t", []byte("x")); err == nil {
		t.Error("wrote a blob read-only")
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Scan(t.Context(), "", event.Filter{}, 0); err != nil || len(got) != 2 {
		t.Fatalf("after the server has gone: %d events, %v", len(got), err)
	}
	open(t, path) // the lock went with its owner
}

func link(t *testing.T, path string) string {
	other := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, other); err != nil {
		t.Fatal(err)
	}
	return other
}
