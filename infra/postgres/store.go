package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/infra/sqlstore"
)

// Store is the event.Store of a DB. Positions are numbers of a sequence; nobody
// is shown events past the frontier, see follow.go.
type Store struct{ db *DB }

var _ event.Store = (*Store)(nil)

// Head implements event.Store. It counts transient events, and stays where it is
// when they are trimmed. Events that another transaction may still come before
// are not counted.
func (s *Store) Head(ctx context.Context) (event.Position, error) {
	if err := s.db.tail.advance(ctx); err != nil {
		return "", err
	}
	return sqlstore.Position(s.db.tail.frontier.Load()), nil
}

// Wait implements event.Store. It is woken by commits of this process at once,
// by those of others through LISTEN, and looks every 250 ms if nobody wakes it. It
// outlasts a server that is away for up to 5 s; then it is ErrUnavailable.
func (s *Store) Wait(ctx context.Context, after event.Position) error {
	from, err := sqlstore.ParsePosition(after)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.db.isClosed() {
		return s.db.errClosed()
	}
	t := s.db.tail
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	idle := time.NewTimer(0)
	defer idle.Stop()
	for {
		news := t.news.Wait() // before looking, so that nothing comes between
		if t.frontier.Load() > from {
			return nil
		}
		select {
		case <-news:
		case <-idle.C:
			// At first, as nobody may have looked for a long time; later to notice
			// that the server is away, or a tail that nobody wakes.
			if err := t.advance(ctx); err != nil {
				return err
			}
			idle.Reset(poll * 4)
		case <-s.db.closed:
			return s.db.errClosed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close closes the whole database, with documents and blobs.
func (s *Store) Close() error { return s.db.Close() }

const columns = "e.position, e.version, e.schema, e.time, e.id, e.type, e.meta, e.data"

const readSQL = "SELECT " + columns + `, '', 0 FROM event e
WHERE e.stream = (SELECT s.id FROM feed f JOIN stream s ON s.feed = f.id WHERE f.tenant = $1 AND f.category = $2 AND s.name = $3)
AND e.version > $4 ORDER BY e.version LIMIT $5`

// Read implements event.Store. It sees an append as soon as it is committed, also
// one that no follower has been shown yet.
func (s *Store) Read(ctx context.Context, stream event.Stream, after int64, limit int) (out []event.Raw, err error) {
	if err := stream.Validate(); err != nil {
		return nil, err
	}
	if !plain(stream.Tenant) || !plain(stream.Category) || !plain(stream.ID) {
		return nil, nil // nobody can have written it
	}
	err = s.db.do(ctx, "read", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, readSQL, stream.Tenant, stream.Category, stream.ID, after, sqlstore.Limit(limit))
		if err != nil {
			return err
		}
		out, err = s.collect(rows, stream)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// collect reads events: columns, the stream's name and its feed, which are ""
// and 0 if all are of the stream that is given.
func (s *Store) collect(rows pgx.Rows, stream event.Stream) (out []event.Raw, err error) {
	defer rows.Close()
	types := map[string]string{}
	for rows.Next() {
		var e event.Raw
		var at, ns, feed int64
		var meta, name string
		if err := rows.Scan(&at, &e.Version, &e.Schema, &ns, &e.ID, &e.Type, &meta, &e.Data, &name, &feed); err != nil {
			return nil, err
		}
		if kind, ok := types[e.Type]; ok {
			e.Type = kind
		} else {
			types[e.Type] = e.Type
		}
		e.Position, e.Stream = sqlstore.Position(at), stream
		if ns != noTime {
			e.Time = time.Unix(0, ns).UTC()
		}
		if feed != 0 {
			key, ok := s.db.feeds.key(feed)
			if !ok {
				return nil, fmt.Errorf("%w: event %s has feed %d, which is not there", event.ErrCorrupt, e.ID, feed)
			}
			e.Stream = event.Stream{Tenant: key.tenant, Category: key.category, ID: name}
		}
		if e.Meta, err = sqlstore.DecodeMeta(meta); err != nil {
			return nil, event.Damaged(e, fmt.Errorf("%w: metadata of event %s: %v", event.ErrCorrupt, e.ID, err))
		}
		out = append(out, e)
	}
	return out, rows.Err()
}
