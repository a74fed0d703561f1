package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"refold/domain/event"
	"refold/infra/postgres"
	"refold/projections"
	"refold/tests/services"
)

// pgVersion is the server that is measured.
const pgVersion = "15"

func freshPostgres(b *testing.B, o postgres.Options) (*postgres.DB, string) {
	b.Helper()
	dsn := services.Postgres(b, pgVersion)
	return openPostgres(b, dsn, o), dsn
}

func openPostgres(b *testing.B, dsn string, o postgres.Options) *postgres.DB {
	b.Helper()
	db, err := postgres.Open(context.Background(), dsn, o)
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

// plainInsert is the bare comparator: one INSERT into the same table with the
// same indexes, nothing checked.
const plainInsert = `INSERT INTO event (position, feed, stream, version, time, schema, id, type, meta, data)
VALUES (nextval('event_position'), 1, $1, $2, $3, 1, $4, $5, $6, $7)`

const plainMeta = `{"correlation":"0199a3c1-6a5b-7c3e-9d2f-000000000001","causation":"0199a3c1-6a5b-7c3e-9d2f-000000000002","command":"RecordReply","actor":"runner"}`

// plainStream numbers streams of plain inserts, far from those of Refold.
var plainStream atomic.Int64

func init() { plainStream.Store(1 << 40) }

// BenchmarkPostgresAppendBesideInsert is the first half of G6: one caller, in
// turns with a bare INSERT on a connection of its own.
func BenchmarkPostgresAppendBesideInsert(b *testing.B) {
	db, dsn := freshPostgres(b, postgres.Options{})
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(ctx)
	st := event.Stream{Tenant: "t", Category: "run", ID: "one"}
	other := plainStream.Add(1)
	var appends, inserts []time.Duration
	v := int64(0)
	for b.Loop() {
		for range 50 {
			e := step()
			start := time.Now()
			if _, err := db.Events().Append(ctx, st, event.Exactly(v), e); err != nil {
				b.Fatal(err)
			}
			appends = append(appends, time.Since(start))
			v++
			e = step()
			start = time.Now()
			if _, err := conn.Exec(ctx, plainInsert, other, v, e.Time.UnixNano(), e.ID, e.Type, plainMeta, e.Data); err != nil {
				b.Fatal(err)
			}
			inserts = append(inserts, time.Since(start))
		}
	}
	b.ReportMetric(median(appends)/1000, "p50-append-µs")
	b.ReportMetric(median(inserts)/1000, "p50-insert-µs")
	b.ReportMetric(median(appends)/median(inserts), "append/insert")
}

// callers run f until a time has passed and give how often it was run in a second.
func callers(b *testing.B, n int, d time.Duration, f func(caller int) error) float64 {
	b.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for c := range n {
		wg.Go(func() {
			for time.Since(start) < d {
				if err := f(c); err != nil {
					b.Error(err)
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

// BenchmarkPostgresBatched is the second half of G6: 64 callers, in turns with 64
// bare INSERTs at once, each on a connection of its own.
func BenchmarkPostgresBatched(b *testing.B) {
	const n = 64
	db, dsn := freshPostgres(b, postgres.Options{})
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = n
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	versions, stream := make([]int64, n), plainStream.Add(n)
	unbatched := func(c int) error {
		e := step()
		versions[c]++
		_, err := pool.Exec(context.Background(), plainInsert, stream-int64(c), versions[c], e.Time.UnixNano(), e.ID, e.Type, plainMeta, e.Data)
		return err
	}
	batched := appender(db.Events(), n)
	var with, without []time.Duration // a million events
	for b.Loop() {
		with = append(with, time.Duration(1e15/callers(b, n, 300*time.Millisecond, batched)))
		without = append(without, time.Duration(1e15/callers(b, n, 300*time.Millisecond, unbatched)))
	}
	b.ReportMetric(1e15/median(with), "events/s-batched")
	b.ReportMetric(1e15/median(without), "events/s-unbatched")
	b.ReportMetric(median(without)/median(with), "batched/unbatched")
}

// BenchmarkPostgresTail is G7: from the answer to an append in one process until
// a follower in another has the event, with 4 writers and no rollbacks. The
// comparator asks for what is past the last position without pause.
func BenchmarkPostgresTail(b *testing.B) {
	db, dsn := freshPostgres(b, postgres.Options{})
	other := openPostgres(b, dsn, postgres.Options{})
	if _, err := db.Events().Append(context.Background(), event.Stream{Tenant: "t", Category: "run", ID: "first"}, event.NoStream(), step()); err != nil {
		b.Fatal(err)
	}
	head, err := other.Events().Head(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	var answered sync.Map // event id -> when
	ctx, cancel := context.WithCancel(context.Background())
	var took []time.Duration
	followed := make(chan error, 1)
	go func() {
		followed <- event.Follow(ctx, other.Events(), head, event.Filter{}, func(batch []event.Raw, _ event.Position) error {
			now := time.Now()
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
	total := 0
	for b.Loop() {
		total += int(callers(b, writers, 300*time.Millisecond, func(c int) error {
			e := step()
			_, err := db.Events().Append(ctx, streams[c], event.Exactly(versions[c]), e)
			answered.Store(e.ID, time.Now())
			versions[c]++
			time.Sleep(2 * time.Millisecond) // a steady load, not saturation
			return err
		}) * 0.3)
	}
	cancel()
	if err := <-followed; !errors.Is(err, context.Canceled) {
		b.Fatal(err)
	}
	b.ReportMetric(median(took)/1e6, "p50-ms")
	b.ReportMetric(quantile(took, 0.99)/1e6, "p99-ms")
}

// BenchmarkPostgresWakeups is G8: 64 callers with wake-ups on, in turns with a
// handle of the same database that sends and takes none.
func BenchmarkPostgresWakeups(b *testing.B) {
	const n = 64
	on, dsn := freshPostgres(b, postgres.Options{})
	off := openPostgres(b, dsn, postgres.Options{Quiet: true})
	loud, quiet := appender(on.Events(), n), appender(off.Events(), n)
	var with, without []time.Duration
	for b.Loop() {
		with = append(with, time.Duration(1e15/callers(b, n, 300*time.Millisecond, loud)))
		without = append(without, time.Duration(1e15/callers(b, n, 300*time.Millisecond, quiet)))
	}
	b.ReportMetric(1e15/median(with), "events/s-on")
	b.ReportMetric(1e15/median(without), "events/s-off")
	b.ReportMetric(median(without)/median(with), "on/off")
}

// BenchmarkPostgresFind is a page of 20 out of 100,000 documents.
func BenchmarkPostgresFind(b *testing.B) {
	db, _ := freshPostgres(b, postgres.Options{})
	d := db.Documents()
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
}
