package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"refold/handlers"
)

// Old implements handlers.Contents.
func (b *Blobs) Old(ctx context.Context, age time.Duration, after handlers.Content, limit int) (out []handlers.Content, err error) {
	const columns = "SELECT id, seen, tenant, digest, size FROM blob WHERE (seen, id) > ($1, $2) AND "
	const order = " ORDER BY seen, id LIMIT $4"
	err = b.db.do(ctx, "read", func(ctx context.Context, c *pgx.Conn) error {
		out = nil
		for _, when := range []string{"seen <= clock_timestamp() - make_interval(secs => $3)", "seen > clock_timestamp() + make_interval(secs => $3)"} {
			rows, err := c.Query(ctx, columns+when+order, time.UnixMicro(after.Seen), after.ID, age.Seconds(), max(0, limit-len(out)))
			if err != nil {
				return err
			}
			found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x handlers.Content, err error) {
				var seen time.Time
				err = row.Scan(&x.ID, &seen, &x.Tenant, &x.Digest, &x.Size)
				x.Seen = seen.UnixMicro()
				return x, err
			})
			if err != nil {
				return err
			}
			out = append(out, found...)
		}
		return nil
	})
	return out, err
}

// Keep implements handlers.Contents.
func (b *Blobs) Keep(ctx context.Context, tenant string, digests ...string) (n int, err error) {
	if !plain(tenant) {
		return 0, nil
	}
	digests = slices.DeleteFunc(slices.Clone(digests), func(d string) bool { return !plain(d) })
	slices.Sort(digests)
	// In one order, so that two who keep the same do not wait for each other.
	err = b.db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(ctx, `WITH k AS (SELECT id FROM blob WHERE tenant = $1 AND digest = ANY($2) ORDER BY digest FOR UPDATE)
UPDATE blob SET seen = clock_timestamp() FROM k WHERE blob.id = k.id`, tenant, digests)
		n = int(tag.RowsAffected())
		return err
	})
	return n, err
}

// Remove implements handlers.Contents.
func (b *Blobs) Remove(ctx context.Context, contents ...handlers.Content) (n int, size int64, err error) {
	for _, x := range contents {
		// Who puts or keeps the row meanwhile is waited for, and then it is another
		// time that the row was seen.
		gone := false
		err := b.db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				gone = false
				tag, err := tx.Exec(ctx, "DELETE FROM blob WHERE id = $1 AND seen = $2 AND tenant = $3 AND digest = $4", x.ID, time.UnixMicro(x.Seen), x.Tenant, x.Digest)
				if err != nil || tag.RowsAffected() == 0 {
					return err
				}
				gone = true
				_, err = tx.Exec(ctx, "DELETE FROM blob_part WHERE blob = $1", x.ID)
				return err
			})
		})
		if err != nil {
			return n, size, err
		}
		if gone {
			n, size = n+1, size+x.Size
		}
	}
	return n, size, nil
}
