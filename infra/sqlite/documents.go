package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
	"refold/projections"
)

// Documents is the projections.Documents of a DB. Commits survive the death of
// the process, not of the machine: what is lost then is folded again from the
// log, as the checkpoint is lost with it.
type Documents struct{ db *DB }

var _ projections.Documents = (*Documents)(nil)

// Checkpoint implements projections.Documents.
func (d *Documents) Checkpoint(ctx context.Context, projection string) (at event.Position, err error) {
	err = d.db.read(ctx, func(r *reader) error {
		q, err := r.stmt("SELECT position FROM checkpoint WHERE projection = ?")
		if err != nil {
			return err
		}
		at, err = checkpoint(q, projection)
		return err
	})
	return at, err
}

func checkpoint(q *sqlite3.Stmt, projection string) (at event.Position, err error) {
	if err := q.BindText(1, projection); err != nil {
		return "", err
	}
	if q.Step() {
		at = event.Position(q.ColumnText(0))
	}
	return at, errors.Join(q.Err(), q.Reset())
}

const getSQL = `SELECT fields, body FROM document
WHERE shelf = (SELECT id FROM shelf WHERE collection = ? AND tenant = ?) AND id = ?`

// Get implements projections.Documents.
func (d *Documents) Get(ctx context.Context, keys ...projections.Key) (out []projections.Document, err error) {
	err = d.db.read(ctx, func(r *reader) error {
		q, err := r.stmt(getSQL)
		if err != nil {
			return err
		}
		one := func(fn func() error) error { return fn() } // a statement is a snapshot
		if len(keys) > 1 {
			one = r.snapshot
		}
		return one(func() error {
			for _, k := range keys {
				if err := errors.Join(q.BindText(1, k.Collection), q.BindText(2, k.Tenant), q.BindText(3, k.ID)); err != nil {
					return err
				}
				if q.Step() {
					f, err := decodeFields(q.ColumnRawBlob(0))
					if err != nil {
						return err
					}
					out = append(out, projections.Document{Key: k, Body: q.ColumnBlob(1, nil), Index: f.index()})
				}
				if err := errors.Join(q.Err(), q.Reset()); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Commit implements projections.Documents. Puts come before deletes. A
// checkpoint that would move back, a document without an id or an index value of another type than
// string, int64 or bool, is event.ErrInvalid.
func (d *Documents) Commit(ctx context.Context, b projections.Batch) error {
	if b.To < b.From {
		return fmt.Errorf("%w: the checkpoint of %s would move back from %s to %s", event.ErrInvalid, b.Projection, b.From, b.To)
	}
	j := &commitJob{Batch: b, fields: make([]fields, len(b.Put))}
	for i, doc := range b.Put {
		if doc.ID == "" {
			return fmt.Errorf("%w: document of %s without an id", event.ErrInvalid, doc.Collection)
		}
		f, err := newFields(doc.Index)
		if err != nil {
			return fmt.Errorf("document %s of %s: %w", doc.ID, doc.Collection, err)
		}
		j.fields[i] = f
		j.bytes += 500 + len(doc.Body)
	}
	return d.db.submit(ctx, j)
}

type commitJob struct {
	projections.Batch
	fields []fields
	bytes  int
}

func (j *commitJob) durable() bool { return false }
func (j *commitJob) size() int     { return 200 + j.bytes + 300*len(j.Delete) }

func (j *commitJob) run(w *writer) (refused, err error) {
	q, err := w.stmt("SELECT position FROM checkpoint WHERE projection = ?")
	if err != nil {
		return nil, err
	}
	at, err := checkpoint(q, j.Projection)
	if err != nil {
		return nil, err
	}
	if at != j.From {
		return fmt.Errorf("%w: %s is at %q, not at %q", projections.ErrStale, j.Projection, at, j.From), nil
	}
	if len(w.shelves) >= maxShelves { // before, as a commit must have one of each
		clear(w.shelves)
	}
	var touched []*shelf
	open := func(k projections.Key, create bool) (*shelf, error) {
		s, err := w.shelf(k.Collection, k.Tenant, create)
		if s != nil && !s.touched {
			s.touched = true
			touched = append(touched, s)
		}
		return s, err
	}
	for i, doc := range j.Put {
		s, err := open(doc.Key, true)
		if err != nil {
			return nil, err
		}
		if err := s.put(doc.ID, j.fields[i], doc.Body); err != nil {
			return nil, err
		}
	}
	for _, k := range j.Delete {
		s, err := open(k, false)
		if err != nil {
			return nil, err
		}
		if s != nil {
			if err := s.remove(k.ID); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range touched {
		if err := s.save(); err != nil {
			return nil, err
		}
	}
	set, err := w.stmt("INSERT INTO checkpoint (projection, position) VALUES (?, ?) ON CONFLICT DO UPDATE SET position = excluded.position")
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(set.BindText(1, j.Projection), set.BindText(2, string(j.To)), set.Exec())
}

// dropped is the collection of shelves that a Drop has taken away but not yet
// emptied. No projection can have it.
const dropped = "\x01dropped"

// dropStep is how many documents one transaction of Drop deletes, so that
// appends do not wait for the whole of it.
const dropStep = 500

// Drop implements projections.Documents. The collections are gone at once; their
// rows are deleted in steps after that, before Drop returns. A Drop that is cut
// short leaves rows that nobody sees and that the next one deletes.
func (d *Documents) Drop(ctx context.Context, projection string) error {
	if err := d.db.submit(ctx, dropJob{projection}); err != nil {
		return err
	}
	for {
		j := &sweepJob{}
		if err := d.db.submit(ctx, j); err != nil || j.done {
			return err
		}
	}
}

type dropJob struct{ projection string }

func (j dropJob) durable() bool { return false }
func (j dropJob) size() int     { return 4096 }

func (j dropJob) run(w *writer) (refused, err error) {
	if err := w.run("DELETE FROM checkpoint WHERE projection = ?", j.projection); err != nil {
		return nil, err
	}
	clear(w.shelves)
	// '/' is the character after '.'.
	return nil, w.run("UPDATE shelf SET collection = '"+dropped+"', tenant = id WHERE collection = ?1 OR (collection >= ?1 || '.' AND collection < ?1 || '/')", j.projection)
}

type sweepJob struct{ done bool }

func (j *sweepJob) durable() bool { return false }
func (j *sweepJob) size() int     { return dropStep * 500 }

func (j *sweepJob) run(w *writer) (refused, err error) {
	find, err := w.stmt("SELECT id FROM shelf WHERE collection = '" + dropped + "' LIMIT 1")
	if err != nil {
		return nil, err
	}
	var id int64
	if find.Step() {
		id = find.ColumnInt64(0)
	}
	if err := errors.Join(find.Err(), find.Reset()); err != nil {
		return nil, err
	}
	if id == 0 {
		j.done = true
		return nil, nil
	}
	const some = "(SELECT id FROM field WHERE shelf = ?1 LIMIT 1)"
	for _, sql := range []string{
		"DELETE FROM entry WHERE field = " + some + " AND (value, id) IN (SELECT value, id FROM entry WHERE field = " + some + " LIMIT ?2)",
		"DELETE FROM field WHERE shelf = ?1 AND id = " + some + " AND NOT EXISTS (SELECT 1 FROM entry WHERE field = " + some + ") AND ?2 > 0",
		"DELETE FROM document WHERE row IN (SELECT row FROM document WHERE shelf = ?1 LIMIT ?2)",
		"DELETE FROM shelf WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM document WHERE shelf = ?1) AND NOT EXISTS (SELECT 1 FROM field WHERE shelf = ?1) AND ?2 > 0",
	} {
		if err := w.run(sql, id, int64(dropStep)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// run executes a statement with string and int64 arguments.
func (w *writer) run(sql string, args ...any) error {
	s, err := w.stmt(sql)
	if err != nil {
		return err
	}
	for i, a := range args {
		if err := bindEntry(s, i+1, a); err != nil {
			return err
		}
	}
	return s.Exec()
}
