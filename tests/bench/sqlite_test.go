// Package bench measures Refold beside bare comparators in the same run; what
// counts are the ratios. Run it with go test -bench.
package bench

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
	"refold/projections"
)

// payload is about as large as one step of an agent.
var payload = fmt.Appendf(nil, `{"round":3,"text":%q}`, slices.Repeat([]byte("A sentence of a thought. "), 25))

var meta = event.Metadata{Correlation: "0199a3c1-6a5b-7c3e-9d2f-000000000001", Causation: "0199a3c1-6a5b-7c3e-9d2f-000000000002", Command: "RecordReply", Actor: "runner"}

var ids atomic.Int64

func step() event.New {
	return event.New{ID: fmt.Sprintf("0199a3c1-6a5b-7c3e-9d2f-%012x", ids.Add(1)), Type: "Thought", Schema: 1, Time: time.Now(), Meta: meta, Data: payload}
}

func fresh(b *testing.B) *sqlite.DB {
	b.Helper()
	db, err := sqlite.Open(context.Background(), filepath.Join(b.TempDir(), "refold.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

// native is a bare connection to a file with Refold's schema and settings.
func native(b *testing.B, path string) *sqlite3.Conn {
	b.Helper()
	conn, err := sqlite3.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	if err := conn.Exec("PRAGMA synchronous=FULL; PRAGMA cache_size=-8000; PRAGMA wal_autocheckpoint=2000"); err != nil {
		b.Fatal(err)
	}
	return conn
}

func prepare(b *testing.B, conn *sqlite3.Conn, sql string) *sqlite3.Stmt {
	b.Helper()
	s, _, err := conn.Prepare(sql)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func median(d []time.Duration) float64 { return quantile(d, 0.5) }

func quantile(d []time.Duration, q float64) float64 {
	slices.Sort(d)
	return float64(d[int(float64(len(d)-1)*q)].Nanoseconds())
}

// BenchmarkSQLiteAppendBesideInsert is G1: one caller, FULL, in turns with a
// bare prepared INSERT into the same schema.
func BenchmarkSQLiteAppendBesideInsert(b *testing.B) {
	// Two files in one directory, so that neither waits for the other.
	ours, theirs := fresh(b), fresh(b)
	path := theirs.Path()
	if err := theirs.Close(); err != nil {
		b.Fatal(err)
	}
	insert := prepare(b, native(b, path), "INSERT INTO event (position, feed, stream, version, schema, time, id, type, meta, data) VALUES (?, 1, 1, ?, 1, ?, ?, ?, ?, ?)")
	const metaText = `{"correlation":"0199a3c1-6a5b-7c3e-9d2f-000000000001","causation":"0199a3c1-6a5b-7c3e-9d2f-000000000002","command":"RecordReply","actor":"runner"}`
	st := event.Stream{Tenant: "t", Category: "run", ID: "one"}
	var appends, inserts []time.Duration
	v := int64(0)
	for b.Loop() {
		for range 100 {
			e := step()
			start := time.Now()
			if _, err := ours.Events().Append(context.Background(), st, event.Exactly(v), e); err != nil {
				b.Fatal(err)
			}
			appends = append(appends, time.Since(start))
			v++
		}
		for i := range int64(100) {
			e := step()
			n := v - 100 + i + 1
			start := time.Now()
			if err := errors.Join(insert.BindInt64(1, n), insert.BindInt64(2, n), insert.BindInt64(3, e.Time.UnixNano()), insert.BindText(4, e.ID),
				insert.BindText(5, e.Type), insert.BindText(6, metaText), insert.BindBlob(7, e.Data), insert.Exec()); err != nil {
				b.Fatal(err)
			}
			inserts = append(inserts, time.Since(start))
		}
	}
	b.ReportMetric(median(appends)/1000, "p50-append-µs")
	b.ReportMetric(median(inserts)/1000, "p50-insert-µs")
	b.ReportMetric(median(appends)/median(inserts), "append/insert")
}

// BenchmarkSQLiteAppend is G2: callers with a stream each.
func BenchmarkSQLiteAppend(b *testing.B) {
	rates := map[int]float64{}
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := fresh(b).Events()
			var left atomic.Int64
			left.Store(int64(b.N))
			waits := make([][]time.Duration, callers)
			var wg sync.WaitGroup
			b.ResetTimer()
			for c := range callers {
				st := event.Stream{Tenant: "t", Category: "run", ID: fmt.Sprint(c)}
				wg.Go(func() {
					for v := int64(0); left.Add(-1) >= 0; v++ {
						start := time.Now()
						if _, err := s.Append(context.Background(), st, event.Exactly(v), step()); err != nil {
							b.Error(err)
							return
						}
						waits[c] = append(waits[c], time.Since(start))
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			all := slices.Concat(waits...)
			rates[callers] = float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rates[callers], "events/s")
			b.ReportMetric(quantile(all, 0.99)/1e6, "p99-ms")
			if rates[1] > 0 && callers > 1 {
				b.ReportMetric(rates[callers]/rates[1], "x-of-one-caller")
			}
		})
	}
}

// filled is a log of n events in streams of a thousand.
func filled(b *testing.B, n int) *sqlite.DB {
	b.Helper()
	db := fresh(b)
	batch := make([]event.New, 1000)
	for i := range n / len(batch) {
		for j := range batch {
			batch[j] = step()
		}
		if _, err := db.Events().Append(context.Background(), event.Stream{Tenant: "t", Category: "run", ID: fmt.Sprint(i)}, event.NoStream(), batch...); err != nil {
			b.Fatal(err)
		}
	}
	return db
}

// BenchmarkSQLiteReaders is G3: streams of a thousand events, read by one and by
// eight at a time.
func BenchmarkSQLiteReaders(b *testing.B) {
	s := filled(b, 16_000).Events()
	read := func(readers, streams int) time.Duration {
		var next atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for range readers {
			wg.Go(func() {
				for i := next.Add(1); i <= int64(streams); i = next.Add(1) {
					got, err := s.Read(context.Background(), event.Stream{Tenant: "t", Category: "run", ID: fmt.Sprint(i % 16)}, 0, 1000)
					if err != nil || len(got) != 1000 {
						b.Errorf("%d events, %v", len(got), err)
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	read(8, 64)
	var one, eight []time.Duration
	for b.Loop() {
		one = append(one, read(1, 64))
		eight = append(eight, read(8, 64))
	}
	b.ReportMetric(64_000/(median(one)/1e9), "events/s-one")
	b.ReportMetric(64_000/(median(eight)/1e9), "events/s-eight")
	b.ReportMetric(median(one)/median(eight), "eight/one")
}

// BenchmarkSQLiteScanBesideNative is G5: catch-up over the whole log, in turns
// with a bare statement that reads the same columns into the same kind of Go
// values.
func BenchmarkSQLiteScanBesideNative(b *testing.B) {
	const n = 20_000
	db := filled(b, n)
	s := db.Events()
	conn := native(b, db.Path())
	all := prepare(b, conn, "SELECT position, version, schema, time, id, type, meta, data, feed, stream FROM event WHERE position > ? ORDER BY position")
	scan := func(f event.Filter) time.Duration {
		start, at, seen := time.Now(), event.Position(""), 0
		for {
			page, upTo, err := s.Scan(context.Background(), at, f, 0)
			if err != nil {
				b.Fatal(err)
			}
			seen += len(page)
			if upTo == at {
				break
			}
			at = upTo
		}
		if seen != n {
			b.Fatalf("scan saw %d events", seen)
		}
		return time.Since(start)
	}
	bare := func() time.Duration {
		start, seen := time.Now(), 0
		if err := all.BindInt64(1, 0); err != nil {
			b.Fatal(err)
		}
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
			b.Fatalf("native scan saw %d events, %v", seen, err)
		}
		return time.Since(start)
	}
	scan(event.Filter{})
	bare()
	var ours, theirs, filtered []time.Duration
	for b.Loop() {
		ours = append(ours, scan(event.Filter{}))
		theirs = append(theirs, bare())
		filtered = append(filtered, scan(event.Filter{Tenant: "t", Categories: []string{"run"}}))
	}
	b.ReportMetric(n/(median(ours)/1e9), "events/s")
	b.ReportMetric(n/(median(theirs)/1e9), "events/s-native")
	b.ReportMetric(median(theirs)/median(ours), "scan/native")
	b.ReportMetric(median(theirs)/median(filtered), "filtered/native")
}

// BenchmarkSQLiteOpen is the start on an existing file of 20,000 events.
func BenchmarkSQLiteOpen(b *testing.B) {
	db := filled(b, 20_000)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		again, err := sqlite.Open(context.Background(), db.Path(), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := again.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSQLiteCreate is the start without a file, with the migrations.
func BenchmarkSQLiteCreate(b *testing.B) {
	for b.Loop() {
		db, err := sqlite.Open(context.Background(), filepath.Join(b.TempDir(), "refold.db"), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSQLiteFind is a page of 20 out of 100,000 documents.
func BenchmarkSQLiteFind(b *testing.B) {
	d := fresh(b).Documents()
	const n = 100_000
	var last event.Position
	begin := time.Now()
	for i := 0; i < n; i += 1000 {
		batch := projections.Batch{Projection: "sessions@1", From: last, To: event.Position(fmt.Sprintf("%016x", i+1))}
		for j := range 1000 {
			k := i + j
			batch.Put = append(batch.Put, projections.Document{
				Key:  projections.Key{Collection: "sessions@1", Tenant: "t", ID: fmt.Sprintf("session-%06d", k)},
				Body: fmt.Appendf(nil, `{"id":%d,"title":"A conversation about something"}`, k),
				Index: map[string]any{"pinned": k%1000 == 0, "updated": int64(k * 7919 % n), "title": fmt.Sprintf("Conversation %d", k),
					"owner": fmt.Sprintf("user-%d", k%50)}})
		}
		if err := d.Commit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		last = batch.To
	}
	b.Logf("%.0f puts/s", n/time.Since(begin).Seconds())
	updated := projections.Order{Field: "updated", Desc: true}
	for _, c := range []struct {
		name string
		q    projections.Query
	}{
		{"by id", projections.Query{}},
		{"one order", projections.Query{OrderBy: []projections.Order{updated}}},
		{"one order and total", projections.Query{OrderBy: []projections.Order{updated}, CountTotal: true}},
		{"two orders", projections.Query{OrderBy: []projections.Order{{Field: "pinned", Desc: true}, updated}}},
		{"equality and order", projections.Query{Where: []projections.Where{{Field: "owner", Op: "=", Value: "user-7"}}, OrderBy: []projections.Order{updated}}},
		{"wide equality, order, total", projections.Query{Where: []projections.Where{{Field: "pinned", Op: "=", Value: false}}, OrderBy: []projections.Order{updated}, CountTotal: true}},
		{"offset 1000", projections.Query{OrderBy: []projections.Order{updated}, Offset: 1000}},
		{"contains", projections.Query{Where: []projections.Where{{Field: "title", Op: "contains", Value: "TION 7"}}, OrderBy: []projections.Order{updated}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.q.Collection, c.q.Tenant = "sessions@1", "t"
			for b.Loop() {
				p, err := d.Find(context.Background(), c.q)
				if err != nil || len(p.Documents) != 20 {
					b.Fatalf("%d documents, %v", len(p.Documents), err)
				}
			}
		})
	}
	b.Run("one order in parallel", func(b *testing.B) {
		b.SetParallelism(4)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := d.Find(context.Background(), projections.Query{Collection: "sessions@1", Tenant: "t", OrderBy: []projections.Order{updated}, CountTotal: true}); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("commit of one", func(b *testing.B) {
		k := 0
		for b.Loop() {
			to := event.Position(fmt.Sprintf("%016x", n+k+1))
			doc := projections.Document{Key: projections.Key{Collection: "sessions@1", Tenant: "t", ID: fmt.Sprintf("session-%06d", k%n)}, Body: payload,
				Index: map[string]any{"pinned": false, "updated": int64(n + k), "title": "x", "owner": "user-1"}}
			if err := d.Commit(context.Background(), projections.Batch{Projection: "sessions@1", From: last, To: to, Put: []projections.Document{doc}}); err != nil {
				b.Fatal(err)
			}
			last = to
			k++
		}
	})
}
