package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"refold/domain/event"
	"refold/infra/postgres"
	"refold/projections"
	"refold/tests/services"
)

// follower collects all events from a position until it has n, and goes on when
// the server was away.
func follower(t testing.TB, db *postgres.DB, after event.Position, n int, seen func(event.Raw)) (done chan error) {
	done = make(chan error, 1)
	enough := errors.New("enough")
	go func() {
		next, count := map[event.Stream]int64{}, 0
		for {
			err := event.Follow(t.Context(), db.Events(), after, event.Filter{}, func(batch []event.Raw, upTo event.Position) error {
				for _, e := range batch {
					next[e.Stream]++
					if e.Version != next[e.Stream] {
						return fmt.Errorf("version %d of %s where %d was due", e.Version, e.Stream, next[e.Stream])
					}
					count++
					if seen != nil {
						seen(e)
					}
				}
				after = upTo
				if count >= n {
					return enough
				}
				return nil
			})
			if errors.Is(err, enough) {
				if count > n {
					err = fmt.Errorf("%d events, want %d", count, n)
				} else {
					err = nil
				}
			}
			if !errors.Is(err, event.ErrUnavailable) {
				done <- err
				return
			}
		}
	}()
	return done
}

// writers append n events each to streams of their own, one after the other, and
// repeat what the store could not answer with the same ids.
func writers(t testing.TB, count, n int, db func(w int) *postgres.DB) *sync.WaitGroup {
	var wg sync.WaitGroup
	for w := range count {
		st := stream()
		wg.Go(func() {
			for v := range int64(n) {
				e := events(1)
				for {
					a, err := db(w).Events().Append(t.Context(), st, event.Exactly(v), e...)
					if err == nil && a.Version == v+1 {
						break
					}
					if !errors.Is(err, event.ErrUnavailable) {
						t.Errorf("append %d to %s: version %d, %v", v, st, a.Version, err)
						return
					}
				}
			}
		})
	}
	return &wg
}

// TestTwoProcesses is two handles that append at once, also to the same streams.
func TestTwoProcesses(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		dsn := services.Postgres(t, v)
		dbs := []*postgres.DB{open(t, dsn), open(t, dsn)}
		const streams, callers, rounds = 10, 16, 40
		shared := make([]event.Stream, streams)
		for i := range shared {
			shared[i] = stream()
		}
		var won, lost atomic.Int64
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				db := dbs[c%2]
				for r := range rounds {
					st := shared[(r*7+c)%streams]
					for {
						got, err := db.Events().Read(t.Context(), st, 0, 0)
						if err != nil {
							t.Error(err)
							return
						}
						_, err = db.Events().Append(t.Context(), st, event.Exactly(int64(len(got))), events(1)...)
						if err == nil {
							won.Add(1)
							break
						}
						if !errors.Is(err, event.ErrConflict) {
							t.Error(err)
							return
						}
						lost.Add(1)
					}
				}
			})
		}
		done := []chan error{follower(t, dbs[0], "", callers*rounds, nil), follower(t, dbs[1], "", callers*rounds, nil)}
		wg.Wait()
		for _, d := range done {
			if err := <-d; err != nil {
				t.Error(err)
			}
		}
		t.Logf("%d appends, %d conflicts", won.Load(), lost.Load())
		if lost.Load() == 0 {
			t.Error("no conflict: the processes have not raced")
		}
	})
}

// TestRefusedAlone is callers who append at once, some of them in vain: each is
// answered for himself.
func TestRefusedAlone(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		db := open(t, services.Postgres(t, v))
		taken := events(1)
		appendTo(t, db, stream(), event.NoStream(), taken...)
		const n = 64
		streams, errs := make([]event.Stream, n), make([]error, n)
		for i := range streams {
			streams[i] = stream()
			appendTo(t, db, streams[i], event.NoStream(), events(1)...)
		}
		for range 5 {
			var wg sync.WaitGroup
			start := make(chan struct{})
			for i := range n {
				e, expect := events(2), event.Exactly(1)
				switch i % 8 {
				case 3:
					e[1] = taken[0]
				case 5:
					expect = event.Exactly(7)
				case 6:
					e[0].Type = "nul\x00"
				}
				wg.Go(func() {
					<-start
					_, errs[i] = db.Events().Append(t.Context(), streams[i], expect, e...)
				})
			}
			close(start)
			wg.Wait()
			for i, err := range errs {
				want := map[int]error{3: event.ErrInvalid, 5: event.ErrConflict, 6: event.ErrInvalid}[i%8]
				if !errors.Is(err, want) {
					t.Errorf("caller %d: %v, want %v", i, err, want)
				}
				if want == nil {
					streams[i] = stream()
					appendTo(t, db, streams[i], event.NoStream(), events(1)...)
				}
			}
		}
	})
}

