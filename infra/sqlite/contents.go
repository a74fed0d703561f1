package sqlite

import (
	"context"
	"errors"
	"time"

	"refold/handlers"
)

// Old implements handlers.Contents.
func (b *Blobs) Old(ctx context.Context, age time.Duration, after handlers.Content, limit int) (out []handlers.Content, err error) {
	now := time.Now().UnixMilli()
	const (
		past   = "SELECT id, seen, tenant, digest, size FROM blob WHERE (seen, id) > (?1, ?2) AND seen <= ?3 ORDER BY seen, id LIMIT ?4"
		future = "SELECT id, seen, tenant, digest, size FROM blob WHERE (seen, id) > (?1, ?2) AND seen > ?3 ORDER BY seen, id LIMIT ?4"
	)
	err = b.db.read(ctx, func(r *reader) error {
		out = nil
		for _, part := range []struct {
			sql   string
			bound int64
		}{{past, now - age.Milliseconds()}, {future, now + age.Milliseconds()}} {
			q, err := r.stmt(part.sql)
			if err != nil {
				return err
			}
			if err := errors.Join(q.BindInt64(1, after.Seen), q.BindInt64(2, after.ID), q.BindInt64(3, part.bound), q.BindInt(4, max(0, limit-len(out)))); err != nil {
				return err
			}
			for q.Step() {
				out = append(out, handlers.Content{ID: q.ColumnInt64(0), Seen: q.ColumnInt64(1), Tenant: q.ColumnText(2), Digest: q.ColumnText(3), Size: q.ColumnInt64(4)})
			}
			if err := errors.Join(q.Err(), q.Reset()); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// Keep implements handlers.Contents.
func (b *Blobs) Keep(ctx context.Context, tenant string, digests ...string) (int, error) {
	j := &keepJob{tenant: tenant, digests: digests}
	err := b.db.submit(ctx, j)
	return j.kept, err
}

type keepJob struct {
	tenant  string
	digests []string
	kept    int
}

func (j *keepJob) durable() bool { return true }
func (j *keepJob) size() int     { return len(j.digests) * 200 }

func (j *keepJob) run(w *writer) (refused, err error) {
	j.kept = 0
	for _, d := range j.digests {
		there, err := w.keep(j.tenant, d)
		if err != nil {
			return nil, err
		}
		if there {
			j.kept++
		}
	}
	return nil, nil
}

// keep notes that a blob was seen now, and tells whether there is one. No two
// times are the same for one blob, also if the clock stands still.
func (w *writer) keep(tenant, digest string) (bool, error) {
	s, err := w.stmt("UPDATE blob SET seen = CASE seen WHEN ?1 THEN ?1 + 1 ELSE ?1 END WHERE tenant = ?2 AND digest = ?3")
	if err != nil {
		return false, err
	}
	err = errors.Join(s.BindInt64(1, time.Now().UnixMilli()), s.BindText(2, tenant), s.BindText(3, digest), s.Exec())
	return w.conn.Changes() > 0, err
}

// Remove implements handlers.Contents.
func (b *Blobs) Remove(ctx context.Context, contents ...handlers.Content) (int, int64, error) {
	j := &removeJob{contents: contents}
	err := b.db.submit(ctx, j)
	return j.removed, j.bytes, err
}

type removeJob struct {
	contents []handlers.Content
	removed  int
	bytes    int64
}

func (j *removeJob) durable() bool { return false }

func (j *removeJob) size() int {
	n := 0
	for _, c := range j.contents {
		n += int(c.Size)
	}
	return n
}

func (j *removeJob) run(w *writer) (refused, err error) {
	j.removed, j.bytes = 0, 0
	s, err := w.stmt("DELETE FROM blob WHERE id = ? AND seen = ? AND tenant = ? AND digest = ?")
	if err != nil {
		return nil, err
	}
	for _, c := range j.contents {
		if err := errors.Join(s.BindInt64(1, c.ID), s.BindInt64(2, c.Seen), s.BindText(3, c.Tenant), s.BindText(4, c.Digest), s.Exec()); err != nil {
			return nil, err
		}
		if w.conn.Changes() == 0 {
			continue
		}
		if err := w.number("DELETE FROM blob_part WHERE blob = ?", c.ID); err != nil {
			return nil, err
		}
		j.removed++
		j.bytes += c.Size
	}
	return nil, nil
}
