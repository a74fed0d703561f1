package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"refold/handlers"
	"refold/infra/sqlstore"
)

// Blobs is the handlers.Blobs of a DB, and its handlers.Contents.
type Blobs struct{ db *DB }

var (
	_ handlers.Blobs    = (*Blobs)(nil)
	_ handlers.Contents = (*Blobs)(nil)
)

// Put implements handlers.Blobs. Content of more than 1 GiB, or without a
// tenant, is event.ErrInvalid.
func (b *Blobs) Put(ctx context.Context, tenant string, content []byte) (string, error) {
	digest, err := sqlstore.Digest(tenant, content)
	if err != nil {
		return "", err
	}
	err = b.db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			var id int64
			// Who puts the same at the same time, or removes it, waits here for the
			// first to commit, and sees it.
			var fresh bool
			err := tx.QueryRow(ctx, `INSERT INTO blob (tenant, digest, size, seen) VALUES ($1, $2, $3, clock_timestamp())
ON CONFLICT (tenant, digest) DO UPDATE SET seen = clock_timestamp() RETURNING id, xmax = 0`, tenant, digest, len(content)).Scan(&id, &fresh)
			if err == nil && !fresh {
				return nil // already there
			}
			for i := 0; err == nil && i*sqlstore.PartSize < len(content); i++ {
				_, err = tx.Exec(ctx, "INSERT INTO blob_part (blob, part, content) VALUES ($1, $2, $3)", id, i, content[i*sqlstore.PartSize:min((i+1)*sqlstore.PartSize, len(content))])
			}
			return err
		})
	})
	if err != nil {
		return "", err
	}
	return digest, nil
}

// Open implements handlers.Blobs. The content is read in parts of 1 MiB as the
// reader gets to them, under ctx, and each is looked for by the digest: the blob
// may have been removed, and put again, since the part before. One goroutine at a
// time.
func (b *Blobs) Open(ctx context.Context, tenant, digest string) (io.ReadSeekCloser, int64, error) {
	c := &sqlstore.Parts{Digest: digest}
	read := func(sql string, to any, args ...any) error {
		return b.db.do(ctx, "read", func(ctx context.Context, conn *pgx.Conn) error {
			err := conn.QueryRow(ctx, sql, args...).Scan(to)
			if errors.Is(err, pgx.ErrNoRows) {
				err = fmt.Errorf("%w: %.80s", handlers.ErrNoBlob, digest)
			}
			return err
		})
	}
	if err := read("SELECT size FROM blob WHERE tenant = $1 AND digest = $2", &c.Size, tenant, digest); err != nil {
		return nil, 0, err
	}
	c.Load = func(n int64, buf []byte) ([]byte, error) {
		err := read("SELECT p.content FROM blob b LEFT JOIN blob_part p ON p.blob = b.id AND p.part = $3 WHERE b.tenant = $1 AND b.digest = $2", &buf, tenant, digest, n)
		return buf, err
	}
	return c, c.Size, nil
}
