package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
	"refold/infra/sqlite"
	"refold/projections"
)

// unavailable checks an error's kind and that it says what people need.
func unavailable(t *testing.T, err error, words ...string) {
	t.Helper()
	says(t, err, event.ErrUnavailable, words...)
}

func says(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// raw changes a database behind the package's back.
func raw(t *testing.T, path, sql string) {
	t.Helper()
	conn, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Exec(sql), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

func fail(t *testing.T, path string) error {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err == nil {
		db.Close()
		t.Fatalf("%s opened", path)
	}
	return err
}

func TestMissingDirectory(t *testing.T) {
	unavailable(t, fail(t, filepath.Join(t.TempDir(), "none", "refold.db")), "none", "create it first")
	unavailable(t, fail(t, t.TempDir()), "not a directory")
	_, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "new.db"), sqlite.Options{ReadOnly: true})
	unavailable(t, err, "no refold database")
}

func TestNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refold.db")
	text := []byte(strings.Repeat("This is no database.\n", 1000))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, fail(t, path), event.ErrCorrupt, path, "not a SQLite database")
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, text) {
		t.Fatalf("the file was changed: %v", err)
	}
}

func TestForeignDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	raw(t, path, "CREATE TABLE customers (id INTEGER PRIMARY KEY)")
	unavailable(t, fail(t, path), path, "belongs to another program")
}

func TestNewerSchema(t *testing.T) {
	db := fresh(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, db.Path(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)")
	unavailable(t, fail(t, db.Path()), "999", "upgrade refold")
	_, err := sqlite.Open(t.Context(), db.Path(), sqlite.Options{ReadOnly: true})
	unavailable(t, err, "999", "upgrade refold")
	_, _, err = sqlite.Migrate(t.Context(), db.Path())
	unavailable(t, err, "999")
}

func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%20?#.db")
	if v, err := sqlite.Version(t.Context(), path); err != nil || v != 0 {
		t.Fatalf("version %d of no file, %v", v, err)
	}
	for _, want := range []int64{0, sqlite.Latest} {
		if from, to, err := sqlite.Migrate(t.Context(), path); err != nil || from != want || to != sqlite.Latest {
			t.Fatalf("migrated from %d to %d, %v", from, to, err)
		}
	}
	open(t, path)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "a b%20?#.db") {
			t.Errorf("stray file %q", e.Name())
		}
	}
}

func happened(n int) []event.New {
	out := make([]event.New, n)
	for i := range out {
		out[i] = event.New{ID: fmt.Sprintf("event-%d-%d", serial, i), Type: "Happened", Schema: 1, Data: bytes.Repeat([]byte("x"), 2000)}
	}
	serial++
	return out
}

var serial int

