package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
	"refold/infra/sqlstore"
)

// Store is the event.Store of a DB. Positions are numbers given out under the
// write lock in commit order, so whoever reads up to one has missed nothing
// below it.
type Store struct{ db *DB }

var _ event.Store = (*Store)(nil)

// poll is how often a read-only Wait looks for what another process wrote.
const poll = 20 * time.Millisecond

// headSQL is the highest position ever given out, also to events since trimmed.
const headSQL = "SELECT max(coalesce((SELECT max(position) FROM event), 0), coalesce((SELECT value FROM mark WHERE name = 'position'), 0))"

// Head implements event.Store. It counts transient events, and stays where it
// is when they are trimmed.
func (s *Store) Head(ctx context.Context) (event.Position, error) {
	n, err := s.db.last(ctx)
	return sqlstore.Position(n), err
}

// last is the highest position ever given out.
func (db *DB) last(ctx context.Context) (n int64, err error) {
	if !db.readOnly {
		select {
		case <-db.closed:
			return 0, db.errClosed()
		default:
			return db.head.Load(), ctx.Err()
		}
	}
	err = db.read(ctx, func(r *reader) (err error) {
		n, err = r.number(headSQL)
		return err
	})
	return n, err
}

// number gives the one number of a statement without parameters.
func (r *reader) number(sql string) (n int64, err error) {
	s, err := r.stmt(sql)
	if err != nil {
		return 0, err
	}
	if s.Step() {
		n = s.ColumnInt64(0)
	}
	return n, errors.Join(s.Err(), s.Reset())
}

// Wait implements event.Store. In the process that owns the file it is woken by
// the commit itself.
func (s *Store) Wait(ctx context.Context, after event.Position) error {
	from, err := sqlstore.ParsePosition(after)
	if err != nil {
		return err
	}
	var tick *time.Ticker
	for {
		var news <-chan struct{}
		if !s.db.readOnly {
			news = s.db.news.Wait() // before looking, so that nothing comes between
		}
		head, err := s.db.last(ctx)
		if err != nil {
			return err
		}
		if head > from {
			return nil
		}
		var ticks <-chan time.Time
		if s.db.readOnly {
			if tick == nil {
				tick = time.NewTicker(poll)
				defer tick.Stop()
			}
			ticks = tick.C
		}
		select {
		case <-news:
		case <-ticks:
		case <-s.db.closed:
			return s.db.errClosed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close closes the whole database, with documents and blobs.
func (s *Store) Close() error { return s.db.Close() }

const readSQL = `SELECT position, version, schema, time, id, type, meta, data FROM event
WHERE stream = (SELECT s.id FROM feed f JOIN stream s ON s.feed = f.id WHERE f.tenant = ? AND f.category = ? AND s.name = ?)
AND version > ? ORDER BY version LIMIT ?`

// Read implements event.Store.
func (s *Store) Read(ctx context.Context, stream event.Stream, after int64, limit int) (out []event.Raw, err error) {
	if err := stream.Validate(); err != nil {
		return nil, err
	}
	if !s.db.readOnly && ctx.Err() == nil {
		if _, err := s.db.last(ctx); err != nil { // closed
			return nil, err
		}
		if out, ok := s.db.recent.read(stream, max(after, 0), sqlstore.Limit(limit)); ok {
			return out, nil
		}
	}
	err = s.db.read(ctx, func(r *reader) error {
		q, err := r.stmt(readSQL)
		if err != nil {
			return err
		}
		if err := errors.Join(q.BindText(1, stream.Tenant), q.BindText(2, stream.Category), q.BindText(3, stream.ID),
			q.BindInt64(4, after), q.BindInt64(5, int64(sqlstore.Limit(limit)))); err != nil {
			return err
		}
		for q.Step() {
			e, err := r.event(q, 2)
			e.Position, e.Version, e.Stream = sqlstore.Position(q.ColumnInt64(0)), q.ColumnInt64(1), stream
			if err != nil {
				return event.Damaged(e, err)
			}
			out = append(out, e)
		}
		return errors.Join(q.Err(), q.Reset())
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// event reads the columns schema, time, id, type, meta, data, from col on.
func (r *reader) event(q *sqlite3.Stmt, col int) (e event.Raw, err error) {
	e.Schema = int(q.ColumnInt64(col))
	// Column types cost a call; a stored time of 0 with NULL type is "no time".
	if ns := q.ColumnInt64(col + 1); ns != 0 || q.ColumnType(col+1) != sqlite3.NULL {
		e.Time = time.Unix(0, ns).UTC()
	}
	// One string holds the id and the metadata.
	r.buf = append(r.buf[:0], q.ColumnRawText(col+2)...)
	id := len(r.buf)
	r.buf = append(r.buf, q.ColumnRawText(col+4)...)
	text := string(r.buf)
	e.ID = text[:id]
	raw := q.ColumnRawText(col + 3)
	name, ok := r.types[string(raw)]
	if !ok {
		name = string(raw)
		if len(r.types) < 1024 {
			r.types[name] = name
		}
	}
	e.Type = name
	if e.Meta, err = sqlstore.DecodeMeta(text[id:]); err != nil {
		return e, fmt.Errorf("%w: metadata of event %s: %v", event.ErrCorrupt, e.ID, err)
	}
	e.Data = q.ColumnBlob(col+5, nil)
	return e, nil
}
