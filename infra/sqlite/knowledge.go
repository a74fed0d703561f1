package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/search"
)

// Index is the knowledge.Index of a DB: full text by FTS5, whose lists
// domain/search ranks, and vectors that are scanned in memory (see vectors.go).
// Changes survive the death of the process at once, and that of the machine as
// soon as anything durable was written after them, an event for example.
type Index struct{ db *DB }

var _ knowledge.Index = (*Index)(nil)

// stored is a chunk as its row holds it.
type stored struct {
	row, length int64
	embedded    []byte
	knowledge.Chunk
}

// words tells whether two chunks are found by the same.
func (s stored) words(c knowledge.Chunk) bool {
	return s.Kind == c.Kind && s.Context == c.Context && s.Content == c.Content
}

func (s stored) same(c knowledge.Chunk) bool {
	return s.words(c) && s.Index == c.Index && s.Parent == c.Parent && s.Start == c.Start && s.End == c.End &&
		s.Tokens == c.Tokens && s.Digest == c.Digest && s.Edition == c.Edition && s.Disabled == c.Disabled && faqText(s.FAQ) == faqText(c.FAQ)
}

func faqText(f *knowledge.FAQ) string {
	if f == nil {
		return ""
	}
	b, _ := json.Marshal(f) // strings and numbers
	return string(b)
}

// prepared is a chunk with what is computed before anybody waits for it.
type prepared struct {
	knowledge.Chunk
	lexemes  string
	length   int
	embedded []byte // nil if the kind is not searched
}

func prepareChunk(collection int64, title string, c knowledge.Chunk) prepared {
	p := prepared{Chunk: c}
	if c.Kind.Searched() {
		lexemes, length := search.Lexemes(collection, title, c.Context, c.Content)
		p.lexemes, p.length = strings.Join(lexemes, " "), length
		p.embedded, _ = knowledge.ParseDigest(c.EmbeddedDigest())
	}
	return p
}

// Put implements knowledge.Index.
func (x *Index) Put(ctx context.Context, d knowledge.Entry, chunks []knowledge.Chunk) error {
	if err := d.Check(chunks); err != nil {
		return err
	}
	base, err := x.base(ctx, d.Tenant, d.Base)
	if err != nil {
		return err
	}
	j := &putChunksJob{Entry: d, base: base, bytes: 1000}
	for i, c := range chunks {
		if i%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		p := prepareChunk(base, d.Title, c)
		j.chunks = append(j.chunks, p)
		j.bytes += 500 + len(c.Content) + len(c.Context) + len(p.lexemes)
	}
	return x.db.submit(ctx, j)
}

// base gives the number of a base, which it keeps for ever.
func (x *Index) base(ctx context.Context, tenant, base string) (id int64, err error) {
	const find = "SELECT id FROM knowledge_base WHERE tenant = ? AND base = ?"
	get := func(r *reader) error {
		return r.query(find, func(s *sqlite3.Stmt) error { id = s.ColumnInt64(0); return nil }, tenant, base)
	}
	if err := x.db.read(ctx, get); err != nil || id != 0 {
		return id, err
	}
	insert := knowledgeJob{size_: 200, do: func(w *writer) error {
		return w.change("INSERT INTO knowledge_base (tenant, base) VALUES (?, ?) ON CONFLICT DO NOTHING", tenant, base)
	}}
	if err := x.db.submit(ctx, insert); err != nil {
		return 0, err
	}
	return id, x.db.read(ctx, get)
}

// knowledgeJob is a change that is never refused.
type knowledgeJob struct {
	size_ int
	full  bool
	do    func(w *writer) error
}

func (j knowledgeJob) durable() bool                      { return j.full }
func (j knowledgeJob) size() int                          { return j.size_ }
func (j knowledgeJob) run(w *writer) (refused, err error) { return nil, j.do(w) }

type putChunksJob struct {
	knowledge.Entry
	base   int64
	chunks []prepared
	bytes  int
}

func (j *putChunksJob) durable() bool { return false }
func (j *putChunksJob) size() int     { return j.bytes }

