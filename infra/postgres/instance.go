package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
)

// GoneAfter is how long an instance may be silent before it is taken for gone,
// unless Options say otherwise. It proves that it lives four times in that time.
// Only the server's clock counts (P87).
const GoneAfter = 20 * time.Second

// Mark notes that an instance is alive, at the server's time.
func (db *DB) Mark(ctx context.Context, id string) error {
	if id == "" || !plain(id) {
		return fmt.Errorf("%w: instance id %q", event.ErrInvalid, id)
	}
	return db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "INSERT INTO instance (id, seen) VALUES ($1, clock_timestamp()) ON CONFLICT (id) DO UPDATE SET seen = greatest(instance.seen, excluded.seen)", id)
		return err
	})
}

// Beat marks an instance as alive at once and then every 5 s, until ctx ends,
// whose error it returns. If it has not succeeded for 15 s it gives up and
// returns event.ErrUnavailable: others are about to take this instance for gone,
// so whoever holds claims under its id must stop acting on them. (5 and 15 are a
// quarter and three of GoneAfter.) Rows of instances that were last seen a week
// ago are deleted on the way.
func (db *DB) Beat(ctx context.Context, id string) error {
	if err := db.Mark(ctx, id); err != nil {
		return err
	}
	if err := db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "DELETE FROM instance WHERE seen < clock_timestamp() - interval '7 days'")
		return err
	}); err != nil {
		return err
	}
	beatEvery := db.gone / 4
	last := time.Now() // how much later it is counts, not what time it is
	for {
		if err := pause(ctx, db.closed, beatEvery); err != nil {
			return err
		}
		bound, cancel := context.WithTimeout(ctx, beatEvery)
		err := db.Mark(bound, id)
		cancel()
		switch {
		case err == nil:
			last = time.Now()
		case ctx.Err() != nil:
			return ctx.Err()
		case db.isClosed() || time.Since(last) > db.gone-beatEvery:
			return fmt.Errorf("%w: instance %s could not prove that it lives: %w", event.ErrUnavailable, id, err)
		}
	}
}

// Gone names the instances that were not seen for GoneAfter by the server's clock, or
// have left, in no particular order.
func (db *DB) Gone(ctx context.Context) (ids []string, err error) {
	err = db.do(ctx, "read", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT id FROM instance WHERE seen <= clock_timestamp() - make_interval(secs => $1)", db.gone.Seconds())
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return ids, err
}

// Leave lets an instance be gone at once, so that others need not wait. Its Beat
// must have ended.
func (db *DB) Leave(ctx context.Context, id string) error {
	return db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "UPDATE instance SET seen = clock_timestamp() - make_interval(secs => $2) WHERE id = $1", id, db.gone.Seconds())
		return err
	})
}
