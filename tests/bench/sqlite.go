//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
	"refold/infra/sqlite"
)

// payload is about as large as one step of an agent.
var payload = fmt.Appendf(nil, `{"round":3,"text":%q}`, slices.Repeat([]byte("A sentence of a thought. "), 25))

var meta = event.Metadata{Correlation: "0199a3c1-6a5b-7c3e-9d2f-000000000001", Causation: "0199a3c1-6a5b-7c3e-9d2f-000000000002", Command: "RecordReply", Actor: "runner"}

// metaText is meta as the stores keep it, for bare statements.
const metaText = `{"correlation":"0199a3c1-6a5b-7c3e-9d2f-000000000001","causation":"0199a3c1-6a5b-7c3e-9d2f-000000000002","command":"RecordReply","actor":"runner"}`

var ids atomic.Int64

func step() event.New {
	return event.New{ID: fmt.Sprintf("0199a3c1-6a5b-7c3e-9d2f-%012x", ids.Add(1)), Type: "Thought", Schema: 1, Time: time.Now(), Meta: meta, Data: payload}
}

func fresh(t testing.TB) *sqlite.DB {
	t.Helper()
	return openSQLite(t, filepath.Join(t.TempDir(), "refold.db"))
}

func openSQLite(t testing.TB, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
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

// native is a bare connection to a file with Refold's schema and settings.
func native(t *T, path string) *sqlite3.Conn {
	conn, err := sqlite3.Open(path)
	t.check(err)
	t.Cleanup(func() { conn.Close() })
	t.check(conn.Exec("PRAGMA synchronous=FULL; PRAGMA cache_size=-8000; PRAGMA wal_autocheckpoint=2000"))
	return conn
}

func prepared(t *T, conn *sqlite3.Conn, sql string) *sqlite3.Stmt {
	s, _, err := conn.Prepare(sql)
	t.check(err)
	t.Cleanup(func() { s.Close() })
	return s
}

// timed gives the middle of how long n calls took each, in milliseconds.
func timed(t *T, n int, f func() error) float64 {
	took := make([]time.Duration, n)
	for i := range took {
		start := time.Now()
		t.check(f())
		took[i] = time.Since(start)
	}
	return quantile(took, 0.5)
}

// appendOne is G1.
func appendOne(t *T) {
	// Two files, so that neither waits for the other.
	ours, theirs := fresh(t), fresh(t)
	path := theirs.Path()
	t.check(theirs.Close())
	insert := prepared(t, native(t, path), "INSERT INTO event (position, feed, stream, version, schema, time, id, type, meta, data) VALUES (?, 1, 1, ?, 1, ?, ?, ?, ?, ?)")
	st := event.Stream{Tenant: "t", Category: "run", ID: "one"}
	v, n := int64(0), int64(0)
	s := alternate(func() float64 {
		return timed(t, 500, func() error {
			_, err := ours.Events().Append(context.Background(), st, event.Exactly(v), step())
			v++
			return err
		})
	}, func() float64 {
		return timed(t, 500, func() error {
			e := step()
			n++
			return errors.Join(insert.BindInt64(1, n), insert.BindInt64(2, n), insert.BindInt64(3, e.Time.UnixNano()), insert.BindText(4, e.ID),
				insert.BindText(5, e.Type), insert.BindText(6, metaText), insert.BindBlob(7, e.Data), insert.Exec())
		})
	})
	t.add("append of one step, one caller, p50", "prepared INSERT, same schema", ratio(s[0], s[1]), atMost(1.15, "x"),
		"%.0f / %.0f µs", 1000*s[0].median(), 1000*s[1].median())
}

// appendMany is G2: callers with a stream each.
func appendMany(t *T) {
	s := fresh(t).Events()
	var p99 samples
	rate := func(callers int) func() float64 {
		streams, versions := make([]event.Stream, callers), make([]int64, callers)
		for c := range streams {
			streams[c] = event.Stream{Tenant: "t", Category: "run", ID: fmt.Sprint(callers, "-", c)}
		}
		return func() float64 {
			waits := make([][]time.Duration, callers)
			var wg sync.WaitGroup
			start := time.Now()
			for c := range callers {
				wg.Go(func() {
					for time.Since(start) < 500*time.Millisecond {
						began := time.Now()
						if _, err := s.Append(context.Background(), streams[c], event.Exactly(versions[c]), step()); err != nil {
							t.Error(err)
							return
						}
						versions[c]++
						waits[c] = append(waits[c], time.Since(began))
					}
				})
			}
			wg.Wait()
			took := time.Since(start).Seconds()
			all := slices.Concat(waits...)
			if callers == 256 {
				p99 = append(p99, quantile(all, 0.99))
			}
			return float64(len(all)) / took
		}
	}
	r := alternate(rate(1), rate(16), rate(256))
	t.add("append rate, 16 callers", "one caller, same store", ratio(r[1], r[0]), atLeast(4, "x"), "%.0f / %.0f a second", r[1].median(), r[0].median())
	t.add("append rate, 256 callers", "one caller, same store", ratio(r[2], r[0]), atLeast(10, "x"), "%.0f / %.0f a second", r[2].median(), r[0].median())
	t.add("append, 256 callers, p99", "", p99[1:].median(), atMost(15, "ms"), "")
}

// filled is a log of n events in streams of a thousand.
func filled(t testing.TB, n int) *sqlite.DB {
	t.Helper()
	db := fresh(t)
	batch := make([]event.New, 1000)
	for i := range n / len(batch) {
		for j := range batch {
			batch[j] = step()
		}
		if _, err := db.Events().Append(context.Background(), event.Stream{Tenant: "t", Category: "run", ID: fmt.Sprint(i)}, event.NoStream(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// readers is G3: streams of a thousand events, read by one and by eight at a time.
func readers(t *T) {
	s := filled(t, 16_000).Events()
	const streams = 200
	read := func(readers int) func() float64 {
		return func() float64 {
			var next atomic.Int64
			var wg sync.WaitGroup
			start := time.Now()
			for range readers {
				wg.Go(func() {
					for i := next.Add(1); i <= streams; i = next.Add(1) {
						got, err := s.Read(context.Background(), event.Stream{Tenant: "t", Category: "run", ID: fmt.Sprint(i % 16)}, 0, 1000)
						if err != nil || len(got) != 1000 {
							t.Errorf("%d events, %v", len(got), err)
							return
						}
					}
				})
			}
			wg.Wait()
			return streams * 1000 / time.Since(start).Seconds()
		}
	}
	r := alternate(read(8), read(1))
	t.add("8 parallel stream readers", "one reader", ratio(r[0], r[1]), atLeast(1.5, "x"), "%.0f / %.0f thousand events a second", r[0].median()/1000, r[1].median()/1000)
}

// catchUp is G5: a scan over the whole log, beside a bare statement that reads
// the same columns into the same kind of Go values.
func catchUp(t *T) {
	const n = 50_000
	db := filled(t, n)
	s := db.Events()
	conn := native(t, db.Path())
	all := prepared(t, conn, "SELECT position, version, schema, time, id, type, meta, data, feed, stream FROM event WHERE position > ? ORDER BY position")
	scan := func(f event.Filter) func() float64 {
		return func() float64 {
			start, at, seen := time.Now(), event.Position(""), 0
			for {
				page, upTo, err := s.Scan(context.Background(), at, f, 0)
				t.check(err)
				seen += len(page)
				if upTo == at {
					break
				}
				at = upTo
			}
			if seen != n {
				t.Fatalf("scan saw %d events", seen)
			}
			return n / time.Since(start).Seconds()
		}
	}
	bare := func() float64 {
		start, seen := time.Now(), 0
		t.check(all.BindInt64(1, 0))
		rows := make([]event.Raw, 0, 1000)
		for all.Step() {
			var r event.Raw
			_, r.Version, r.Schema = all.ColumnInt64(0), all.ColumnInt64(1), int(all.ColumnInt64(2))
			r.Time = time.Unix(0, all.ColumnInt64(3))
			r.ID, r.Type, r.Meta.Trace = all.ColumnText(4), all.ColumnText(5), all.ColumnText(6)
			r.Data = all.ColumnBlob(7, nil)
			_, _ = all.ColumnInt64(8), all.ColumnInt64(9)
			if len(rows) == cap(rows) {
				rows = make([]event.Raw, 0, 1000)
			}
			rows = append(rows, r)
			seen++
		}
		if err := errors.Join(all.Err(), all.Reset()); err != nil || seen != n {
			t.Fatalf("native scan saw %d events, %v", seen, err)
		}
		return n / time.Since(start).Seconds()
	}
	r := alternate(scan(event.Filter{}), bare, scan(event.Filter{Tenant: "t", Categories: []string{"run"}}))
	t.add("catch-up over the whole log", "native scan", ratio(r[0], r[1]), atLeast(0.7, "x"), "%.0f / %.0f thousand events a second", r[0].median()/1000, r[1].median()/1000)
	t.add("the same, by tenant and category", "native scan", ratio(r[2], r[1]), atLeast(0.7, "x"), "%.0f thousand events a second", r[2].median()/1000)
}
