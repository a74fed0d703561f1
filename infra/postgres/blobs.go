package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/handlers"
)

// partSize is how much of a blob one row holds, in bytes.
const partSize = 1 << 20

// maxBlob is the largest content that is taken, in bytes.
const maxBlob = 1 << 30

// Blobs is the handlers.Blobs of a DB, and its handlers.Contents.
type Blobs struct{ db *DB }

var (
	_ handlers.Blobs    = (*Blobs)(nil)
	_ handlers.Contents = (*Blobs)(nil)
)

// Put implements handlers.Blobs. Content of more than 1 GiB, or without a
// tenant, is event.ErrInvalid.
func (b *Blobs) Put(ctx context.Context, tenant string, content []byte) (string, error) {
	if tenant == "" || len(content) > maxBlob {
		return "", fmt.Errorf("%w: content needs a tenant and at most %d bytes", event.ErrInvalid, maxBlob)
	}
	sum := sha256.Sum256(content)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	err := b.db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
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
			for i := 0; err == nil && i*partSize < len(content); i++ {
				_, err = tx.Exec(ctx, "INSERT INTO blob_part (blob, part, content) VALUES ($1, $2, $3)", id, i, content[i*partSize:min((i+1)*partSize, len(content))])
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
// reader gets to them, under ctx. One goroutine at a time.
func (b *Blobs) Open(ctx context.Context, tenant, digest string) (io.ReadSeekCloser, int64, error) {
	c := &content{ctx: ctx, db: b.db, tenant: tenant, digest: digest, part: -1}
	err := b.db.do(ctx, "read", func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, "SELECT size FROM blob WHERE tenant = $1 AND digest = $2", tenant, digest).Scan(&c.size)
		if errors.Is(err, pgx.ErrNoRows) {
			return c.missing()
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return c, c.size, nil
}

// content reads one blob. It looks for each part by the digest: the blob may have
// been removed, and put again, since the part before.
type content struct {
	ctx            context.Context
	db             *DB
	tenant, digest string
	size, off      int64
	part           int64 // which part buf holds; -1 for none
	buf            []byte
}

func (c *content) missing() error { return fmt.Errorf("%w: %.80s", handlers.ErrNoBlob, c.digest) }

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if c.off >= c.size {
		return 0, io.EOF
	}
	if part := c.off / partSize; part != c.part {
		if err := c.load(part); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.buf[c.off-c.part*partSize:])
	c.off += int64(n)
	return n, nil
}

func (c *content) load(part int64) error {
	c.part = -1
	err := c.db.do(c.ctx, "read", func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, "SELECT p.content FROM blob b LEFT JOIN blob_part p ON p.blob = b.id AND p.part = $3 WHERE b.tenant = $1 AND b.digest = $2",
			c.tenant, c.digest, part).Scan(&c.buf)
		if errors.Is(err, pgx.ErrNoRows) {
			return c.missing()
		}
		return err
	})
	if err != nil {
		return err
	}
	if want := min(c.size-part*partSize, partSize); int64(len(c.buf)) != want {
		return fmt.Errorf("%w: part %d of %s has %d bytes, not %d", event.ErrCorrupt, part, c.digest, len(c.buf), want)
	}
	c.part = part
	return nil
}

// Seek implements io.Seeker.
func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.off
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return c.off, errors.New("seek before the start of the content")
	}
	c.off = offset
	return offset, nil
}

// Close implements io.Closer.
func (c *content) Close() error {
	c.buf, c.part = nil, -1
	return nil
}
