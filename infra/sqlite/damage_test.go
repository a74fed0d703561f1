package sqlite_test

import (
	"errors"
	"testing"

	"refold/domain/event"
	"refold/infra/sqlite"
)

// An event whose metadata can't be read is named by its place, on both ways to it.
func TestDamagedMetadata(t *testing.T) {
	db := fresh(t)
	st := event.Stream{Tenant: "t", Category: "run", ID: "r"}
	done, err := db.Events().Append(t.Context(), st, event.NoStream(), happened(2)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, db.Path(), "UPDATE event SET meta = '{broken' WHERE version = 2")
	db, err = sqlite.Open(t.Context(), db.Path(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, read := db.Events().Read(t.Context(), st, 0, 0)
	_, _, scan := db.Events().Scan(t.Context(), "", event.Filter{}, 0)
	for _, err := range []error{read, scan} {
		var damaged *event.DamagedError
		if !errors.As(err, &damaged) || damaged.Position != done.Position || damaged.Version != 2 || damaged.Stream != st || damaged.Type == "" {
			t.Fatalf("%v", err)
		}
		says(t, err, event.ErrCorrupt, string(done.Position), "restore a backup")
	}
}
