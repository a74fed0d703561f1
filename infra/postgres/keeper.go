package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// entryRow is a document as its row holds it; row 0 if it is not there.
type entryRow struct {
	row, base int64
	knowledge.Entry
}

// keeper changes the chunks of a tenant in a transaction that holds its lock.
type keeper struct {
	tx     pgx.Tx
	tenant string
	loose  float64 // seconds for which vectors are kept that no chunk has

	batch      pgx.Batch
	counts     map[int64][2]int64 // how texts and length of bases change
	came, left [][]byte           // digests of vectors
	dropped    []int64            // rows
}

// purgeStep is how many vectors that nobody has had for long one transaction
// deletes.
const purgeStep = 500

// done sends what was collected. Deletes come before it.
func (k *keeper) done(ctx context.Context) error {
	for base, n := range k.counts {
		k.batch.Queue("UPDATE knowledge_base SET texts = texts + $1, length = length + $2 WHERE id = $3", n[0], n[1], base)
	}
	const spaces = "space IN (SELECT id FROM knowledge_space WHERE tenant = $1)"
	if len(k.came) > 0 {
		k.batch.Queue("UPDATE knowledge_vector SET loose = NULL WHERE "+spaces+" AND digest = ANY($2) AND loose IS NOT NULL", k.tenant, k.came)
	}
	if len(k.left) > 0 {
		k.batch.Queue("UPDATE knowledge_vector v SET loose = now() WHERE "+spaces+` AND digest = ANY($2) AND loose IS NULL
AND NOT EXISTS (SELECT FROM knowledge_chunk c WHERE c.tenant = $1 AND c.embedded = v.digest)`, k.tenant, k.left)
	}
	k.batch.Queue(`DELETE FROM knowledge_vector WHERE id IN (SELECT id FROM knowledge_vector WHERE loose < now() - make_interval(secs => $1)
LIMIT $2 FOR UPDATE SKIP LOCKED)`, k.loose, purgeStep)
	return k.tx.SendBatch(ctx, &k.batch).Close()
}

func (k *keeper) count(base, texts, length int64) {
	if k.counts == nil {
		k.counts = map[int64][2]int64{}
	}
	n := k.counts[base]
	k.counts[base] = [2]int64{n[0] + texts, n[1] + length}
}

const entrySQL = `SELECT e.id, e.base, e.tenant, b.base, e.document, e.revision, e.title, e.tags, e.disabled
FROM knowledge_entry e JOIN knowledge_base b ON b.id = e.base WHERE `

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func entries(ctx context.Context, q querier, where string, args ...any) ([]entryRow, error) {
	rows, err := q.Query(ctx, entrySQL+where, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (e entryRow, err error) {
		var title []byte
		err = r.Scan(&e.row, &e.base, &e.Tenant, &e.Base, &e.Document, &e.Revision, &title, &e.Tags, &e.Disabled)
		if e.Title = string(title); len(e.Tags) == 0 {
			e.Tags = nil
		}
		return e, err
	})
}

func (k *keeper) entry(ctx context.Context, document string) (e entryRow, err error) {
	found, err := entries(ctx, k.tx, "e.tenant = $1 AND e.document = $2", k.tenant, document)
	if len(found) > 0 {
		e = found[0]
	}
	return e, err
}

const chunkColumns = "c.id, c.length, c.embedded, c.entry, c.name, c.place, c.kind, c.disabled, c.edition, c.parent, c.first, c.past, c.tokens, c.digest, c.faq, c.context, c.content"

// readChunk reads chunkColumns.
func readChunk(r pgx.CollectableRow) (c stored, entry int64, err error) {
	var faq, context, content []byte
	if err := r.Scan(&c.row, &c.length, &c.embedded, &entry, &c.ID, &c.Index, &c.Kind, &c.Disabled, &c.Edition, &c.Parent, &c.Start, &c.End, &c.Tokens, &c.Digest,
		&faq, &context, &content); err != nil {
		return c, 0, err
	}
	c.Context, c.Content = string(context), string(content)
	if len(faq) > 0 {
		c.FAQ = new(knowledge.FAQ)
		if err := json.Unmarshal(faq, c.FAQ); err != nil {
			return c, 0, fmt.Errorf("%w: FAQ entry of chunk %s", event.ErrCorrupt, c.ID)
		}
	}
	return c, entry, nil
}

func (k *keeper) chunksWhere(ctx context.Context, where string, args ...any) ([]stored, error) {
	rows, err := k.tx.Query(ctx, "SELECT "+chunkColumns+" FROM knowledge_chunk c WHERE "+where, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (stored, error) {
		c, _, err := readChunk(r)
		return c, err
	})
}

