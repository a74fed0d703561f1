// Package services starts real servers for tests. It imports the standard
// library and pgx; only _test.go files import it. Start reading at Postgres.
package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// base is where servers that many tests share keep their data.
func base() string { return filepath.Join(os.TempDir(), "refold-services") }

// script is the path of a file beside this one.
func script(name string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), name)
}

// unavailable fails the test where CI is set, and skips it elsewhere.
func unavailable(t testing.TB, reason error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// run starts a script and gives what it prints.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(script(name), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		unavailable(t, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String()))
	}
	return strings.TrimSpace(string(out))
}

var shared struct {
	sync.Mutex
	dsn map[string]string
}

// Postgres gives the DSN of a fresh database, dropped after the test, on a
// server of a major version ("15", "18") that all tests share. It is the one
// that REFOLD_TEST_PG<version> names, or one that stays running under the
// folder for temporary files. Without a server the test is skipped with the
// reason; where CI is set it fails.
func Postgres(t testing.TB, version string) string {
	t.Helper()
	return Database(t, server(t, version))
}

func server(t testing.TB, version string) string {
	t.Helper()
	if dsn := os.Getenv("REFOLD_TEST_PG" + version); dsn != "" {
		return dsn
	}
	shared.Lock()
	defer shared.Unlock()
	if dsn := shared.dsn[version]; dsn != "" {
		return dsn
	}
	if err := os.MkdirAll(base(), 0o755); err != nil {
		unavailable(t, err)
	}
	// Packages are tested by processes of their own: one starts the server.
	unlock, err := lockFile(filepath.Join(base(), "postgres-"+version+".lock"))
	if err != nil {
		unavailable(t, err)
	}
	defer unlock()
	n, err := strconv.Atoi(version)
	if err != nil {
		t.Fatalf("PostgreSQL version %q", version)
	}
	dsn := run(t, "postgres-start", version, filepath.Join(base(), "postgres-"+version), strconv.Itoa(25400+n))
	if shared.dsn == nil {
		shared.dsn = map[string]string{}
	}
	shared.dsn[version] = dsn
	return dsn
}

var serial atomic.Int64

// Database makes a fresh database on a server and drops it after the test.
func Database(t testing.TB, server string) string {
	t.Helper()
	name := fmt.Sprintf("refold_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), serial.Add(1))
	admin := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err := pgx.Connect(ctx, server)
		if err != nil {
			return err
		}
		_, err = c.Exec(ctx, sql)
		return errors.Join(err, c.Close(ctx))
	}
	if err := admin("CREATE DATABASE " + name); err != nil {
		unavailable(t, fmt.Errorf("create a database for the test: %w", err))
	}
	t.Cleanup(func() {
		if err := admin("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Logf("drop the database of the test: %v", err)
		}
	})
	config, err := pgx.ParseConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", config.User, config.Password, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))), name)
}

// Own is a server that one test has for itself, to stop, crash and start again.
type Own struct {
	DSN string // of its first database

	t            testing.TB
	version, dir string
	port         string
}

// OwnPostgres starts a server for one test alone. Without one the test ends as
// with Postgres.
func OwnPostgres(t testing.TB, version string) *Own {
	t.Helper()
	dir, err := os.MkdirTemp("", "refold-pg-") // t.TempDir is not open to the server's user
	if err != nil {
		t.Fatal(err)
	}
	// What was installed for the shared server serves this one, too.
	if os.Getenv("REFOLD_TEST_PG"+version) == "" {
		server(t, version)
		if venv := filepath.Join(base(), "postgres-"+version, "venv"); exists(venv) {
			if err := os.Symlink(venv, filepath.Join(dir, "venv")); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := &Own{t: t, version: version, dir: dir, port: Port(t)}
	o.Start()
	t.Cleanup(func() {
		o.Stop("immediate")
		if err := os.RemoveAll(dir); err != nil {
			t.Log(err)
		}
	})
	return o
}

// Start starts the server again on the same port and waits until it answers.
func (o *Own) Start() {
	o.t.Helper()
	o.DSN = run(o.t, "postgres-start", o.version, o.dir, o.port)
}

// Stop ends the server: "fast" as an administrator would, "immediate" as a crash.
func (o *Own) Stop(how string) {
	o.t.Helper()
	if out, err := exec.Command(script("postgres-stop"), o.dir, how).CombinedOutput(); err != nil {
		o.t.Errorf("stop PostgreSQL: %v: %s", err, out)
	}
}

// Replica starts a read-only copy of the server that follows it, and gives its
// DSN.
func (o *Own) Replica() string {
	o.t.Helper()
	r := &Own{t: o.t, version: o.version, dir: o.dir + "-replica", port: Port(o.t)}
	config, err := pgx.ParseConfig(o.DSN)
	if err != nil {
		o.t.Fatal(err)
	}
	run(o.t, "postgres-copy", o.dir, r.dir, strconv.Itoa(int(config.Port)))
	o.t.Cleanup(func() {
		r.Stop("immediate")
		if err := os.RemoveAll(r.dir); err != nil {
			o.t.Log(err)
		}
	})
	r.Start()
	return r.DSN
}

// Pooler starts PgBouncer in front of a database, in "transaction" or "session"
// mode, and gives the DSN of the database through it. Without PgBouncer the test
// ends as with Postgres.
func Pooler(t testing.TB, dsn, mode string) string {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "refold-pool-")
	if err != nil {
		t.Fatal(err)
	}
	port := Port(t)
	t.Cleanup(func() {
		if out, err := exec.Command(script("pgbouncer-start"), "--stop", dir).CombinedOutput(); err != nil {
			t.Errorf("stop PgBouncer: %v: %s", err, out)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Log(err)
		}
	})
	run(t, "pgbouncer-start", dir, port, mode, config.Host, strconv.Itoa(int(config.Port)))
	return fmt.Sprintf("postgres://%s@127.0.0.1:%s/%s?sslmode=disable", config.User, port, config.Database)
}

// Port is a port that nobody listens on at the moment.
func Port(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
