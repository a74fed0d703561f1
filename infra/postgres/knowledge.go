package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/search"
)

// Index is the knowledge.Index of a DB: full text by a GIN index over terms, whose
// lists domain/search ranks, and vectors by pgvector where the server has it,
// else scanned in memory (see nearest.go).
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
		s.Tokens == c.Tokens && s.Digest == c.Digest && s.Edition == c.Edition && s.Disabled == c.Disabled && string(faqText(s.FAQ)) == string(faqText(c.FAQ))
}

func faqText(f *knowledge.FAQ) []byte {
	if f == nil {
		return nil
	}
	b, _ := json.Marshal(f) // strings and numbers
	return b
}

// prepared is a chunk with what is computed before anybody waits for it.
type prepared struct {
	knowledge.Chunk
	lexemes  []string
	length   int
	embedded []byte // nil if the kind is not searched
}

func prepareChunk(collection int64, title string, c knowledge.Chunk) prepared {
	p := prepared{Chunk: c}
	if c.Kind.Searched() {
		p.lexemes, p.length = search.Lexemes(collection, title, c.Context, c.Content)
		p.embedded, _ = knowledge.ParseDigest(c.EmbeddedDigest())
	}
	return p
}

// names refuses what no column of names can hold.
func names(all ...string) error {
	for _, n := range all {
		if !plain(n) {
			return fmt.Errorf("%w: the name %.80q holds bytes that are no text", event.ErrInvalid, n)
		}
	}
	return nil
}

// Put implements knowledge.Index.
func (x *Index) Put(ctx context.Context, d knowledge.Entry, chunks []knowledge.Chunk) error {
	if err := errors.Join(d.Check(chunks), names(d.Tenant, d.Base, d.Document), names(d.Tags...)); err != nil {
		return err
	}
	for _, c := range chunks {
		if err := names(c.ID, c.Parent, c.Digest, string(c.Kind)); err != nil {
			return err
		}
	}
	base, err := x.base(ctx, d.Tenant, d.Base)
	if err != nil {
		return err
	}
	ready := make([]prepared, len(chunks))
	for i, c := range chunks {
		if i%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		ready[i] = prepareChunk(base, d.Title, c)
	}
	return x.write(ctx, d.Tenant, func(ctx context.Context, k *keeper) error { return k.put(ctx, d, base, ready) })
}

// base gives the number of a base, which it keeps for ever.
func (x *Index) base(ctx context.Context, tenant, base string) (id int64, err error) {
	err = x.db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		const find = "SELECT id FROM knowledge_base WHERE tenant = $1 AND base = $2"
		err := c.QueryRow(ctx, find, tenant, base).Scan(&id)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if _, err := c.Exec(ctx, "INSERT INTO knowledge_base (tenant, base) VALUES ($1, $2) ON CONFLICT DO NOTHING", tenant, base); err != nil {
			return err
		}
		return c.QueryRow(ctx, find, tenant, base).Scan(&id)
	})
	return id, err
}

// knowledgeLock is the first half of the advisory locks of tenants ("KNOW").
const knowledgeLock = 0x4b4e4f57

// write changes the index of a tenant in one transaction, alone.
func (x *Index) write(ctx context.Context, tenant string, f func(context.Context, *keeper) error) error {
	return x.db.do(ctx, "write", func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			// Others may be at it for longer than a row is usually held.
			if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", stmtWait.Milliseconds())); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, hashtext($2))", int32(knowledgeLock), tenant); err != nil {
				return err
			}
			k := &keeper{tx: tx, tenant: tenant, loose: x.db.keepLoose.Seconds()}
			if err := f(ctx, k); err != nil {
				return err
			}
			return k.done(ctx)
		})
	})
}