// TestDiskFull fills a database up to its limit: the append that does not fit
// is refused whole, and as soon as there is room the same one succeeds.
func TestDiskFull(t *testing.T) {
	db := fresh(t)
	s, st := db.Events(), event.Stream{Tenant: "t", Category: "run", ID: "full"}
	db.Limit(t, 200)
	var refused []event.New
	version := int64(0)
	for refused == nil {
		e := happened(20)
		a, err := s.Append(t.Context(), st, event.Exactly(version), e...)
		if err != nil {
			unavailable(t, err, "disk is full", "free some space")
			refused = e
			break
		}
		version = a.Version
	}
	for range 3 {
		_, err := s.Append(t.Context(), st, event.Exactly(version), refused...)
		unavailable(t, err, "disk is full")
		if got, err := s.Read(t.Context(), st, 0, 0); err != nil || int64(len(got)) != version {
			t.Fatalf("%d events where %d were acknowledged, %v", len(got), version, err)
		}
	}
	_, err := db.Blobs().Put(t.Context(), "t", make([]byte, 2<<20))
	unavailable(t, err, "disk is full")
	db.Limit(t, 1<<20)
	a, err := s.Append(t.Context(), st, event.Exactly(version), refused...)
	if err != nil || a.Version != version+20 {
		t.Fatalf("with room again: %+v, %v", a, err)
	}
	if _, err := db.Blobs().Put(t.Context(), "t", make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	if s, err := db.Integrity(t.Context()); err != nil || s != "ok" {
		t.Fatalf("integrity check: %s, %v", s, err)
	}
}

// TestDriverPanic takes away the driver's memory in the middle of a batch.
func TestDriverPanic(t *testing.T) {
	db := fresh(t)
	st := event.Stream{Tenant: "t", Category: "run", ID: "panic"}
	if _, err := db.Events().Append(t.Context(), st, event.NoStream(), happened(1)...); err != nil {
		t.Fatal(err)
	}
	unavailable(t, db.Panic(t.Context()), "driver failed")
	if a, err := db.Events().Append(t.Context(), st, event.Exactly(1), happened(1)...); err != nil || a.Version != 2 {
		t.Fatalf("after the panic: %+v, %v", a, err)
	}
}

func TestCorrupt(t *testing.T) {
	db := fresh(t)
	s, st := db.Events(), event.Stream{Tenant: "t", Category: "run", ID: "broken"}
	for v := int64(0); v < 400; v += 20 {
		if _, err := s.Append(t.Context(), st, event.Exactly(v), happened(20)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(db.Path())
	if err != nil {
		t.Fatal(err)
	}
	// The header stays, all else is noise: only reading and writing can tell.
	for i := 4096 * 3; i < len(content); i++ {
		content[i] = byte(i * 31)
	}
	if err := os.WriteFile(db.Path(), content, 0o600); err != nil {
		t.Fatal(err)
	}
	broken, err := sqlite.Open(t.Context(), db.Path(), sqlite.Options{})
	if err == nil {
		defer broken.Close()
		_, err = broken.Events().Read(t.Context(), st, 0, 0)
		if err == nil {
			_, _, err = broken.Events().Scan(t.Context(), "", event.Filter{}, 0)
		}
		_, err2 := broken.Events().Append(t.Context(), st, event.Exactly(400), happened(1)...)
		if err2 == nil {
			t.Error("appended to a damaged stream")
		}
	}
	says(t, err, event.ErrCorrupt, db.Path(), "damaged", "backup")
}

func TestNoRights(t *testing.T) {
	if os.Geteuid() == 0 {
		// Rights do not bind root; a directory in the way of the lock file does.
		path := filepath.Join(t.TempDir(), "refold.db")
		if err := os.Mkdir(path+".lock", 0o700); err != nil {
			t.Fatal(err)
		}
		unavailable(t, fail(t, path), "lock file", path)
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	unavailable(t, fail(t, filepath.Join(dir, "refold.db")), "write")
}

// TestForeignWriter has another program hold the write lock for good.
func TestForeignWriter(t *testing.T) {
	db := fresh(t)
	db.Impatient(t)
	conn, err := sqlite3.Open(db.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	st := event.Stream{Tenant: "t", Category: "run", ID: "locked"}
	e := happened(1)
	_, err = db.Events().Append(t.Context(), st, event.NoStream(), e...)
	unavailable(t, err, "another program holds a lock")
	if err := conn.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Events().Append(t.Context(), st, event.NoStream(), e...); err != nil {
		t.Fatal(err)
	}
}

func TestEmpty(t *testing.T) {
	s := fresh(t).Events()
	if head, err := s.Head(t.Context()); err != nil || head != "" {
		t.Fatalf("head %q of an empty log, %v", head, err)
	}
	if got, upTo, err := s.Scan(t.Context(), "", event.Filter{}, 0); err != nil || len(got) != 0 || upTo != "" {
		t.Fatalf("%d events up to %q, %v", len(got), upTo, err)
	}
	a, err := s.Append(t.Context(), event.Stream{Tenant: "t", Category: "run", ID: "a"}, event.NoStream(), happened(1)...)
	if err != nil || a.Position != "0000000000000001" {
		t.Fatalf("first position %q, %v", a.Position, err)
	}
}

// TestLateCancel ends a caller's context while its request is queued behind a
// batch that is being written.
func TestLateCancel(t *testing.T) {
	db := fresh(t)
	release := db.Stall(t)
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan error, 2)
	st := func(id string) event.Stream { return event.Stream{Tenant: "t", Category: "run", ID: id} }
	called, kept := happened(1), happened(1)
	go func() {
		_, err := db.Events().Append(ctx, st("called off"), event.NoStream(), called...)
		answers <- err
	}()
	db.Queued(t, 1)
	cancel()
	if err := <-answers; !errors.Is(err, context.Canceled) {
		t.Fatalf("called off: %v", err)
	}
	go func() {
		_, err := db.Events().Append(t.Context(), st("kept"), event.NoStream(), kept...)
		answers <- err
	}()
	db.Queued(t, 1)
	release()
	if err := <-answers; err != nil {
		t.Fatal(err)
	}
	if got, err := db.Events().Read(t.Context(), st("called off"), 0, 0); err != nil || len(got) != 0 {
		t.Fatalf("%d events of a request that was called off, %v", len(got), err)
	}
}

// TestDocumentsAndFacts mixes documents and facts in one batch.
func TestDocumentsAndFacts(t *testing.T) {
	db := fresh(t)
	release := db.Stall(t)
	errs := make(chan error, 3)
	go func() {
		_, err := db.Events().Append(t.Context(), event.Stream{Tenant: "t", Category: "run", ID: "a"}, event.NoStream(), happened(1)...)
		errs <- err
	}()
	go func() {
		errs <- db.Documents().Commit(t.Context(), projections.Batch{Projection: "p", From: "", To: "1",
			Put: []projections.Document{{Key: projections.Key{Collection: "p", Tenant: "t", ID: "d"}, Body: []byte("{}")}}})
	}()
	go func() {
		err := db.Documents().Commit(t.Context(), projections.Batch{Projection: "q", From: "9", To: "9"})
		if !errors.Is(err, projections.ErrStale) {
			errs <- fmt.Errorf("stale commit: %v", err)
			return
		}
		errs <- nil
	}()
	db.Queued(t, 3)
	release()
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestDiskFullInABatch lets many callers append at once until the disk is full:
// what was answered is there, what was refused is not, and succeeds later.
func TestDiskFullInABatch(t *testing.T) {
	db := fresh(t)
	s := db.Events()
	db.Limit(t, 300)
	const callers = 32
	news := make([][]event.New, callers)
	for i := range news {
		for range 40 {
			news[i] = append(news[i], happened(1)...)
		}
	}
	taken := make([]int, callers)
	stream := func(i int) event.Stream {
		return event.Stream{Tenant: "t", Category: "run", ID: fmt.Sprint("caller-", i)}
	}
	all := func(work func(i int) error) {
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				if err := work(i); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			})
		}
		wg.Wait()
	}
	write := func(i int) error {
		for ; taken[i] < len(news[i]); taken[i]++ {
			if _, err := s.Append(t.Context(), stream(i), event.Exactly(int64(taken[i])), news[i][taken[i]]); err != nil {
				return err
			}
		}
		return nil
	}
	there := func(i int) error {
		got, err := s.Read(t.Context(), stream(i), 0, 0)
		if err == nil && len(got) != taken[i] {
			err = fmt.Errorf("%d events where %d were acknowledged", len(got), taken[i])
		}
		return err
	}
	var refused atomic.Int64
	all(func(i int) error {
		err := write(i)
		if errors.Is(err, event.ErrUnavailable) {
			refused.Add(1)
			return nil
		}
		return err // nil for one that was done before the disk was full
	})
	if refused.Load() == 0 {
		t.Fatal("nobody was refused")
	}
	all(there)
	db.Limit(t, 1<<20)
	all(write)
	all(there)
	if s, err := db.Integrity(t.Context()); err != nil || s != "ok" {
		t.Fatalf("integrity check: %s, %v", s, err)
	}
}
