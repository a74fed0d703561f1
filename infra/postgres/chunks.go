package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"refold/domain/knowledge"
	"refold/domain/tool"
)

// foundRow is a chunk with its document, and the number of its row.
type foundRow struct {
	row int64
	knowledge.Found
}

// foundWhere reads chunks with their documents.
func foundWhere(ctx context.Context, tx pgx.Tx, where string, args ...any) ([]foundRow, error) {
	rows, err := tx.Query(ctx, "SELECT "+chunkColumns+" FROM knowledge_chunk c WHERE "+where, args...)
	if err != nil {
		return nil, err
	}
	var of []int64
	chunks, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (stored, error) {
		c, entry, err := readChunk(r)
		of = append(of, entry)
		return c, err
	})
	if err != nil || len(chunks) == 0 {
		return nil, err
	}
	some := map[int64]bool{}
	for _, e := range of {
		some[e] = true
	}
	documents, err := entries(ctx, tx, "e.id = ANY($1)", keys(some))
	if err != nil {
		return nil, err
	}
	byRow := map[int64]entryRow{}
	for _, e := range documents {
		byRow[e.row] = e
	}
	out := make([]foundRow, len(chunks))
	for i, c := range chunks {
		e := byRow[of[i]]
		c.Base, c.Document, c.Revision = e.Base, e.Document, e.Revision
		out[i] = foundRow{c.row, knowledge.Found{Chunk: c.Chunk, Entry: e.Entry}}
	}
	return out, nil
}

func plainFound(in []foundRow) []knowledge.Found {
	var out []knowledge.Found
	for _, f := range in {
		out = append(out, f.Found)
	}
	return out
}

// Chunks implements knowledge.Index.
func (x *Index) Chunks(ctx context.Context, tenant string, ids ...string) (out []knowledge.Found, err error) {
	if ids = texts(ids); len(ids) == 0 || !plain(tenant) {
		return nil, ctx.Err()
	}
	err = x.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found, err := foundWhere(ctx, tx, "c.tenant = $1 AND c.name = ANY($2)", tenant, ids)
		out = plainFound(found)
		return err
	})
	return out, err
}

// List implements knowledge.Index.
func (x *Index) List(ctx context.Context, l knowledge.List) (out []knowledge.Found, total int, err error) {
	if !plain(l.Tenant) || !plain(l.Document) {
		return nil, 0, ctx.Err()
	}
	const where = `c.entry = (SELECT id FROM knowledge_entry WHERE tenant = $1 AND document = $2) AND ($3 OR NOT c.disabled) AND ($4::text[] IS NULL OR c.kind = ANY($4))`
	var kinds []string
	for _, k := range l.Kinds {
		kinds = append(kinds, string(k))
	}
	err = x.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT count(*) FROM knowledge_chunk c WHERE "+where, l.Tenant, l.Document, l.Disabled, kinds).Scan(&total)
		if err != nil || total == 0 {
			return err
		}
		found, err := foundWhere(ctx, tx, where+" ORDER BY c.place LIMIT $5 OFFSET $6", l.Tenant, l.Document, l.Disabled, kinds, min(max(l.Limit, 1), 1000), max(l.Offset, 0))
		out = plainFound(found)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return out, total, nil
}

// A page of a walk holds this many chunks at most, of this many documents.
const (
	walkChunks    = 256
	walkDocuments = 256
)

// Walk implements knowledge.Index.
func (x *Index) Walk(ctx context.Context, tenant string, s tool.Scope, fn func(knowledge.Found) bool) error {
	if !plain(tenant) {
		return ctx.Err()
	}
	for _, base := range texts(s.Bases()) {
		within := within(s, base)
		for entry, place, more := int64(0), int64(-1), true; more; { // behind which the next page begins
			var page []knowledge.Found
			at, past := entry, place
			err := x.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
				page, entry, place, more, err = walkPage(ctx, tx, tenant, base, within, at, past)
				return err
			})
			if err != nil {
				return err
			}
			for _, f := range page {
				if !fn(f) {
					return nil
				}
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

// walkPage reads a page of a base behind a place of a document.
func walkPage(ctx context.Context, tx pgx.Tx, tenant, base string, within func(string) bool, entry, place int64) (page []knowledge.Found, atEntry, atPlace int64, more bool, err error) {
	documents, err := entries(ctx, tx, "b.tenant = $1 AND b.base = $2 AND e.id >= $3 ORDER BY e.id LIMIT $4", tenant, base, entry, walkDocuments)
	if err != nil || len(documents) == 0 {
		return nil, 0, 0, false, err
	}
	var rows []int64
	for _, e := range documents {
		if !e.Disabled && within(e.Document) {
			rows = append(rows, e.row)
		}
	}
	found, err := foundWhere(ctx, tx, `c.entry = ANY($1) AND (c.entry, c.place) > ($2, $3) AND NOT c.disabled AND c.embedded IS NOT NULL
ORDER BY c.entry, c.place LIMIT $4`, rows, entry, place, walkChunks)
	if err != nil {
		return nil, 0, 0, false, err
	}
	page = plainFound(found)
	if len(found) < walkChunks {
		return page, documents[len(documents)-1].row + 1, -1, len(documents) == walkDocuments, nil
	}
	last := found[len(found)-1]
	for _, e := range documents {
		if e.Document == last.Entry.Document {
			return page, e.row, int64(last.Index), true, nil
		}
	}
	return page, math.MaxInt64, 0, false, nil
}
