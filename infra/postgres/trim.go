package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
)

// Trim implements event.Store.
func (s *Store) Trim(ctx context.Context, streams ...event.Stream) error {
	tenants, names := make([]string, 0, len(streams)), make([]string, 0, len(streams))
	streams = slices.Clone(streams)
	slices.SortFunc(streams, func(a, b event.Stream) int { return strings.Compare(a.String(), b.String()) })
	for _, stream := range streams {
		if err := stream.Validate(); err != nil {
			return err
		}
		if !stream.Transient() {
			return fmt.Errorf("%w: %s holds facts and cannot be trimmed", event.ErrInvalid, stream)
		}
		if plain(stream.Tenant) && plain(stream.ID) {
			tenants, names = append(tenants, stream.Tenant), append(names, stream.ID)
		}
	}
	if s.db.isClosed() {
		return s.db.errClosed()
	}
	if len(names) == 0 {
		return nil
	}
	// The rows of the streams first, in the order in which appends take them.
	const lock = `SELECT s.id FROM stream s JOIN feed f ON f.id = s.feed JOIN unnest($1::text[], $2::text[]) r (tenant, name) ON f.tenant = r.tenant AND s.name = r.name
WHERE f.category = '` + event.CategoryDelta + `' ORDER BY s.feed, s.name FOR UPDATE OF s`
	return s.db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, lock, tenants, names)
			if err != nil {
				return err
			}
			ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if err != nil || len(ids) == 0 {
				return err
			}
			for _, sql := range []string{"SET LOCAL synchronous_commit = off", "DELETE FROM event WHERE stream = ANY($1)", "DELETE FROM stream WHERE id = ANY($1)"} {
				var args []any
				if strings.Contains(sql, "$1") {
					args = []any{ids}
				}
				if _, err := tx.Exec(ctx, sql, args...); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
