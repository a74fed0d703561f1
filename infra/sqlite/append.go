package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
	"refold/infra/sqlstore"
)

// maxCachedStreams bounds the writer's memory of stream versions (about 250
// bytes each).
const maxCachedStreams = 8192

type (
	feedKey   struct{ tenant, category string }
	streamKey = event.Stream
	// stream is what the writer knows of a stream; id 0 is one that does not exist.
	stream struct{ id, feed, version int64 }
)

// Append implements event.Store. Appends of facts are on the disk when it
// returns; appends to transient streams survive the death of the process.
func (s *Store) Append(ctx context.Context, stream event.Stream, expect event.Expect, events ...event.New) (event.Appended, error) {
	if err := event.Check(stream, expect, events); err != nil {
		return event.Appended{}, err
	}
	j := &appendJob{stream: stream, expect: expect.Version(), rows: make([]row, len(events))}
	for i, e := range events {
		if err := j.rows[i].encode(e); err != nil {
			return event.Appended{}, err
		}
		if i > 0 && e.Meta == events[i-1].Meta {
			j.rows[i].meta = j.rows[i-1].meta
		} else {
			j.rows[i].meta = sqlstore.EncodeMeta(e.Meta)
		}
		j.bytes += 200 + len(e.Data) + len(j.rows[i].meta)
	}
	if err := s.db.submit(ctx, j); err != nil {
		return event.Appended{}, err
	}
	return j.result, nil
}

// row is an event as it is stored, made before the lead.
type row struct {
	event.New
	time int64
	meta []byte
}

func (r *row) encode(e event.New) error {
	r.New = e
	if e.Time.IsZero() {
		return nil
	}
	r.time = e.Time.UnixNano()
	if !time.Unix(0, r.time).Equal(e.Time) {
		return fmt.Errorf("%w: time %s of event %s cannot be stored", event.ErrInvalid, e.Time, e.ID)
	}
	return nil
}

type appendJob struct {
	stream event.Stream
	expect int64
	rows   []row
	bytes  int
	result event.Appended
}

func (j *appendJob) durable() bool { return !j.stream.Transient() }
func (j *appendJob) size() int     { return j.bytes }

func (j *appendJob) run(w *writer) (refused, err error) {
	st, err := w.stream(j.stream)
	if err != nil {
		return nil, err
	}
	if st.version != j.expect {
		return j.again(w, st, fmt.Errorf("%w: %s is at version %d, expected %d", event.ErrConflict, j.stream, st.version, j.expect))
	}
	start, created := w.head, st.id == 0
	if created {
		if err := w.create(j.stream, st); err != nil {
			return nil, err
		}
	}
	for i := range j.rows {
		err := w.insert(st, st.version+int64(i)+1, &j.rows[i])
		if errors.Is(err, sqlite3.CONSTRAINT_UNIQUE) {
			// An id is taken. Take back what this request wrote, and only that.
			if err := w.takeBack(st, start, created); err != nil {
				return nil, err
			}
			return j.again(w, st, fmt.Errorf("%w: an event id of the append to %s is already used elsewhere in the log", event.ErrInvalid, j.stream))
		}
		if err != nil {
			return nil, err
		}
	}
	w.remember(j, st.version, start)
	st.version += int64(len(j.rows))
	j.result = event.Appended{Version: st.version, Position: sqlstore.Position(w.head)}
	return nil, nil
}

// again gives the first answer if all events are already in the stream in this
// order, none if none of them is anywhere, and ErrInvalid for anything between.
func (j *appendJob) again(w *writer, st *stream, none error) (refused, err error) {
	find, err := w.stmt("SELECT position, stream, version FROM event WHERE id = ?")
	if err != nil {
		return nil, err
	}
	found, version := 0, int64(0)
	for i := range j.rows {
		if err := find.BindText(1, j.rows[i].ID); err != nil {
			return nil, err
		}
		if find.Step() {
			found++
			if find.ColumnInt64(1) != st.id || find.ColumnInt64(2) <= version {
				return fmt.Errorf("%w: event id %q is already used elsewhere in the log", event.ErrInvalid, j.rows[i].ID), find.Reset()
			}
			version = find.ColumnInt64(2)
			j.result = event.Appended{Version: version, Position: sqlstore.Position(find.ColumnInt64(0))}
		}
		if err := errors.Join(find.Err(), find.Reset()); err != nil {
			return nil, err
		}
	}
	switch found {
	case 0:
		return none, nil
	case len(j.rows):
		return nil, nil
	}
	return fmt.Errorf("%w: only some of the event ids are already in %s", event.ErrInvalid, j.stream), nil
}

