package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/infra/sqlstore"
)

const (
	// maxMerged is the most feeds that a scan follows by index at a time. With
	// more of them it walks the log and skips.
	maxMerged = 8
	// maxLooked bounds the positions that one scan walks over.
	maxLooked = 20_000
)

const (
	walkSQL = "SELECT " + columns + `, s.name, e.feed FROM event e JOIN stream s ON s.id = e.stream
WHERE e.position > $1 AND e.position <= $2 AND e.feed = ANY($3) ORDER BY e.position LIMIT $4`
	// mergeSQL takes a page of each feed, so that each is a walk over its index.
	mergeSQL = "SELECT " + columns + `, s.name, e.feed FROM unnest($3::bigint[]) f (id) CROSS JOIN LATERAL (
  SELECT * FROM event WHERE feed = f.id AND position > $1 AND position <= $2 ORDER BY position LIMIT $4
) e JOIN stream s ON s.id = e.stream ORDER BY e.position LIMIT $4`
)

// Scan implements event.Store.
func (s *Store) Scan(ctx context.Context, after event.Position, f event.Filter, limit int) ([]event.Raw, event.Position, error) {
	from, err := sqlstore.ParsePosition(after)
	if err != nil {
		return nil, after, err
	}
	if err := ctx.Err(); err != nil {
		return nil, after, err
	}
	if s.db.isClosed() {
		return nil, after, s.db.errClosed()
	}
	// First the frontier, then the snapshot: the snapshot holds everything up to it.
	upTo := s.db.tail.frontier.Load()
	if upTo <= from || upTo < s.db.acked.Load() {
		if err := s.db.tail.advance(ctx); err != nil {
			return nil, after, err
		}
		upTo = s.db.tail.frontier.Load()
	}
	if upTo <= from {
		return nil, after, nil
	}
	feeds, all := s.db.feeds.wanted(f)
	if len(feeds) == 0 {
		return nil, sqlstore.Position(upTo), nil
	}
	sql, n := mergeSQL, sqlstore.Limit(limit)
	if all || len(feeds) > maxMerged {
		sql, upTo = walkSQL, min(upTo, from+maxLooked)
	}
	var out []event.Raw
	err = s.db.do(ctx, "read", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, sql, from, upTo, feeds, n)
		if err != nil {
			return err
		}
		out, err = s.collect(rows, event.Stream{})
		return err
	})
	if err != nil {
		return nil, after, err
	}
	if len(out) == n {
		return out, out[n-1].Position, nil
	}
	return out, sqlstore.Position(upTo), nil
}
