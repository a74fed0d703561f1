package postgres_test

import (
	"context"
	"testing"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/handlers"
	"refold/infra/postgres"
	"refold/projections"
	"refold/tests/services"
	"refold/tests/storetest"
)

// versions are the servers that all is tested on.
var versions = []string{"15", "18"}

// each runs a test on all of them at once.
func each(t *testing.T, f func(t *testing.T, version string)) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			f(t, v)
		})
	}
}

func open(t testing.TB, dsn string) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(context.Background(), dsn, postgres.Options{})
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

// databases remembers which database a port was taken from.
type databases struct {
	version string
	of      map[any]place
}

type place struct {
	db  *postgres.DB
	dsn string
}

func (d databases) fresh(t testing.TB) place {
	dsn := services.Postgres(t, d.version)
	return place{open(t, dsn), dsn}
}

func (d databases) reopen(t testing.TB, port any) place {
	t.Helper()
	p := d.of[port]
	if err := p.db.Close(); err != nil {
		t.Fatal(err)
	}
	return place{open(t, p.dsn), p.dsn}
}

func store(version string) storetest.Factory {
	d := databases{version, map[any]place{}}
	take := func(p place) event.Store {
		s := p.db.Events()
		d.of[s] = p
		return s
	}
	return storetest.Factory{
		Open:   func(t testing.TB) event.Store { return take(d.fresh(t)) },
		Reopen: func(t testing.TB, s event.Store) event.Store { return take(d.reopen(t, s)) },
	}
}

func TestStore(t *testing.T) {
	each(t, func(t *testing.T, v string) { storetest.Run(t, store(v)) })
}

func TestStoreBytes(t *testing.T) {
	each(t, func(t *testing.T, v string) { storetest.RunBytes(t, store(v)) })
}

func TestDocuments(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		d := databases{v, map[any]place{}}
		take := func(p place) projections.Documents {
			s := p.db.Documents()
			d.of[s] = p
			return s
		}
		storetest.RunDocuments(t, storetest.DocumentsFactory{
			Open:   func(t testing.TB) projections.Documents { return take(d.fresh(t)) },
			Reopen: func(t testing.TB, s projections.Documents) projections.Documents { return take(d.reopen(t, s)) },
		})
	})
}

func TestBlobs(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		d := databases{v, map[any]place{}}
		take := func(p place) handlers.Blobs {
			s := p.db.Blobs()
			d.of[s] = p
			return s
		}
		storetest.RunBlobs(t, storetest.BlobsFactory{
			Open:   func(t testing.TB) handlers.Blobs { return take(d.fresh(t)) },
			Reopen: func(t testing.TB, s handlers.Blobs) handlers.Blobs { return take(d.reopen(t, s)) },
		})
	})
}

func TestIndex(t *testing.T) {
	each(t, func(t *testing.T, v string) {
		p := databases{v, nil}.fresh(t) // one for all, as each test has a tenant of its own
		storetest.RunIndex(t, storetest.IndexFactory{
			Open: func(testing.TB) knowledge.Index { return p.db.Index() },
			Reopen: func(t testing.TB, x knowledge.Index) knowledge.Index {
				if err := p.db.Close(); err != nil {
					t.Fatal(err)
				}
				return open(t, p.dsn).Index()
			},
		})
	})
}