// stream gives the writer's view of a stream. Callers change it in place; a
// rollback empties the cache.
func (w *writer) stream(name event.Stream) (*stream, error) {
	if st := w.streams[name]; st != nil {
		return st, nil
	}
	st := &stream{}
	feed, err := w.feed(name, false)
	if err != nil {
		return nil, err
	}
	if feed != 0 {
		find, err := w.stmt("SELECT id, (SELECT max(version) FROM event WHERE stream = s.id) FROM stream s WHERE feed = ? AND name = ?")
		if err != nil {
			return nil, err
		}
		if err := errors.Join(find.BindInt64(1, feed), find.BindText(2, name.ID)); err != nil {
			return nil, err
		}
		if find.Step() {
			st.id, st.version = find.ColumnInt64(0), find.ColumnInt64(1)
		}
		if err := errors.Join(find.Err(), find.Reset()); err != nil {
			return nil, err
		}
	}
	st.feed = feed
	if len(w.streams) >= maxCachedStreams {
		for old := range w.streams { // any
			delete(w.streams, old)
			if len(w.streams) < maxCachedStreams*3/4 {
				break
			}
		}
	}
	w.streams[name] = st
	return st, nil
}

// feed gives the id of a stream's tenant and category; 0 if there is none and
// none is to be made.
func (w *writer) feed(name event.Stream, create bool) (int64, error) {
	key := feedKey{name.Tenant, name.Category}
	if id := w.feeds[key]; id != 0 {
		return id, nil
	}
	sql := "SELECT id FROM feed WHERE tenant = ? AND category = ?"
	if create {
		sql = "INSERT INTO feed (tenant, category) VALUES (?, ?) ON CONFLICT DO UPDATE SET tenant = tenant RETURNING id"
	}
	s, err := w.stmt(sql)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(s.BindText(1, key.tenant), s.BindText(2, key.category)); err != nil {
		return 0, err
	}
	var id int64
	for s.Step() {
		id = s.ColumnInt64(0)
	}
	if err := errors.Join(s.Err(), s.Reset()); err != nil {
		return 0, err
	}
	if id != 0 {
		w.feeds[key] = id
	}
	return id, nil
}

// create makes the stream's row. Its id is the position that its first event is
// about to get: no other stream ever has it.
func (w *writer) create(name event.Stream, st *stream) (err error) {
	if st.feed, err = w.feed(name, true); err != nil {
		return err
	}
	s, err := w.stmt("INSERT INTO stream (id, feed, name) VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	st.id = w.head + 1
	return errors.Join(s.BindInt64(1, st.id), s.BindInt64(2, st.feed), s.BindText(3, name.ID), s.Exec())
}

func (w *writer) insert(st *stream, version int64, r *row) error {
	if w.head == math.MaxInt64 {
		return fmt.Errorf("%w: positions are used up", event.ErrUnavailable)
	}
	s, err := w.stmt(insertSQL)
	if err != nil {
		return err
	}
	if err := bindRow(s, w.head+1, st.feed, st.id, version, r); err != nil {
		return err
	}
	if err := s.Exec(); err != nil {
		return err
	}
	w.head++
	return nil
}

const insertSQL = "INSERT INTO event (position, feed, stream, version, schema, time, id, type, meta, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

func bindRow(s *sqlite3.Stmt, position, feed, stream, version int64, r *row) error {
	for i, n := range [...]int64{position, feed, stream, version, int64(r.Schema), r.time} {
		if err := s.BindInt64(i+1, n); err != nil {
			return err
		}
	}
	if r.Time.IsZero() {
		if err := s.BindNull(6); err != nil {
			return err
		}
	}
	if err := s.BindText(7, r.ID); err != nil {
		return err
	}
	if err := s.BindText(8, r.Type); err != nil {
		return err
	}
	if r.meta == nil {
		if err := s.BindNull(9); err != nil {
			return err
		}
	} else if err := s.BindRawText(9, r.meta); err != nil {
		return err
	}
	return s.BindBlob(10, r.Data)
}

// takeBack undoes a request's own rows inside the shared transaction.
func (w *writer) takeBack(st *stream, start int64, created bool) error {
	s, err := w.stmt("DELETE FROM event WHERE position > ?")
	if err != nil {
		return err
	}
	if err := errors.Join(s.BindInt64(1, start), s.Exec()); err != nil {
		return err
	}
	w.head = start
	if !created {
		return nil
	}
	d, err := w.stmt("DELETE FROM stream WHERE id = ?")
	if err != nil {
		return err
	}
	id := st.id
	st.id = 0
	return errors.Join(d.BindInt64(1, id), d.Exec())
}