// Change implements knowledge.Index.
func (x *Index) Change(ctx context.Context, d knowledge.Entry) error {
	if !plain(d.Tenant) || !plain(d.Document) {
		return ctx.Err()
	}
	if err := names(d.Tags...); err != nil {
		return err
	}
	return x.write(ctx, d.Tenant, func(ctx context.Context, k *keeper) error { return k.change(ctx, d) })
}

// Edit implements knowledge.Index.
func (x *Index) Edit(ctx context.Context, tenant string, c knowledge.Chunk) error {
	if !plain(tenant) || !plain(c.ID) {
		return fmt.Errorf("%w: %.80q", knowledge.ErrNoChunk, c.ID)
	}
	if err := names(c.Digest); err != nil {
		return err
	}
	return x.write(ctx, tenant, func(ctx context.Context, k *keeper) error { return k.edit(ctx, c) })
}

// removeStep is how many documents one transaction takes out.
const removeStep = 50

// Remove implements knowledge.Index.
func (x *Index) Remove(ctx context.Context, tenant string, documents ...string) error {
	for part := range slices.Chunk(texts(documents), removeStep) {
		err := x.write(ctx, tenant, func(ctx context.Context, k *keeper) error {
			_, err := k.removeWhere(ctx, "e.tenant = $1 AND e.document = ANY($2)", tenant, part)
			return err
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// RemoveBase implements knowledge.Index.
func (x *Index) RemoveBase(ctx context.Context, tenant, base string) error {
	if !plain(tenant) || !plain(base) {
		return ctx.Err()
	}
	for left := removeStep; left == removeStep; {
		err := x.write(ctx, tenant, func(ctx context.Context, k *keeper) (err error) {
			left, err = k.removeWhere(ctx, fmt.Sprintf("b.tenant = $1 AND b.base = $2 LIMIT %d", removeStep), tenant, base)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// texts leaves out what no column of names can hold, so nothing is called so.
func texts(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !plain(s) })
}

// Embeddings implements knowledge.Index.
func (x *Index) Embeddings(ctx context.Context, tenant, model string, digests []string) (map[string][]float32, error) {
	out := map[string][]float32{}
	if !plain(tenant) || !plain(model) {
		return out, ctx.Err()
	}
	byRaw, raws := map[string]string{}, [][]byte(nil)
	for _, d := range digests {
		if raw, err := knowledge.ParseDigest(d); err == nil {
			byRaw[string(raw)] = d
			raws = append(raws, raw)
		}
	}
	err := x.db.do(ctx, "read", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT v.digest, v.data FROM knowledge_space s JOIN knowledge_vector v ON v.space = s.id WHERE s.tenant = $1 AND s.model = $2 AND v.digest = ANY($3)",
			tenant, model, raws)
		if err != nil {
			return err
		}
		var raw []byte
		var v []float32
		_, err = pgx.ForEachRow(rows, []any{&raw, &v}, func() error {
			out[byRaw[string(raw)]] = slices.Clone(v)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Embed implements knowledge.Index.
func (x *Index) Embed(ctx context.Context, tenant, model string, vectors map[string][]float32) error {
	if tenant == "" || model == "" {
		return fmt.Errorf("%w: vectors need a tenant and a model", event.ErrInvalid)
	}
	if err := names(tenant, model); err != nil {
		return err
	}
	dims := 0
	var digests [][]byte
	var data [][]float32
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
		if dims == 0 {
			dims = len(v)
		}
		if len(v) != dims {
			return errDims(dims, len(v))
		}
		digests, data = append(digests, raw), append(data, v)
	}
	if len(vectors) == 0 {
		return ctx.Err()
	}
	var space int64
	err := x.write(ctx, tenant, func(ctx context.Context, k *keeper) (err error) {
		space, err = k.embed(ctx, model, dims, digests, data)
		return err
	})
	if err == nil {
		x.db.half.grown(space, dims)
	}
	return err
}

func errDims(want, got int) error {
	return fmt.Errorf("%w: the vectors of this model have %d components, not %d; give another model another name", event.ErrInvalid, want, got)
}