func (k *keeper) put(ctx context.Context, d knowledge.Entry, base int64, chunks []prepared) error {
	ids, wanted := make([]string, len(chunks)), map[string]bool{}
	for i, c := range chunks {
		ids[i], wanted[c.ID] = c.ID, true
	}
	var id, other string
	err := k.tx.QueryRow(ctx, `SELECT c.name, e.document FROM knowledge_chunk c JOIN knowledge_entry e ON e.id = c.entry
WHERE c.tenant = $1 AND c.name = ANY($2) AND e.document <> $3 LIMIT 1`, k.tenant, ids, d.Document).Scan(&id, &other)
	if err == nil {
		return fmt.Errorf("%w: chunk %s is one of document %s", event.ErrInvalid, id, other)
	} else if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	e, err := k.entry(ctx, d.Document)
	if err != nil || e.row != 0 && e.Revision > d.Revision {
		return err
	}
	if e.row != 0 && e.base != base {
		if err := k.remove(ctx, e); err != nil {
			return err
		}
		e.row = 0
	}
	var old []stored
	if e.row != 0 {
		if old, err = k.chunksWhere(ctx, "c.entry = $1", e.row); err != nil {
			return err
		}
	}
	retitled := e.row != 0 && e.Title != d.Title
	if e, err = k.putEntry(ctx, e, d, base); err != nil {
		return err
	}
	there := make(map[string]stored, len(old))
	for _, s := range old {
		if there[s.ID] = s; !wanted[s.ID] {
			k.drop(e, s)
		}
	}
	for _, c := range chunks {
		s, had := there[c.ID]
		k.putChunk(e, s, had, retitled, c)
	}
	return k.flush(ctx)
}

// putEntry makes the row of a document what it should be, and gives it.
func (k *keeper) putEntry(ctx context.Context, was entryRow, d knowledge.Entry, base int64) (entryRow, error) {
	tags := d.Tags
	if tags == nil {
		tags = []string{}
	}
	e := entryRow{row: was.row, base: base, Entry: d}
	if was.row == 0 {
		err := k.tx.QueryRow(ctx, "INSERT INTO knowledge_entry (tenant, document, base, revision, title, tags, disabled) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
			d.Tenant, d.Document, base, d.Revision, []byte(d.Title), tags, d.Disabled).Scan(&e.row)
		return e, err
	}
	_, err := k.tx.Exec(ctx, "UPDATE knowledge_entry SET revision = $1, title = $2, tags = $3, disabled = $4 WHERE id = $5", d.Revision, []byte(d.Title), tags, d.Disabled, was.row)
	return e, err
}

// putChunk makes a chunk what it should be; s is what was there.
func (k *keeper) putChunk(e entryRow, s stored, had, retitled bool, c prepared) {
	if had && s.Edition > c.Edition {
		c = prepareChunk(e.base, e.Title, s.Chunk) // an edit that came before
	}
	if had && s.words(c.Chunk) {
		if !s.same(c.Chunk) {
			k.batch.Queue("UPDATE knowledge_chunk SET place = $1, disabled = $2, edition = $3, parent = $4, first = $5, past = $6, tokens = $7, digest = $8, faq = $9 WHERE id = $10",
				c.Index, c.Disabled, c.Edition, c.Parent, c.Start, c.End, c.Tokens, c.Digest, faqText(c.FAQ), s.row)
		}
		if retitled && c.embedded != nil {
			k.batch.Queue("UPDATE knowledge_chunk SET words = array_to_tsvector($1::text[]) WHERE id = $2", c.lexemes, s.row)
		}
		return
	}
	if had {
		k.drop(e, s)
	}
	context, content := []byte(c.Context), []byte(c.Content)
	k.batch.Queue(`INSERT INTO knowledge_chunk (tenant, name, entry, base, place, kind, disabled, edition, length, embedded, parent, first, past, tokens, digest, faq, context, content, words)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, array_to_tsvector($19::text[]))`,
		k.tenant, c.ID, e.row, e.base, c.Index, string(c.Kind), c.Disabled, c.Edition, c.length, c.embedded, c.Parent, c.Start, c.End, c.Tokens, c.Digest,
		faqText(c.FAQ), context, content, c.lexemes)
	if c.embedded != nil {
		k.count(e.base, 1, int64(c.length))
		k.came = append(k.came, c.embedded)
	}
}

