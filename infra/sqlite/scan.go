package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
	"refold/infra/sqlstore"
)

const (
	// maxMerged is the most feeds that a scan follows by index at a time. With
	// more of them it walks the log and skips.
	maxMerged = 8
	// maxLooked bounds the rows that one scan skips over.
	maxLooked = 20_000
)

const scanColumns = "SELECT position, version, schema, time, id, type, meta, data, feed, stream FROM event "

// Scan implements event.Store.
func (s *Store) Scan(ctx context.Context, after event.Position, f event.Filter, limit int) ([]event.Raw, event.Position, error) {
	from, err := sqlstore.ParsePosition(after)
	if err != nil {
		return nil, after, err
	}
	// First the head, then the snapshot: the snapshot holds everything up to it.
	head, err := s.db.last(ctx)
	if err != nil || head <= from {
		return nil, after, err
	}
	if !s.db.readOnly {
		if out, upTo, ok := s.db.recent.scan(from, head, f, sqlstore.Limit(limit)); ok {
			return out, sqlstore.Position(upTo), nil
		}
	}
	var out []event.Raw
	upTo := head
	err = s.db.read(ctx, func(r *reader) error {
		if err := r.loadFeeds(); err != nil {
			return err
		}
		wanted, all := r.wanted(f)
		q, looked, max := (*sqlite3.Stmt)(nil), 0, sqlstore.Limit(limit)
		switch {
		case len(wanted) == 0:
			return nil
		case len(wanted) > maxMerged || all:
			q, err = r.walk(from, head)
		default:
			q, err = r.merge(wanted, from, head, max)
		}
		if err != nil {
			return err
		}
		out = make([]event.Raw, 0, min(int64(max), head-from))
		for q.Step() {
			looked++
			if fd := q.ColumnInt64(8); wanted[fd] {
				e, broken := r.event(q, 2)
				at := q.ColumnInt64(0)
				e.Position, e.Version = sqlstore.Position(at), q.ColumnInt64(1)
				if e.Stream, err = r.name(q.ColumnInt64(9), fd); err != nil {
					return err
				}
				if broken != nil {
					return event.Damaged(e, broken)
				}
				out = append(out, e)
				if len(out) == max {
					upTo = at
					break
				}
			}
			if looked == maxLooked {
				upTo = q.ColumnInt64(0)
				break
			}
		}
		return errors.Join(q.Err(), q.Reset())
	})
	if err != nil {
		return nil, after, err
	}
	return out, sqlstore.Position(upTo), nil
}

// loadFeeds learns the feeds that came since the last time.
func (r *reader) loadFeeds() error {
	q, err := r.stmt("SELECT id, tenant, category FROM feed WHERE id > ? ORDER BY id")
	if err != nil {
		return err
	}
	last := int64(0)
	if n := len(r.feeds); n > 0 {
		last = r.feeds[n-1].id
	}
	if err := q.BindInt64(1, last); err != nil {
		return err
	}
	for q.Step() {
		fd := feed{q.ColumnInt64(0), feedKey{q.ColumnText(1), q.ColumnText(2)}}
		r.feeds = append(r.feeds, fd)
		r.feedByID[fd.id] = fd
	}
	return errors.Join(q.Err(), q.Reset())
}

// wanted gives the feeds that a filter lets through, and whether these are all
// that hold facts, so that a plain walk skips hardly anything.
func (r *reader) wanted(f event.Filter) (wanted map[int64]bool, all bool) {
	wanted, all = map[int64]bool{}, true
	for _, fd := range r.feeds {
		s := event.Stream{Tenant: fd.tenant, Category: fd.category}
		if f.Match(s) {
			wanted[fd.id] = true
		} else if !s.Transient() {
			all = false
		}
	}
	return wanted, all
}

// walk goes over the log in order.
func (r *reader) walk(from, head int64) (*sqlite3.Stmt, error) {
	q, err := r.stmt(scanColumns + "WHERE position > ? AND position <= ? ORDER BY position")
	if err != nil {
		return nil, err
	}
	return q, errors.Join(q.BindInt64(1, from), q.BindInt64(2, head))
}

// merge follows a few feeds by index, merged in order.
func (r *reader) merge(feeds map[int64]bool, from, head int64, limit int) (*sqlite3.Stmt, error) {
	q, err := r.stmt(mergeSQL[len(feeds)])
	if err != nil {
		return nil, err
	}
	err = errors.Join(q.BindInt64(1, from), q.BindInt64(2, head), q.BindInt64(3, int64(limit)))
	i := 4
	for fd := range feeds {
		err = errors.Join(err, q.BindInt64(i, fd))
		i++
	}
	return q, err
}

// mergeSQL is the statement for each number of feeds.
var mergeSQL = func() (out [maxMerged + 1]string) {
	for n := 1; n <= maxMerged; n++ {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(scanColumns+"WHERE feed = ?%d AND position > ?1 AND position <= ?2", 4+i)
		}
		out[n] = strings.Join(parts, " UNION ALL ") + " ORDER BY position LIMIT ?3"
	}
	return out
}()

// name gives a stream by its id, inside the snapshot of a running statement.
func (r *reader) name(id, fd int64) (event.Stream, error) {
	if s, ok := r.names[id]; ok {
		return s, nil
	}
	q, err := r.stmt("SELECT name FROM stream WHERE id = ?")
	if err != nil {
		return event.Stream{}, err
	}
	if err := q.BindInt64(1, id); err != nil {
		return event.Stream{}, err
	}
	key := r.feedByID[fd]
	s := event.Stream{Tenant: key.tenant, Category: key.category}
	if q.Step() {
		s.ID = q.ColumnText(0)
	}
	if err := errors.Join(q.Err(), q.Reset()); err != nil {
		return event.Stream{}, err
	}
	if s.ID == "" {
		return event.Stream{}, fmt.Errorf("%w: stream %d has events but no name", event.ErrCorrupt, id)
	}
	if len(r.names) >= maxCachedNames {
		clear(r.names)
	}
	r.names[id] = s
	return s, nil
}
