package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

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
	if err := b.db.submit(ctx, &putJob{tenant, digest, content}); err != nil {
		return "", err
	}
	return digest, nil
}

type putJob struct {
	tenant, digest string
	content        []byte
}

func (j *putJob) durable() bool { return true }
func (j *putJob) size() int     { return len(j.content) }

func (j *putJob) run(w *writer) (refused, err error) {
	if there, err := w.keep(j.tenant, j.digest); err != nil || there {
		return nil, err
	}
	put, err := w.stmt("INSERT INTO blob (tenant, digest, size, seen) VALUES (?, ?, ?, ?)")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(put.BindText(1, j.tenant), put.BindText(2, j.digest), put.BindInt64(3, int64(len(j.content))), put.BindInt64(4, time.Now().UnixMilli()), put.Exec()); err != nil {
		return nil, err
	}
	id := w.conn.LastInsertRowID()
	part, err := w.stmt("INSERT INTO blob_part (blob, part, content) VALUES (?, ?, ?)")
	if err != nil {
		return nil, err
	}
	for i := 0; i*sqlstore.PartSize < len(j.content); i++ {
		piece := j.content[i*sqlstore.PartSize : min((i+1)*sqlstore.PartSize, len(j.content))]
		if err := errors.Join(part.BindInt64(1, id), part.BindInt(2, i), part.BindBlob(3, piece), part.Exec()); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Open implements handlers.Blobs. The content is read in parts of 1 MiB as the
// reader gets to them, under ctx, and each is looked for by the digest: the row
// may be gone, and its number another blob's, since the part before. One
// goroutine at a time.
func (b *Blobs) Open(ctx context.Context, tenant, digest string) (io.ReadSeekCloser, int64, error) {
	c := &sqlstore.Parts{Digest: digest}
	found := false
	err := b.db.read(ctx, func(r *reader) error {
		q, err := r.stmt("SELECT size FROM blob WHERE tenant = ? AND digest = ?")
		if err != nil {
			return err
		}
		if err := errors.Join(q.BindText(1, tenant), q.BindText(2, digest)); err != nil {
			return err
		}
		if q.Step() {
			found, c.Size = true, q.ColumnInt64(0)
		}
		return errors.Join(q.Err(), q.Reset())
	})
	if err == nil && !found {
		err = noBlob(digest)
	}
	if err != nil {
		return nil, 0, err
	}
	c.Load = func(n int64, buf []byte) ([]byte, error) { return b.load(ctx, tenant, digest, n, buf) }
	return c, c.Size, nil
}

func noBlob(digest string) error { return fmt.Errorf("%w: %.80s", handlers.ErrNoBlob, digest) }

// load reads a part of a blob.
func (b *Blobs) load(ctx context.Context, tenant, digest string, part int64, buf []byte) ([]byte, error) {
	found := false
	err := b.db.read(ctx, func(r *reader) error {
		q, err := r.stmt("SELECT p.content FROM blob b LEFT JOIN blob_part p ON p.blob = b.id AND p.part = ?1 WHERE b.tenant = ?2 AND b.digest = ?3")
		if err != nil {
			return err
		}
		if err := errors.Join(q.BindInt64(1, part), q.BindText(2, tenant), q.BindText(3, digest)); err != nil {
			return err
		}
		if q.Step() {
			found, buf = true, q.ColumnBlob(0, buf)
		}
		return errors.Join(q.Err(), q.Reset())
	})
	if err == nil && !found {
		err = noBlob(digest)
	}
	return buf, err
}
