package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"refold/domain/event"
	"refold/infra/postgres"
	"refold/tests/services"
)

var serial atomic.Int64

func events(n int) []event.New {
	out := make([]event.New, n)
	for i := range out {
		out[i] = event.New{ID: fmt.Sprint("event-", serial.Add(1)), Type: "Happened", Schema: 1, Data: []byte(`{"a":1}`)}
	}
	return out
}

func stream() event.Stream {
	return event.Stream{Tenant: "t", Category: "run", ID: fmt.Sprint("run-", serial.Add(1))}
}

func appendTo(t testing.TB, db *postgres.DB, st event.Stream, expect event.Expect, e ...event.New) event.Appended {
	t.Helper()
	a, err := db.Events().Append(t.Context(), st, expect, e...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func begin(t testing.TB, dsn string) pgx.Tx {
	t.Helper()
	tx, err := connect(t, dsn).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func write(t testing.TB, tx pgx.Tx) (event.Position, event.New) {
	t.Helper()
	e := events(1)
	p, err := postgres.Write(t.Context(), tx, stream(), event.NoStream(), e...)
	if err != nil || p == "" {
		t.Fatalf("write at %q: %v", p, err)
	}
	return p, e[0]
}

func commit(t testing.TB, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func exec(t testing.TB, c interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// scan gives all that can be read after a position, and where that ends.
func scan(t testing.TB, db *postgres.DB, after event.Position) (ids []string, upTo event.Position) {
	t.Helper()
	for {
		page, to, err := db.Events().Scan(t.Context(), after, event.Filter{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			ids = append(ids, e.ID)
		}
		if len(page) == 0 && to == after {
			return ids, to
		}
		after = to
	}
}

func got(t testing.TB, ids []string, want ...event.New) {
	t.Helper()
	var w []string
	for _, e := range want {
		w = append(w, e.ID)
	}
	if !slices.Equal(ids, w) {
		t.Fatalf("read %v, want %v", ids, w)
	}
}

// TestLateCommit is P79 with two connections: 41 commits after 42.
func TestLateCommit(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		dsn := services.Postgres(t, v)
		db := open(t, dsn)
		first := events(1)
		at := appendTo(t, db, stream(), event.NoStream(), first...).Position
		one, two := begin(t, dsn), begin(t, dsn)
		p1, e1 := write(t, one)
		p2, e2 := write(t, two)
		if p1 >= p2 {
			t.Fatalf("positions %s, %s", p1, p2)
		}
		commit(t, two)
		ids, upTo := scan(t, db, at)
		got(t, ids)
		if upTo != at {
			t.Fatalf("read up to %s, past %s which is still open", upTo, at)
		}
		if head, err := db.Events().Head(t.Context()); err != nil || head != at {
			t.Fatalf("head %s, %v", head, err)
		}
		// Another process that starts now must not miss it either.
		other := open(t, dsn)
		ids, _ = scan(t, other, "")
		if slices.Contains(ids, e2.ID) {
			t.Fatalf("a second process was shown what comes after an open transaction: %v", ids)
		}
		waiting := make(chan error, 2)
		for _, db := range []*postgres.DB{db, other} {
			go func() { waiting <- db.Events().Wait(t.Context(), at) }()
		}
		commit(t, one)
		for range 2 {
			if err := <-waiting; err != nil {
				t.Fatal(err)
			}
		}
		for _, db := range []*postgres.DB{db, other} {
			ids, upTo = scan(t, db, at)
			got(t, ids, e1, e2)
			if upTo != p2 {
				t.Fatalf("read up to %s, want %s", upTo, p2)
			}
		}
	})
}

// TestRollbackGap is P79 with a number that is never used: it stops nobody, also
// while transactions that write other tables stay open.
func TestRollbackGap(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		dsn := services.Postgres(t, v)
		db := open(t, dsn)
		at := appendTo(t, db, stream(), event.NoStream(), events(1)...).Position
		foreign := begin(t, dsn)
		exec(t, foreign, "CREATE TABLE foreign_table (n int)")
		exec(t, foreign, "INSERT INTO foreign_table VALUES (1)")
		lost, open1, after := begin(t, dsn), begin(t, dsn), begin(t, dsn)
		write(t, lost)
		_, e1 := write(t, open1)
		_, e2 := write(t, after)
		commit(t, after)
		if err := lost.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		ids, _ := scan(t, db, at)
		got(t, ids)
		commit(t, open1)
		ids, at = scan(t, db, at) // with the foreign transaction still open
		got(t, ids, e1, e2)
		// The same at the start of a process.
		lost = begin(t, dsn)
		p, _ := write(t, lost)
		last := events(1)
		appendTo(t, db, stream(), event.NoStream(), last...)
		other := open(t, dsn)
		if ids, _ := scan(t, other, ""); slices.Contains(ids, last[0].ID) {
			t.Fatal("passed an open transaction")
		}
		if err := lost.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, db := range []*postgres.DB{db, other} {
			ids, _ := scan(t, db, at)
			got(t, ids, last...)
		}
		if ids, _ := scan(t, db, p); len(ids) != 1 {
			t.Fatalf("after the number that was rolled back: %v", ids)
		}
		commit(t, foreign)
	})
}

// TestPrepared is a writer that hands its transaction over to the server.
func TestPrepared(t *testing.T) {
	t.Parallel()
	o := services.OwnPostgres(t, "15")
	exec(t, connect(t, o.DSN), "ALTER SYSTEM SET max_prepared_transactions = 5")
	o.Stop("fast")
	o.Start()
	db := open(t, o.DSN)
	at := appendTo(t, db, stream(), event.NoStream(), events(1)...).Position
	c := connect(t, o.DSN)
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, e1 := write(t, tx)
	e2 := events(1)
	appendTo(t, db, stream(), event.NoStream(), e2...)
	ids, _ := scan(t, db, at)
	got(t, ids)
	exec(t, tx, "PREPARE TRANSACTION 'x'")
	ids, _ = scan(t, db, at)
	got(t, ids)
	exec(t, connect(t, o.DSN), "COMMIT PREPARED 'x'")
	ids, _ = scan(t, db, at)
	got(t, ids, e1, e2[0])
}

// TestNaive runs sixteen writers of which each fiftieth append is rolled back,
// beside a foreign transaction that comes and goes. A reader that goes on from
// the highest position it saw misses some; ours misses none.
func TestNaive(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		const writers = 16
		total := 30_000
		if testing.Short() || v != versions[0] {
			total = 8_000
		}
		if n, err := strconv.Atoi(os.Getenv("REFOLD_TEST_TAIL")); err == nil { // G7 asks for a million
			total = n
		}
		dsn := services.Postgres(t, v)
		db := open(t, dsn)
		appendTo(t, db, stream(), event.NoStream(), events(1)...)
		start, err := db.Events().Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		config, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		config.MaxConns = writers + 2
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		exec(t, pool, "CREATE TABLE foreign_table (n int)")

		var mu sync.Mutex
		committed := map[string]bool{}
		var left atomic.Int64
		left.Store(int64(total))
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				st := stream()
				for v, i := int64(0), w; left.Add(-1) >= 0; i++ {
					e := events(1)
					lost := errors.New("rolled back")
					err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
						if i%100 == 0 { // commits that wait for the disk, too, now and then
							exec(t, tx, "SET LOCAL synchronous_commit = on")
						} else {
							exec(t, tx, "SET LOCAL synchronous_commit = off")
						}
						if _, err := postgres.Write(t.Context(), tx, st, event.Exactly(v), e...); err != nil {
							return err
						}
						if i%50 == 49 {
							return lost
						}
						return nil
					})
					if err == nil {
						v++
						mu.Lock()
						committed[e[0].ID] = true
						mu.Unlock()
					} else if !errors.Is(err, lost) {
						t.Error(err)
						return
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() { wg.Wait(); close(ended) }()
		var readers sync.WaitGroup
		readers.Go(func() { // a foreign transaction of half a second, again and again
			for {
				done := false
				if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(t.Context(), "INSERT INTO foreign_table VALUES (1)")
					select {
					case <-ended:
						done = true
					case <-time.After(500 * time.Millisecond):
					}
					return err
				}); err != nil {
					t.Error(err)
					return
				}
				if done {
					return
				}
			}
		})
		naive := map[string]bool{}
		readers.Go(func() {
			c, err := pgx.Connect(t.Context(), dsn)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close(context.Background())
			var last int64
			for {
				done := false
				select {
				case <-ended:
					done = true
				default:
				}
				rows, err := c.Query(t.Context(), "SELECT position, id FROM event WHERE position > $1 ORDER BY position", last)
				if err != nil {
					t.Error(err)
					return
				}
				var id string
				if _, err := pgx.ForEachRow(rows, []any{&last, &id}, func() error { naive[id] = true; return nil }); err != nil {
					t.Error(err)
					return
				}
				if done {
					return
				}
			}
		})
		seen, next := map[string]bool{}, map[event.Stream]int64{}
		final := make(chan event.Position, 1)
		go func() {
			<-ended
			readers.Wait()
			head, err := db.Events().Head(t.Context())
			if err != nil {
				t.Error(err)
			}
			final <- head
			appendTo(t, db, stream(), event.NoStream(), events(1)...) // wakes who waits
		}()
		var end event.Position
		errEnd := errors.New("end")
		err = event.Follow(t.Context(), db.Events(), start, event.Filter{}, func(batch []event.Raw, upTo event.Position) error {
			for _, e := range batch {
				next[e.Stream]++
				if seen[e.ID] || e.Version != next[e.Stream] {
					return fmt.Errorf("event %s, version %d of %s where %d was due", e.ID, e.Version, e.Stream, next[e.Stream])
				}
				seen[e.ID] = true
			}
			if end == "" {
				select {
				case end = <-final:
				default:
				}
			}
			if end != "" && upTo > end {
				return errEnd
			}
			return nil
		})
		if !errors.Is(err, errEnd) {
			t.Fatal(err)
		}
		missed, naiveMissed := 0, 0
		for id := range committed {
			if !seen[id] {
				missed++
			}
			if !naive[id] {
				naiveMissed++
			}
		}
		t.Logf("%d events; the naive reader missed %d, the follower %d", len(committed), naiveMissed, missed)
		if missed > 0 {
			t.Errorf("%d of %d events were missed", missed, len(committed))
		}
		if naiveMissed == 0 && total > 20_000 {
			t.Error("the naive reader missed nothing: this run has not tested the follower")
		}
	})
}

// TestSettled is what keeps a crash of the server from giving positions out
// again that somebody has seen.
func TestSettled(t *testing.T) {
	t.Parallel()
	o := services.OwnPostgres(t, "15")
	db := open(t, o.DSN)
	delta := event.Stream{Tenant: "t", Category: event.CategoryDelta, ID: "d"}
	var top event.Position
	for v := range int64(200) {
		top = appendTo(t, db, delta, event.Exactly(v), events(1)...).Position
		if settled := postgres.Mint(db.Settled()); settled < top {
			t.Fatalf("delta at %s, the disk knows of numbers up to %s", top, settled)
		}
	}
	o.Stop("immediate")
	o.Start()
	fact := events(1)
	if p := appendTo(t, db, stream(), event.NoStream(), fact...).Position; p <= top {
		t.Fatalf("position %s after the crash, %s was seen before it", p, top)
	}
	ids, _ := scan(t, db, top)
	got(t, ids, fact...)
	if !strings.HasPrefix(string(top), "0000") {
		t.Fatal(top)
	}
}
