package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
	"refold/domain/knowledge"
)

// entryRow is a document as its row holds it; row 0 if it is not there.
type entryRow struct {
	row, base int64
	knowledge.Entry
}

// keeper changes the chunks of a tenant in the open transaction.
type keeper struct {
	w             *writer
	tenant        string
	spaces        bool // the tenant has vectors
	retitled      bool // chunks that stay are found by another title
	now           int64
	texts, length int64 // how the base's counts change
}

// purgeStep is how many vectors that nobody has had for long one transaction
// deletes.
const purgeStep = 500

func (w *writer) keeper(tenant string) (*keeper, error) {
	k := &keeper{w: w, tenant: tenant, now: time.Now().Unix()}
	err := w.query("SELECT 1 FROM knowledge_space WHERE tenant = ? LIMIT 1", func(*sqlite3.Stmt) error { k.spaces = true; return nil }, tenant)
	return k, err
}

// done writes down the base's counts.
func (k *keeper) done(base int64) error {
	if k.texts != 0 || k.length != 0 {
		if err := k.w.change("UPDATE knowledge_base SET texts = texts + ?, length = length + ? WHERE id = ?", k.texts, k.length, base); err != nil {
			return err
		}
		k.texts, k.length = 0, 0
	}
	return k.w.change("DELETE FROM knowledge_vector WHERE row IN (SELECT row FROM knowledge_vector WHERE loose < ? LIMIT ?)",
		k.now-int64(k.w.db.keepLoose.Seconds()), int64(purgeStep))
}

const entrySQL = `SELECT e.row, e.base, e.tenant, b.base, e.document, e.revision, e.title, e.tags, e.disabled
FROM knowledge_entry e JOIN knowledge_base b ON b.id = e.base WHERE `

func readEntry(s *sqlite3.Stmt) (e entryRow, err error) {
	e = entryRow{s.ColumnInt64(0), s.ColumnInt64(1), knowledge.Entry{Tenant: s.ColumnText(2), Base: s.ColumnText(3), Document: s.ColumnText(4),
		Revision: s.ColumnInt(5), Title: s.ColumnText(6), Disabled: s.ColumnInt64(8) != 0}}
	if err := json.Unmarshal([]byte(s.ColumnText(7)), &e.Tags); err != nil {
		return e, fmt.Errorf("%w: tags of document %s", event.ErrCorrupt, e.Document)
	}
	return e, nil
}

func (w *writer) entry(tenant, document string) (e entryRow, err error) {
	err = w.query(entrySQL+"e.tenant = ? AND e.document = ?", func(s *sqlite3.Stmt) (err error) { e, err = readEntry(s); return err }, tenant, document)
	return e, err
}

func (w *writer) entryAt(row int64) (e entryRow, err error) {
	err = w.query(entrySQL+"e.row = ?", func(s *sqlite3.Stmt) (err error) { e, err = readEntry(s); return err }, row)
	return e, err
}

const chunkColumns = "c.row, c.length, c.embedded, c.id, c.place, c.kind, c.disabled, c.edition, c.parent, c.first, c.past, c.tokens, c.digest, c.faq, c.context, c.content"

// readChunk reads chunkColumns.
func readChunk(s *sqlite3.Stmt) (c stored, err error) {
	c = stored{row: s.ColumnInt64(0), length: s.ColumnInt64(1), embedded: s.ColumnBlob(2, nil), Chunk: knowledge.Chunk{
		ID: s.ColumnText(3), Index: s.ColumnInt(4), Kind: knowledge.Kind(s.ColumnText(5)), Disabled: s.ColumnInt64(6) != 0, Edition: s.ColumnInt(7),
		Parent: s.ColumnText(8), Start: s.ColumnInt(9), End: s.ColumnInt(10), Tokens: s.ColumnInt(11), Digest: s.ColumnText(12),
		Context: s.ColumnText(14), Content: s.ColumnText(15)}}
	if faq := s.ColumnRawText(13); len(faq) > 0 {
		c.FAQ = new(knowledge.FAQ)
		if err := json.Unmarshal(faq, c.FAQ); err != nil {
			return c, fmt.Errorf("%w: FAQ entry of chunk %s", event.ErrCorrupt, c.ID)
		}
	}
	return c, nil
}

func (w *writer) chunksOf(entry int64) ([]stored, error) { return w.chunksWhere("entry = ?", entry) }

func (w *writer) chunksWhere(where string, args ...any) (out []stored, err error) {
	err = w.query("SELECT "+chunkColumns+" FROM knowledge_chunk c WHERE "+where, func(s *sqlite3.Stmt) error {
		c, err := readChunk(s)
		out = append(out, c)
		return err
	}, args...)
	return out, err
}

