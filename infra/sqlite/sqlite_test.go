package sqlite_test

import (
	"path/filepath"
	"testing"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/handlers"
	"refold/infra/sqlite"
	"refold/projections"
	"refold/tests/storetest"
)

// files remembers which database a port was taken from.
type files map[any]*sqlite.DB

func open(t testing.TB, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{})
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

func fresh(t testing.TB) *sqlite.DB { return open(t, filepath.Join(t.TempDir(), "refold.db")) }

func (f files) reopen(t testing.TB, port any) *sqlite.DB {
	t.Helper()
	db := f[port]
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, db.Path())
}

func store() storetest.Factory {
	f := files{}
	take := func(db *sqlite.DB) event.Store {
		s := db.Events()
		f[s] = db
		return s
	}
	return storetest.Factory{
		Open:   func(t testing.TB) event.Store { return take(fresh(t)) },
		Reopen: func(t testing.TB, s event.Store) event.Store { return take(f.reopen(t, s)) },
	}
}

func TestStore(t *testing.T) { storetest.Run(t, store()) }

func TestStoreBytes(t *testing.T) { storetest.RunBytes(t, store()) }

func TestDocuments(t *testing.T) {
	f := files{}
	take := func(db *sqlite.DB) projections.Documents {
		d := db.Documents()
		f[d] = db
		return d
	}
	storetest.RunDocuments(t, storetest.DocumentsFactory{
		Open:   func(t testing.TB) projections.Documents { return take(fresh(t)) },
		Reopen: func(t testing.TB, d projections.Documents) projections.Documents { return take(f.reopen(t, d)) },
	})
}

func TestBlobs(t *testing.T) {
	f := files{}
	take := func(db *sqlite.DB) handlers.Blobs {
		b := db.Blobs()
		f[b] = db
		return b
	}
	storetest.RunBlobs(t, storetest.BlobsFactory{
		Open:   func(t testing.TB) handlers.Blobs { return take(fresh(t)) },
		Reopen: func(t testing.TB, b handlers.Blobs) handlers.Blobs { return take(f.reopen(t, b)) },
	})
}

func TestIndex(t *testing.T) {
	f := files{}
	take := func(db *sqlite.DB) knowledge.Index {
		x := db.Index()
		f[x] = db
		return x
	}
	storetest.RunIndex(t, storetest.IndexFactory{
		Open:   func(t testing.TB) knowledge.Index { return take(fresh(t)) },
		Reopen: func(t testing.TB, x knowledge.Index) knowledge.Index { return take(f.reopen(t, x)) },
	})
}