// TestKilled ends backends while they work: nothing that was answered is lost,
// nothing is there twice.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		dsn := services.Postgres(t, v)
		dbs := []*postgres.DB{open(t, dsn), open(t, dsn)}
		const callers, rounds, kills = 8, 150, 15
		admin := connect(t, dsn)
		done := []chan error{follower(t, dbs[0], "", callers*rounds, nil), follower(t, dbs[1], "", callers*rounds, nil)}
		wg := writers(t, callers, rounds, func(w int) *postgres.DB { return dbs[w%2] })
		ended := make(chan struct{})
		go func() { wg.Wait(); close(ended) }()
		at, killed := event.Position(""), 0
		for range kills {
			// All sessions at once: the writers', tails', listeners', the pools'.
			var n int
			if err := admin.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'refold' AND pid <> pg_backend_pid()`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			killed += n
			// Then until something was written again.
			if err := dbs[0].Events().Wait(t.Context(), at); err != nil && !errors.Is(err, event.ErrUnavailable) {
				t.Fatal(err)
			}
			head, err := dbs[0].Events().Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			at = head
			select {
			case <-ended:
			default:
				continue
			}
			break
		}
		<-ended
		for _, d := range done {
			if err := <-d; err != nil {
				t.Error(err)
			}
		}
		t.Logf("%d backends ended", killed)
		if killed == 0 {
			t.Error("nobody was killed")
		}
	})
}

// TestRestart stops the server under load, once as an administrator and once as
// a crash (P86): appends and followers go on by themselves.
func TestRestart(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		o := services.OwnPostgres(t, v)
		db := open(t, o.DSN)
		const callers, rounds = 6, 120
		count := 0
		passed := make(chan int, 2)
		done := follower(t, db, "", callers*rounds, func(event.Raw) {
			if count++; count == callers*rounds/4 || count == callers*rounds/2 {
				passed <- count
			}
		})
		wg := writers(t, callers, rounds, func(int) *postgres.DB { return db })
		for _, how := range []string{"fast", "immediate"} {
			<-passed
			o.Stop(how)
			o.Start()
		}
		wg.Wait()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestDocumentsSurviveACrash: who projects goes on from what it has stored, so that
// must be there when the server is back.
func TestDocumentsSurviveACrash(t *testing.T) {
	t.Parallel()
	o := services.OwnPostgres(t, "15")
	c := connect(t, o.DSN)
	exec(t, c, "ALTER SYSTEM SET wal_writer_delay = '10s'")
	exec(t, c, "SELECT pg_reload_conf()")
	db := open(t, o.DSN)
	docs, key := db.Documents(), projections.Key{Collection: "p@1", Tenant: "t", ID: "d"}
	if err := docs.Commit(t.Context(), projections.Batch{Projection: "p@1", To: "0000000000000001", Put: []projections.Document{{Key: key, Body: []byte("{}")}}}); err != nil {
		t.Fatal(err)
	}
	o.Stop("immediate")
	o.Start()
	at, err := docs.Checkpoint(t.Context(), "p@1")
	if err != nil || at != "0000000000000001" {
		t.Errorf("the checkpoint is at %q, %v", at, err)
	}
	if found, err := docs.Get(t.Context(), key); err != nil || len(found) != 1 {
		t.Errorf("%d documents, %v", len(found), err)
	}
}

// TestAway is a server that does not come back: every answer is typed, says what
// to do, and comes.
func TestAway(t *testing.T) {
	t.Parallel()
	o := services.OwnPostgres(t, "15")
	db := open(t, o.DSN)
	st := stream()
	appendTo(t, db, st, event.NoStream(), events(1)...)
	head, err := db.Events().Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.Stop("fast")
	calls := map[string]func() error{
		"append": func() error {
			_, err := db.Events().Append(t.Context(), st, event.Exactly(1), events(1)...)
			return err
		},
		"read": func() error { _, err := db.Events().Read(t.Context(), st, 0, 0); return err },
		"scan": func() error { _, _, err := db.Events().Scan(t.Context(), head, event.Filter{}, 0); return err },
		"head": func() error { _, err := db.Events().Head(t.Context()); return err },
		"wait": func() error {
			for {
				if err := db.Events().Wait(t.Context(), head); err != nil {
					return err
				}
			}
		},
		"documents": func() error { _, err := db.Documents().Checkpoint(t.Context(), "x"); return err },
		"blobs":     func() error { _, err := db.Blobs().Put(t.Context(), "t", []byte("x")); return err },
		"gone":      func() error { _, err := db.Gone(t.Context()); return err },
	}
	var wg sync.WaitGroup
	for name, call := range calls {
		wg.Go(func() {
			if err := call(); !errors.Is(err, event.ErrUnavailable) || !strings.Contains(err.Error(), "check that it runs") {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	if _, err := postgres.Open(t.Context(), o.DSN, postgres.Options{}); !errors.Is(err, event.ErrUnavailable) {
		t.Errorf("open: %v", err)
	}
}

// refused expects that a server is not taken, and why.
func refused(t *testing.T, dsn, why string) {
	t.Helper()
	db, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	if err == nil {
		db.Close()
	}
	if !errors.Is(err, event.ErrUnavailable) || !strings.Contains(err.Error(), why) {
		t.Errorf("open: %v, want a refusal with %q", err, why)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	o := services.OwnPostgres(t, "15")
	open(t, o.DSN)
	refused(t, o.Replica(), "read-only replica")
	dsn := services.Database(t, o.DSN)
	name := dsn[strings.LastIndex(dsn, "/")+1 : strings.Index(dsn, "?")]
	exec(t, connect(t, o.DSN), "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
	refused(t, dsn, "is read-only")
	refused(t, strings.Replace(o.DSN, "/postgres?", "/nowhere?", 1), "no such database")
	refused(t, "postgres://x:secret@127.0.0.1:1/x?sslmode=disable", "check that it runs")
	if _, err := postgres.Open(t.Context(), "postgres://x:secret@:bad/", postgres.Options{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a DSN that cannot be read: %v", err)
	}
}

// TestOldVersion: a server that says it is version 12 is refused, and what is
// stored with another encoding too.
func TestOldVersion(t *testing.T) {
	t.Parallel()
	dsn := services.Postgres(t, "15")
	name := dsn[strings.LastIndex(dsn, "/")+1 : strings.Index(dsn, "?")]
	c := connect(t, dsn)
	exec(t, c, "CREATE SCHEMA old")
	exec(t, c, `CREATE FUNCTION old.current_setting(name text) RETURNS text LANGUAGE sql STABLE AS $$
		SELECT CASE name WHEN 'server_version_num' THEN '120022' WHEN 'server_version' THEN '12.22' ELSE pg_catalog.current_setting(name) END $$`)
	exec(t, c, "ALTER DATABASE "+name+" SET search_path = old, pg_catalog, public")
	refused(t, dsn, "is version 12.22, refold needs 13 or newer")
	exec(t, c, "ALTER DATABASE "+name+" RESET search_path")
	exec(t, c, "CREATE DATABASE "+name+"_latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	refused(t, strings.Replace(dsn, "/"+name+"?", "/"+name+"_latin?", 1), "encoding LATIN1")
	exec(t, c, "DROP DATABASE "+name+"_latin")
}

func TestPooler(t *testing.T) {
	t.Parallel()
	dsn := services.Postgres(t, "15")
	refused(t, services.Pooler(t, dsn, "transaction"), "pooler")
	db := open(t, services.Pooler(t, dsn, "session"))
	a := appendTo(t, db, stream(), event.NoStream(), events(1)...)
	if ids, _ := scan(t, db, ""); len(ids) != 1 || a.Version != 1 {
		t.Errorf("through a pooler in session mode: %v", ids)
	}
}

// TestMigrators is six processes that start at once on an empty database.
func TestMigrators(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		dsn := services.Postgres(t, v)
		if n, err := postgres.Version(t.Context(), dsn); err != nil || n != 0 {
			t.Fatalf("version %d of an empty database, %v", n, err)
		}
		if _, err := postgres.Open(t.Context(), dsn, postgres.Options{NoMigrate: true}); !errors.Is(err, event.ErrUnavailable) || !strings.Contains(err.Error(), "refold migrate") {
			t.Errorf("open without migration: %v", err)
		}
		var wg sync.WaitGroup
		var did atomic.Int64
		for range 6 {
			wg.Go(func() {
				from, to, err := postgres.Migrate(t.Context(), dsn)
				if err != nil || to != postgres.Latest {
					t.Errorf("migrated from %d to %d, %v", from, to, err)
				}
				if from == 0 {
					did.Add(1)
				}
			})
		}
		wg.Wait()
		if did.Load() != 1 {
			t.Errorf("%d of 6 migrated", did.Load())
		}
		exec(t, connect(t, dsn), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
		refused(t, dsn, "upgrade refold")
	})
}

// TestStalled is a row that somebody holds for ever: its append is refused after
// a bounded time, others go on meanwhile.
func TestStalled(t *testing.T) {
	t.Parallel()
	dsn := services.Postgres(t, "15")
	db := open(t, dsn)
	held, free := stream(), stream()
	appendTo(t, db, held, event.NoStream(), events(1)...)
	appendTo(t, db, free, event.NoStream(), events(1)...)
	tx := begin(t, dsn)
	exec(t, tx, "SELECT FROM stream WHERE name = '"+held.ID+"' FOR UPDATE")
	e := events(1)
	failed := make(chan error, 1)
	go func() {
		_, err := db.Events().Append(t.Context(), held, event.Exactly(1), e...)
		failed <- err
	}()
	version := int64(1)
	for {
		select {
		case err := <-failed:
			if !errors.Is(err, event.ErrUnavailable) || !strings.Contains(err.Error(), "another transaction") {
				t.Fatalf("append to a stream that is held: %v", err)
			}
			if version == 1 {
				t.Error("nobody else got on meanwhile")
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			appendTo(t, db, held, event.Exactly(1), e...)
			return
		default:
			version = appendTo(t, db, free, event.Exactly(version), events(1)...).Version
		}
	}
}

// TestLiveness is P87: only the server's clock counts.
func TestLiveness(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		dsn := services.Postgres(t, v)
		a, b := open(t, dsn), open(t, dsn)
		gone := func(want string) {
			t.Helper()
			ids, err := b.Gone(t.Context())
			if err != nil || strings.Join(ids, " ") != want {
				t.Errorf("gone %v, %v, want %q", ids, err, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		beating := make(chan error, 1)
		go func() { beating <- a.Beat(ctx, "a") }()
		admin := connect(t, dsn)
		seen := func() bool {
			var n int
			if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM instance WHERE id = 'a' AND seen > clock_timestamp() - interval '1 minute'").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n == 1
		}
		for !seen() {
		}
		gone("")
		// It was last seen 19 s ago, and then 20 s, by the server's clock.
		exec(t, admin, "UPDATE instance SET seen = clock_timestamp() - interval '19 seconds'")
		gone("")
		exec(t, admin, "UPDATE instance SET seen = clock_timestamp() - interval '20 seconds'")
		gone("a")
		if err := a.Mark(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		gone("")
		cancel()
		if err := <-beating; !errors.Is(err, context.Canceled) {
			t.Errorf("beat: %v", err)
		}
		if err := a.Leave(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		gone("a")
		if err := a.Mark(t.Context(), ""); !errors.Is(err, event.ErrInvalid) {
			t.Errorf("no id: %v", err)
		}
	})
}
