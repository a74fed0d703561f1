package sqlite

import (
	"context"
	"errors"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/knowledge"
	"refold/domain/tool"
)

// found joins a chunk with its document.
func (c stored) found(e entryRow) knowledge.Found {
	c.Base, c.Document, c.Revision = e.Base, e.Document, e.Revision
	return knowledge.Found{Chunk: c.Chunk, Entry: e.Entry}
}

// foundAt reads a chunk with its document.
func (r *reader) foundAt(row int64) (f knowledge.Found, err error) {
	var entry int64
	var c stored
	err = r.query("SELECT "+chunkColumns+", c.entry FROM knowledge_chunk c WHERE c.row = ?", func(s *sqlite3.Stmt) (err error) {
		entry = s.ColumnInt64(16)
		c, err = readChunk(s)
		return err
	}, row)
	if err != nil {
		return f, err
	}
	e, err := r.entryAt(entry)
	return c.found(e), err
}

func (r *reader) entryAt(row int64) (e entryRow, err error) {
	err = r.query(entrySQL+"e.row = ?", func(s *sqlite3.Stmt) (err error) { e, err = readEntry(s); return err }, row)
	return e, err
}

// Chunks implements knowledge.Index.
func (x *Index) Chunks(ctx context.Context, tenant string, ids ...string) (out []knowledge.Found, err error) {
	err = x.db.read(ctx, func(r *reader) error {
		return r.snapshot(func() error {
			out = nil
			for _, id := range ids {
				var row int64
				err := r.query("SELECT row FROM knowledge_chunk WHERE tenant = ? AND id = ?", func(s *sqlite3.Stmt) error { row = s.ColumnInt64(0); return nil }, tenant, id)
				if err != nil || row == 0 {
					if err != nil {
						return err
					}
					continue
				}
				f, err := r.foundAt(row)
				if err != nil {
					return err
				}
				out = append(out, f)
			}
			return nil
		})
	})
	return out, err
}

// List implements knowledge.Index.
func (x *Index) List(ctx context.Context, l knowledge.List) (out []knowledge.Found, total int, err error) {
	where, args := "c.entry = (SELECT row FROM knowledge_entry WHERE tenant = ? AND document = ?)", []any{l.Tenant, l.Document}
	if !l.Disabled {
		where += " AND c.disabled = 0"
	}
	if len(l.Kinds) > 0 {
		where += " AND c.kind IN (?" + strings.Repeat(", ?", len(l.Kinds)-1) + ")"
		for _, k := range l.Kinds {
			args = append(args, string(k))
		}
	}
	err = x.db.read(ctx, func(r *reader) error {
		return r.snapshot(func() error {
			err := r.query("SELECT count(*) FROM knowledge_chunk c WHERE "+where, func(s *sqlite3.Stmt) error { total = s.ColumnInt(0); return nil }, args...)
			if err != nil || total == 0 {
				return err
			}
			var chunks []stored
			var entry int64
			err = r.query("SELECT "+chunkColumns+", c.entry FROM knowledge_chunk c WHERE "+where+" ORDER BY c.place LIMIT ? OFFSET ?", func(s *sqlite3.Stmt) error {
				entry = s.ColumnInt64(16)
				c, err := readChunk(s)
				chunks = append(chunks, c)
				return err
			}, append(args[:len(args):len(args)], int64(min(max(l.Limit, 1), 1000)), int64(max(l.Offset, 0)))...)
			if err != nil || len(chunks) == 0 {
				return err
			}
			e, err := r.entryAt(entry)
			for _, c := range chunks {
				out = append(out, c.found(e))
			}
			return err
		})
	})
	if err != nil {
		return nil, 0, err
	}
	return out, total, nil
}

// A page of a walk holds this much at most: chunks, documents, and bytes of
// content, of which one chunk may exceed it.
const (
	walkChunks    = 512
	walkDocuments = 256
	walkBytes     = 4 << 20
)

var errPage = errors.New("the page is full")

// Walk implements knowledge.Index.
func (x *Index) Walk(ctx context.Context, tenant string, s tool.Scope, fn func(knowledge.Found) bool) error {
	entry, place := int64(0), int64(-1) // behind which the next page begins
	for _, base := range s.Bases() {
		within := within(s, base)
		for entry, place = 0, -1; ; {
			var page []knowledge.Found
			more := false
			err := x.db.read(ctx, func(r *reader) error {
				return r.snapshot(func() (err error) {
					page, entry, place, more, err = r.chunks(tenant, base, within, entry, place)
					return err
				})
			})
			if err != nil {
				return err
			}
			for _, f := range page {
				if !fn(f) {
					return nil
				}
			}
			if !more {
				break
			}
		}
	}
	return ctx.Err()
}

// within tells which documents of a base are in reach.
func within(s tool.Scope, base string) func(document string) bool {
	some := map[string]bool{}
	for _, t := range s.Targets {
		if t.Base == base && !t.Restricted {
			return func(string) bool { return true }
		}
		for _, d := range t.Documents {
			if t.Base == base {
				some[d] = true
			}
		}
	}
	return func(d string) bool { return some[d] }
}

// chunks reads a page of a base behind a place of a document.
func (r *reader) chunks(tenant, base string, within func(string) bool, entry, place int64) (page []knowledge.Found, atEntry, atPlace int64, more bool, err error) {
	var entries []entryRow
	n, last := 0, entry
	err = r.query(entrySQL+"e.base = (SELECT id FROM knowledge_base WHERE tenant = ? AND base = ?) AND e.row >= ? ORDER BY e.row LIMIT ?", func(q *sqlite3.Stmt) error {
		e, err := readEntry(q)
		n++
		last = e.row
		if !e.Disabled && within(e.Document) {
			entries = append(entries, e)
		}
		return err
	}, tenant, base, entry, int64(walkDocuments))
	if err != nil {
		return nil, 0, 0, false, err
	}
	bytes := 0
	for _, e := range entries {
		after := int64(-1)
		if e.row == entry {
			after = place
		}
		err := r.query("SELECT "+chunkColumns+" FROM knowledge_chunk c WHERE c.entry = ? AND c.place > ? AND c.disabled = 0 AND c.embedded IS NOT NULL ORDER BY c.place", func(q *sqlite3.Stmt) error {
			if len(page) >= walkChunks || bytes >= walkBytes {
				return errPage
			}
			c, err := readChunk(q)
			page = append(page, c.found(e))
			bytes += len(c.Content)
			atEntry, atPlace = e.row, int64(c.Index)
			return err
		}, e.row, after)
		if errors.Is(err, errPage) {
			return page, atEntry, atPlace, true, nil
		}
		if err != nil {
			return nil, 0, 0, false, err
		}
	}
	return page, last + 1, -1, n == walkDocuments, nil
}