func (j *putChunksJob) run(w *writer) (refused, err error) {
	for _, c := range j.chunks {
		other := ""
		err := w.query("SELECT e.document FROM knowledge_chunk c JOIN knowledge_entry e ON e.row = c.entry WHERE c.tenant = ? AND c.id = ?",
			func(s *sqlite3.Stmt) error { other = s.ColumnText(0); return nil }, j.Tenant, c.ID)
		if err != nil {
			return nil, err
		}
		if other != "" && other != j.Document {
			return fmt.Errorf("%w: chunk %s is one of document %s", event.ErrInvalid, c.ID, other), nil
		}
	}
	e, err := w.entry(j.Tenant, j.Document)
	if err != nil {
		return nil, err
	}
	if e.row != 0 && e.Revision > j.Revision {
		return nil, nil
	}
	k, err := w.keeper(j.Tenant)
	if err != nil {
		return nil, err
	}
	if e.row != 0 && e.base != j.base {
		if err := errors.Join(k.removeEntry(e), k.done(e.base)); err != nil {
			return nil, err
		}
		e.row = 0
	}
	k.retitled = e.row != 0 && e.Title != j.Title
	var old []stored
	if e.row != 0 {
		if old, err = w.chunksOf(e.row); err != nil {
			return nil, err
		}
	}
	if e, err = k.putEntry(e, j.Entry, j.base); err != nil {
		return nil, err
	}
	there := make(map[string]stored, len(old))
	for _, s := range old {
		there[s.ID] = s
	}
	// What goes comes first, as ids are kept once.
	wanted := make(map[string]bool, len(j.chunks))
	for _, c := range j.chunks {
		wanted[c.ID] = true
	}
	for _, s := range old {
		if !wanted[s.ID] {
			if err := k.drop(s); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range j.chunks {
		s, had := there[c.ID]
		if err := k.putChunk(e, s, had, c); err != nil {
			return nil, err
		}
	}
	return nil, k.done(e.base)
}

// Change implements knowledge.Index.
func (x *Index) Change(ctx context.Context, d knowledge.Entry) error {
	return x.db.submit(ctx, knowledgeJob{size_: 64 << 10, do: func(w *writer) error {
		e, err := w.entry(d.Tenant, d.Document)
		if err != nil || e.row == 0 {
			return err
		}
		k, err := w.keeper(d.Tenant)
		if err != nil {
			return err
		}
		d.Base, d.Revision = e.Base, e.Revision
		k.retitled = e.Title != d.Title
		if e, err = k.putEntry(e, d, e.base); err != nil || !k.retitled {
			return err
		}
		chunks, err := w.chunksOf(e.row)
		if err != nil {
			return err
		}
		for _, s := range chunks {
			if err := k.reword(s.row, prepareChunk(e.base, e.Title, s.Chunk)); err != nil {
				return err
			}
		}
		return nil
	}})
}

// Edit implements knowledge.Index.
func (x *Index) Edit(ctx context.Context, tenant string, c knowledge.Chunk) error {
	j := &editJob{tenant: tenant, chunk: c}
	return x.db.submit(ctx, j)
}

type editJob struct {
	tenant string
	chunk  knowledge.Chunk
}

func (j *editJob) durable() bool { return false }
func (j *editJob) size() int     { return 1000 + 3*len(j.chunk.Content) }

func (j *editJob) run(w *writer) (refused, err error) {
	var s stored
	var row int64
	if err := w.query("SELECT entry FROM knowledge_chunk WHERE tenant = ? AND id = ?", func(s *sqlite3.Stmt) error { row = s.ColumnInt64(0); return nil }, j.tenant, j.chunk.ID); err != nil {
		return nil, err
	}
	if row == 0 {
		return fmt.Errorf("%w: %s", knowledge.ErrNoChunk, j.chunk.ID), nil
	}
	e, err := w.entryAt(row)
	if err != nil {
		return nil, err
	}
	chunks, err := w.chunksWhere("tenant = ? AND id = ?", j.tenant, j.chunk.ID)
	if err != nil {
		return nil, err
	}
	s = chunks[0]
	c := s.Chunk
	if c.Edition > j.chunk.Edition {
		return nil, nil
	}
	n := j.chunk
	c.Content, c.Context, c.Tokens, c.Digest, c.Edition, c.Disabled, c.FAQ = n.Content, n.Context, n.Tokens, n.Digest, n.Edition, n.Disabled, n.FAQ
	k, err := w.keeper(j.tenant)
	if err != nil {
		return nil, err
	}
	if err := k.putChunk(e, s, true, prepareChunk(e.base, e.Title, c)); err != nil {
		return nil, err
	}
	return nil, k.done(e.base)
}

// removeStep is how many documents of a base one transaction takes out.
const removeStep = 50

// Remove implements knowledge.Index.
func (x *Index) Remove(ctx context.Context, tenant string, documents ...string) error {
	for part := range slices.Chunk(documents, removeStep) {
		err := x.db.submit(ctx, knowledgeJob{size_: 1 << 20, do: func(w *writer) error {
			for _, d := range part {
				e, err := w.entry(tenant, d)
				if err == nil && e.row != 0 {
					err = w.removeEntries(tenant, e)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveBase implements knowledge.Index.
func (x *Index) RemoveBase(ctx context.Context, tenant, base string) error {
	for left := true; left; {
		err := x.db.submit(ctx, knowledgeJob{size_: 1 << 20, do: func(w *writer) error {
			var rows []int64
			err := w.query("SELECT row FROM knowledge_entry WHERE base = (SELECT id FROM knowledge_base WHERE tenant = ? AND base = ?) LIMIT ?",
				func(s *sqlite3.Stmt) error { rows = append(rows, s.ColumnInt64(0)); return nil }, tenant, base, int64(removeStep))
			left = len(rows) == removeStep
			for _, row := range rows {
				if err != nil {
					return err
				}
				var e entryRow
				if e, err = w.entryAt(row); err == nil {
					err = w.removeEntries(tenant, e)
				}
			}
			return err
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) removeEntries(tenant string, e entryRow) error {
	k, err := w.keeper(tenant)
	if err != nil {
		return err
	}
	return errors.Join(k.removeEntry(e), k.done(e.base))
}

// Embeddings implements knowledge.Index.
func (x *Index) Embeddings(ctx context.Context, tenant, model string, digests []string) (out map[string][]float32, err error) {
	err = x.db.read(ctx, func(r *reader) error {
		out = map[string][]float32{}
		for _, d := range digests {
			raw, err := knowledge.ParseDigest(d)
			if err != nil {
				continue // nobody can have kept it
			}
			err = r.query("SELECT data FROM knowledge_vector WHERE space = (SELECT id FROM knowledge_space WHERE tenant = ? AND model = ?) AND digest = ?",
				func(s *sqlite3.Stmt) error { out[d] = floats(nil, s.ColumnRawBlob(0)); return nil }, tenant, model, raw)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// Embed implements knowledge.Index.
func (x *Index) Embed(ctx context.Context, tenant, model string, vectors map[string][]float32) error {
	if tenant == "" || model == "" {
		return fmt.Errorf("%w: vectors need a tenant and a model", event.ErrInvalid)
	}
	if len(vectors) == 0 {
		return ctx.Err()
	}
	j := &embedJob{tenant: tenant, model: model}
	for d, v := range vectors {
		raw, err := knowledge.ParseDigest(d)
		if err == nil {
			if err = search.CheckVector(v); err != nil {
				err = fmt.Errorf("%w: %w", event.ErrInvalid, err)
			}
		}
		if err != nil {
			return err
		}
		if j.dims == 0 {
			j.dims = len(v)
		}
		if len(v) != j.dims {
			return errDims(j.dims, len(v))
		}
		j.digests, j.data = append(j.digests, raw), append(j.data, encodeFloats(v))
	}
	return x.db.submit(ctx, j)
}

func errDims(want, got int) error {
	return fmt.Errorf("%w: the vectors of this model have %d components, not %d; give another model another name", event.ErrInvalid, want, got)
}

type embedJob struct {
	tenant, model string
	dims          int
	digests, data [][]byte
}

func (j *embedJob) durable() bool { return true }
func (j *embedJob) size() int     { return len(j.data) * (200 + 4*j.dims) }

func (j *embedJob) run(w *writer) (refused, err error) {
	if err := w.change("INSERT INTO knowledge_space (tenant, model, dims) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", j.tenant, j.model, int64(j.dims)); err != nil {
		return nil, err
	}
	var space, dims int64
	err = w.query("SELECT id, dims FROM knowledge_space WHERE tenant = ? AND model = ?", func(s *sqlite3.Stmt) error {
		space, dims = s.ColumnInt64(0), s.ColumnInt64(1)
		return nil
	}, j.tenant, j.model)
	if err != nil {
		return nil, err
	}
	if int(dims) != j.dims {
		return errDims(int(dims), j.dims), nil
	}
	for i := range j.digests {
		err := w.change(`INSERT INTO knowledge_vector (space, digest, loose, data)
VALUES (?1, ?2, CASE WHEN EXISTS (SELECT 1 FROM knowledge_chunk WHERE tenant = ?3 AND embedded = ?2) THEN NULL ELSE ?4 END, ?5) ON CONFLICT DO NOTHING`,
			space, j.digests[i], j.tenant, time.Now().Unix(), j.data[i])
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}
