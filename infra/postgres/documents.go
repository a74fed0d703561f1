package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/projections"
)

// Documents is the projections.Documents of a DB. Commits survive the death of
// the process, not of the server: what is lost then is folded again from the
// log, as the checkpoint is lost with it.
type Documents struct{ db *DB }

var _ projections.Documents = (*Documents)(nil)

// Checkpoint implements projections.Documents.
func (d *Documents) Checkpoint(ctx context.Context, projection string) (at event.Position, err error) {
	err = d.db.do(ctx, "read", func(ctx context.Context, c *pgx.Conn) error {
		err := c.QueryRow(ctx, "SELECT position FROM checkpoint WHERE projection = $1", projection).Scan(&at)
		if errors.Is(err, pgx.ErrNoRows) {
			at, err = "", nil
		}
		return err
	})
	return at, err
}

const getSQL = `SELECT r.n, d.fields, d.body FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY r (collection, tenant, name, n)
JOIN shelf s ON s.collection = r.collection AND s.tenant = r.tenant JOIN document d ON d.shelf = s.id AND d.name = r.name`

// Get implements projections.Documents.
func (d *Documents) Get(ctx context.Context, keys ...projections.Key) (out []projections.Document, err error) {
	collections, tenants, names := make([]string, len(keys)), make([]string, len(keys)), make([][]byte, len(keys))
	for i, k := range keys {
		collections[i], tenants[i], names[i] = k.Collection, k.Tenant, []byte(k.ID)
	}
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	err = d.db.do(ctx, "read", func(ctx context.Context, c *pgx.Conn) error {
		out = nil
		rows, err := c.Query(ctx, getSQL, collections, tenants, names)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int64
			var fields []byte
			var doc projections.Document
			if err := rows.Scan(&n, &fields, &doc.Body); err != nil {
				return err
			}
			doc.Key = keys[n-1]
			if doc.Index, err = decodeIndex(fields); err != nil {
				return err
			}
			out = append(out, doc)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// dropped is the collection of shelves that a Drop has taken away but not yet
// emptied. No projection can have it.
const dropped = "\x01dropped"

// dropStep is how many documents one transaction of Drop deletes.
const dropStep = 500

// Drop implements projections.Documents. The collections are gone at once; their
// rows are deleted in steps after that, before Drop returns. A Drop that is cut
// short leaves rows that nobody sees and that the next one deletes.
func (d *Documents) Drop(ctx context.Context, projection string) error {
	err := d.db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "DELETE FROM checkpoint WHERE projection = $1", projection); err != nil {
				return err
			}
			// '/' is the character after '.'.
			_, err := tx.Exec(ctx, `UPDATE shelf SET collection = $2, tenant = id::text
WHERE collection = $1 OR (collection >= $1 || '.' AND collection < $1 || '/')`, projection, dropped)
			return err
		})
	})
	for left := int64(1); err == nil && left > 0; {
		err = d.db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) (err error) {
			left, err = sweep(ctx, c)
			return err
		})
	}
	return err
}

// sweep deletes some documents of a dropped shelf, and the shelf with the last.
// It gives 0 when no shelf is left that another process does not sweep.
func sweep(ctx context.Context, c *pgx.Conn) (left int64, err error) {
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		var shelf int64
		err := tx.QueryRow(ctx, "SELECT id FROM shelf WHERE collection = $1 LIMIT 1 FOR UPDATE SKIP LOCKED", dropped).Scan(&shelf)
		if errors.Is(err, pgx.ErrNoRows) {
			left = 0
			return nil
		} else if err != nil {
			return err
		}
		left = 1
		tag, err := tx.Exec(ctx, `WITH gone AS (DELETE FROM document WHERE id IN (SELECT id FROM document WHERE shelf = $1 LIMIT $2) RETURNING id),
entries AS (DELETE FROM entry WHERE document IN (SELECT id FROM gone)) SELECT FROM gone`, shelf, dropStep)
		if err != nil || tag.RowsAffected() == dropStep {
			return err
		}
		var b pgx.Batch
		b.Queue("DELETE FROM field WHERE shelf = $1", shelf)
		b.Queue("DELETE FROM shelf WHERE id = $1", shelf)
		return tx.SendBatch(ctx, &b).Close()
	})
	return left, err
}

// Commit implements projections.Documents. Puts come before deletes. A
// checkpoint that would move back, a document without an id or an index value of
// another type than string, int64 or bool, is event.ErrInvalid. If the
// connection breaks before the answer the commit is tried again, and then
// ErrStale may be the answer to one that has happened. It is on the disk when Commit
// returns: who projects goes on from what it has stored, also if the server crashes.
func (d *Documents) Commit(ctx context.Context, b projections.Batch) error {
	if b.To < b.From {
		return fmt.Errorf("%w: the checkpoint of %s would move back from %s to %s", event.ErrInvalid, b.Projection, b.From, b.To)
	}
	shelves, err := sortBatch(b)
	if err != nil {
		return err
	}
	return d.db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			move, args := "UPDATE checkpoint SET position = $2 WHERE projection = $1 AND position = $3", []any{b.Projection, string(b.To), string(b.From)}
			if b.From == "" {
				move = "INSERT INTO checkpoint (projection, position) VALUES ($1, $2) ON CONFLICT (projection) DO UPDATE SET position = excluded.position WHERE checkpoint.position = ''"
				args = args[:2]
			}
			tag, err := tx.Exec(ctx, move, args...)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return fmt.Errorf("%w: %s is not at %q", projections.ErrStale, b.Projection, b.From)
			}
			for _, s := range shelves {
				if err := s.write(ctx, tx); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
