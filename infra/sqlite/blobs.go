package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

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
	for i := 0; i*partSize < len(j.content); i++ {
		piece := j.content[i*partSize : min((i+1)*partSize, len(j.content))]
		if err := errors.Join(part.BindInt64(1, id), part.BindInt(2, i), part.BindBlob(3, piece), part.Exec()); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// Open implements handlers.Blobs. The content is read in parts of 1 MiB as the
// reader gets to them, under ctx. One goroutine at a time.
func (b *Blobs) Open(ctx context.Context, tenant, digest string) (io.ReadSeekCloser, int64, error) {
	c := &content{ctx: ctx, db: b.db, tenant: tenant, digest: digest, part: -1}
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
			found, c.size = true, q.ColumnInt64(0)
		}
		return errors.Join(q.Err(), q.Reset())
	})
	if err != nil {
		return nil, 0, err
	}
	if !found {
		return nil, 0, c.missing()
	}
	return c, c.size, nil
}

// content reads one blob. It looks for each part by the digest: the row may be
// gone, and its number another blob's, since the part before.
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
	found := false
	err := c.db.read(c.ctx, func(r *reader) error {
		q, err := r.stmt("SELECT p.content FROM blob b LEFT JOIN blob_part p ON p.blob = b.id AND p.part = ?1 WHERE b.tenant = ?2 AND b.digest = ?3")
		if err != nil {
			return err
		}
		if err := errors.Join(q.BindInt64(1, part), q.BindText(2, c.tenant), q.BindText(3, c.digest)); err != nil {
			return err
		}
		c.buf = c.buf[:0]
		if q.Step() {
			found, c.buf = true, q.ColumnBlob(0, c.buf)
		}
		return errors.Join(q.Err(), q.Reset())
	})
	if err != nil {
		return err
	}
	if !found {
		return c.missing()
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
