//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"refold/domain/event"
	"refold/infra/postgres"
	"refold/tests/services"
)

// pgVersion is the server that is measured.
const pgVersion = "15"

func freshPostgres(t testing.TB, o postgres.Options) (*postgres.DB, string) {
	t.Helper()
	dsn := services.Postgres(t, pgVersion)
	return openPostgres(t, dsn, o), dsn
}

func openPostgres(t testing.TB, dsn string, o postgres.Options) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(context.Background(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// plainInsert is the bare comparator: one INSERT into the same table with the
// same indexes, nothing checked.
const plainInsert = `INSERT INTO event (position, feed, stream, version, time, schema, id, type, meta, data)
VALUES (nextval('event_position'), 1, $1, $2, $3, 1, $4, $5, $6, $7)`

// plainStream numbers streams of plain inserts, far from those of Refold.
var plainStream atomic.Int64

func init() { plainStream.Store(1 << 40) }

// callers runs f n at a time for half a second and gives how often a second.
func callers(t *T, n int, f func(caller int) error) float64 {
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for c := range n {
		wg.Go(func() {
			for time.Since(start) < 500*time.Millisecond {
				if err := f(c); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

// appender gives a function that appends to a stream of each caller.
func appender(s event.Store, n int) func(int) error {
	streams, versions := make([]event.Stream, n), make([]int64, n)
	for i := range streams {
		streams[i] = event.Stream{Tenant: "t", Category: "run", ID: fmt.Sprint(ids.Add(1))}
	}
	return func(c int) error {
		a, err := s.Append(context.Background(), streams[c], event.Exactly(versions[c]), step())
		versions[c] = a.Version
		return err
	}
}

// appendPostgres is G6: one caller beside a bare INSERT, and 64 callers beside
// 64 bare INSERTs at once, each on a connection of its own.
func appendPostgres(t *T) {
	const n = 64
	db, dsn := freshPostgres(t, postgres.Options{})
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(dsn)
	t.check(err)
	config.MaxConns = n
	pool, err := pgxpool.NewWithConfig(ctx, config)
	t.check(err)
	defer pool.Close()
	conn, err := pgx.Connect(ctx, dsn)
	t.check(err)
	defer conn.Close(ctx)
	one, v, other := appender(db.Events(), 1), int64(0), plainStream.Add(1)
	s := alternate(func() float64 {
		return timed(t, 300, func() error { return one(0) })
	}, func() float64 {
		return timed(t, 300, func() error {
			e := step()
			v++
			_, err := conn.Exec(ctx, plainInsert, other, v, e.Time.UnixNano(), e.ID, e.Type, metaText, e.Data)
			return err
		})
	})
	t.add("PostgreSQL append, one caller, p50", "plain INSERT, same table", ratio(s[0], s[1]), atMost(1.3, "x"), "%.0f / %.0f µs", 1000*s[0].median(), 1000*s[1].median())
	versions, stream := make([]int64, n), plainStream.Add(n)
	batched := appender(db.Events(), n)
	r := alternate(func() float64 { return callers(t, n, batched) }, func() float64 {
		return callers(t, n, func(c int) error {
			e := step()
			versions[c]++
			_, err := pool.Exec(ctx, plainInsert, stream-int64(c), versions[c], e.Time.UnixNano(), e.ID, e.Type, metaText, e.Data)
			return err
		})
	})
	t.add("PostgreSQL append, 64 callers, batched", "64 plain INSERTs at once", ratio(r[0], r[1]), atLeast(1.6, "x"), "%.0f / %.0f a second", r[0].median(), r[1].median())
}

// followPostgres is G7. The delay is from the answer to an append in one process
// until a follower in another has the event, with 4 writers and no rollbacks.
// What the follower and the naive reader miss is the proof of the store's own
// tests, with more events.
func followPostgres(t *T) {
	db, dsn := freshPostgres(t, postgres.Options{})
	other := openPostgres(t, dsn, postgres.Options{})
	first := appender(db.Events(), 1)
	t.check(first(0))
	head, err := other.Events().Head(context.Background())
	t.check(err)
	var answered sync.Map // event id -> when
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	followed := make(chan error, 1)
	go func() {
		followed <- event.Follow(ctx, other.Events(), head, event.Filter{}, func(batch []event.Raw, _ event.Position) error {
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			for _, e := range batch {
				if at, ok := answered.Load(e.ID); ok {
					took = append(took, max(now.Sub(at.(time.Time)), 0))
				} else {
					took = append(took, 0) // it was there before its writer was answered
				}
			}
			return nil
		})
	}()
	const writers = 4
	streams, versions := [writers]event.Stream{}, [writers]int64{}
	for i := range streams {
		streams[i] = event.Stream{Tenant: "t", Category: "run", ID: fmt.Sprint(ids.Add(1))}
	}
	s := alternate(func() float64 {
		mu.Lock()
		took = nil
		mu.Unlock()
		callers(t, writers, func(c int) error {
			e := step()
			_, err := db.Events().Append(ctx, streams[c], event.Exactly(versions[c]), e)
			answered.Store(e.ID, time.Now())
			versions[c]++
			time.Sleep(2 * time.Millisecond) // a steady load, not saturation
			return err
		})
		mu.Lock()
		defer mu.Unlock()
		return quantile(took, 0.5)
	})
	cancel()
	if err := <-followed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	t.add("PostgreSQL tail, another process, p50", "", s[0].median(), atMost(5, "ms"), "")

	total := 100_000
	if t.full {
		total = 1_000_000
	}
	out := t.suite([]string{"REFOLD_TEST_TAIL=" + strconv.Itoa(total)}, "./infra/postgres", "-run", "^TestNaive$/^"+pgVersion+"$")
	m := regexp.MustCompile(`(\d+) events; the naive reader missed (\d+), the follower (\d+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatal("the test says nothing about what was missed: " + tail(out))
	}
	events, naive, missed := number(m[1]), number(m[2]), number(m[3])
	what := "tail of " + thousands(int64(events)) + " events, 16 writers, 2 % rolled back"
	t.add(what, "naive reader in the same run", missed, atMost(0, "missed"), "")
	t.add("the naive reader there", "", naive, atLeast(1, "missed"), "")
}

func number(s string) float64 {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// suite runs a test of the product and gives its output.
func (t *T) suite(env []string, pkg string, args ...string) string {
	cmd := exec.Command("go", append(append([]string{"test", "-count=1", "-v", "-timeout", "20m"}, args...), pkg)...)
	cmd.Dir, cmd.Env = t.root, append(append(os.Environ(), "CI=1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", pkg, err, tail(string(out)))
	}
	return string(out)
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

// wakeUps is G8: 64 callers with wake-ups on, and with a handle of the same
// database that sends and takes none.
func wakeUps(t *T) {
	const n = 64
	on, dsn := freshPostgres(t, postgres.Options{})
	off := openPostgres(t, dsn, postgres.Options{Quiet: true})
	loud, quiet := appender(on.Events(), n), appender(off.Events(), n)
	r := alternate(func() float64 { return callers(t, n, loud) }, func() float64 { return callers(t, n, quiet) })
	t.add("PostgreSQL append rate, wake-ups on", "wake-ups off", ratio(r[0], r[1]), atLeast(0.9, "x"), "%.0f / %.0f a second", r[0].median(), r[1].median())
}