// putEntry makes the row of a document what it should be, and gives it.
func (k *keeper) putEntry(was entryRow, d knowledge.Entry, base int64) (entryRow, error) {
	tags, err := json.Marshal(d.Tags)
	if err != nil {
		return was, err
	}
	if was.row == 0 {
		err = k.w.change("INSERT INTO knowledge_entry (tenant, document, base, revision, title, tags, disabled) VALUES (?, ?, ?, ?, ?, ?, ?)",
			d.Tenant, d.Document, base, int64(d.Revision), d.Title, string(tags), d.Disabled)
		was.row = k.w.conn.LastInsertRowID()
	} else {
		err = errors.Join(k.w.change("UPDATE knowledge_entry SET revision = ?, title = ?, tags = ?, disabled = ? WHERE row = ?",
			int64(d.Revision), d.Title, string(tags), d.Disabled, was.row),
			k.w.change("DELETE FROM knowledge_tag WHERE entry = ?", was.row))
	}
	for _, t := range d.Tags {
		err = errors.Join(err, k.w.change("INSERT INTO knowledge_tag (tenant, tag, entry) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", d.Tenant, t, was.row))
	}
	return entryRow{row: was.row, base: base, Entry: d}, err
}

// putChunk makes a chunk what it should be; s is what was there.
func (k *keeper) putChunk(e entryRow, s stored, had bool, c prepared) error {
	if had && s.Edition > c.Edition {
		c = prepareChunk(e.base, e.Title, s.Chunk) // an edit that came before
	}
	switch {
	case had && s.same(c.Chunk):
		return k.reword(s.row, c)
	case had && s.words(c.Chunk):
		err := k.w.change(`UPDATE knowledge_chunk SET place = ?, disabled = ?, edition = ?, parent = ?, first = ?, past = ?, tokens = ?, digest = ?, faq = ? WHERE row = ?`,
			int64(c.Index), c.Disabled, int64(c.Edition), c.Parent, int64(c.Start), int64(c.End), int64(c.Tokens), c.Digest, nullable(faqText(c.FAQ)), s.row)
		return errors.Join(err, k.reword(s.row, c))
	case had:
		if err := k.drop(s); err != nil {
			return err
		}
	}
	err := k.w.change(`INSERT INTO knowledge_chunk (tenant, id, entry, base, place, kind, disabled, edition, length, embedded, parent, first, past, tokens, digest, faq, context, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		k.tenant, c.ID, e.row, e.base, int64(c.Index), string(c.Kind), c.Disabled, int64(c.Edition), int64(c.length), c.embedded, c.Parent,
		int64(c.Start), int64(c.End), int64(c.Tokens), c.Digest, nullable(faqText(c.FAQ)), c.Context, c.Content)
	if err != nil || c.embedded == nil {
		return err
	}
	row := k.w.conn.LastInsertRowID()
	k.texts++
	k.length += int64(c.length)
	if err := k.w.change("INSERT INTO knowledge_words (rowid, words) VALUES (?, ?)", row, c.lexemes); err != nil || !k.spaces {
		return err
	}
	return k.w.change("UPDATE knowledge_vector SET loose = NULL WHERE digest = ? AND loose IS NOT NULL AND space IN (SELECT id FROM knowledge_space WHERE tenant = ?)",
		c.embedded, k.tenant)
}

// reword writes the inverted lists of a chunk again if the title is another.
func (k *keeper) reword(row int64, c prepared) error {
	if c.embedded == nil || !k.retitled {
		return nil
	}
	return errors.Join(k.w.change("DELETE FROM knowledge_words WHERE rowid = ?", row),
		k.w.change("INSERT INTO knowledge_words (rowid, words) VALUES (?, ?)", row, c.lexemes))
}

// drop deletes a chunk. Its vector stays for a while if nobody else has it.
func (k *keeper) drop(s stored) error {
	if err := k.w.change("DELETE FROM knowledge_chunk WHERE row = ?", s.row); err != nil || s.embedded == nil {
		return err
	}
	k.texts--
	k.length -= s.length
	if err := k.w.change("DELETE FROM knowledge_words WHERE rowid = ?", s.row); err != nil || !k.spaces {
		return err
	}
	return k.w.change(`UPDATE knowledge_vector SET loose = ?1 WHERE digest = ?2 AND space IN (SELECT id FROM knowledge_space WHERE tenant = ?3)
AND NOT EXISTS (SELECT 1 FROM knowledge_chunk WHERE tenant = ?3 AND embedded = ?2)`, k.now, s.embedded, k.tenant)
}

func (k *keeper) removeEntry(e entryRow) error {
	chunks, err := k.w.chunksOf(e.row)
	if err != nil {
		return err
	}
	for _, s := range chunks {
		if err := k.drop(s); err != nil {
			return err
		}
	}
	return errors.Join(k.w.change("DELETE FROM knowledge_tag WHERE entry = ?", e.row), k.w.change("DELETE FROM knowledge_entry WHERE row = ?", e.row))
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}