// drop deletes a chunk. Its vector stays for a while if nobody else has it.
func (k *keeper) drop(e entryRow, s stored) {
	k.dropped = append(k.dropped, s.row)
	if s.embedded != nil {
		k.count(e.base, -1, -s.length)
		k.left = append(k.left, s.embedded)
	}
}

// flush deletes what was dropped, and then sends what is to be written, as ids
// are kept once.
func (k *keeper) flush(ctx context.Context) error {
	if len(k.dropped) > 0 {
		if _, err := k.tx.Exec(ctx, "DELETE FROM knowledge_chunk WHERE id = ANY($1)", k.dropped); err != nil {
			return err
		}
		k.dropped = nil
	}
	if k.batch.Len() == 0 {
		return nil
	}
	err := k.tx.SendBatch(ctx, &k.batch).Close()
	k.batch = pgx.Batch{}
	return err
}

func (k *keeper) change(ctx context.Context, d knowledge.Entry) error {
	e, err := k.entry(ctx, d.Document)
	if err != nil || e.row == 0 {
		return err
	}
	d.Base, d.Revision = e.Base, e.Revision
	retitled := e.Title != d.Title
	if e, err = k.putEntry(ctx, e, d, e.base); err != nil || !retitled {
		return err
	}
	chunks, err := k.chunksWhere(ctx, "c.entry = $1", e.row)
	if err != nil {
		return err
	}
	for _, s := range chunks {
		k.putChunk(e, s, true, true, prepareChunk(e.base, e.Title, s.Chunk))
	}
	return k.flush(ctx)
}

func (k *keeper) edit(ctx context.Context, n knowledge.Chunk) error {
	chunks, err := k.chunksWhere(ctx, "c.tenant = $1 AND c.name = $2", k.tenant, n.ID)
	if err != nil {
		return err
	}
	if len(chunks) == 0 {
		return fmt.Errorf("%w: %s", knowledge.ErrNoChunk, n.ID)
	}
	found, err := entries(ctx, k.tx, "e.id = (SELECT entry FROM knowledge_chunk WHERE id = $1)", chunks[0].row)
	if err != nil || len(found) == 0 {
		return err
	}
	s, e := chunks[0], found[0]
	if s.Edition > n.Edition {
		return nil
	}
	c := s.Chunk
	c.Content, c.Context, c.Tokens, c.Digest, c.Edition, c.Disabled, c.FAQ = n.Content, n.Context, n.Tokens, n.Digest, n.Edition, n.Disabled, n.FAQ
	k.putChunk(e, s, true, false, prepareChunk(e.base, e.Title, c))
	return k.flush(ctx)
}

// removeWhere takes out the documents of a condition and tells how many there were.
func (k *keeper) removeWhere(ctx context.Context, where string, args ...any) (int, error) {
	found, err := entries(ctx, k.tx, where, args...)
	for _, e := range found {
		if err == nil {
			err = k.remove(ctx, e)
		}
	}
	return len(found), err
}

func (k *keeper) remove(ctx context.Context, e entryRow) error {
	rows, err := k.tx.Query(ctx, "DELETE FROM knowledge_chunk WHERE entry = $1 RETURNING embedded, length", e.row)
	if err != nil {
		return err
	}
	var embedded []byte
	var length int64
	_, err = pgx.ForEachRow(rows, []any{&embedded, &length}, func() error {
		if embedded != nil {
			k.count(e.base, -1, -length)
			k.left = append(k.left, append([]byte(nil), embedded...))
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = k.tx.Exec(ctx, "DELETE FROM knowledge_entry WHERE id = $1", e.row)
	return err
}

func (k *keeper) embed(ctx context.Context, model string, dims int, digests [][]byte, data [][]float32) (space int64, err error) {
	if _, err := k.tx.Exec(ctx, "INSERT INTO knowledge_space (tenant, model, dims) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING", k.tenant, model, dims); err != nil {
		return 0, err
	}
	var have int
	if err := k.tx.QueryRow(ctx, "SELECT id, dims FROM knowledge_space WHERE tenant = $1 AND model = $2", k.tenant, model).Scan(&space, &have); err != nil {
		return 0, err
	}
	if have != dims {
		return 0, errDims(have, dims)
	}
	for i := range digests {
		k.batch.Queue(`INSERT INTO knowledge_vector (space, digest, loose, data)
VALUES ($1, $2, CASE WHEN EXISTS (SELECT FROM knowledge_chunk WHERE tenant = $3 AND embedded = $2) THEN NULL ELSE now() END, $4) ON CONFLICT DO NOTHING`,
			space, digests[i], k.tenant, data[i])
	}
	return space, k.flush(ctx)
}
