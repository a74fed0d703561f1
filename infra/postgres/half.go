package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"refold/domain/knowledge"
	"refold/domain/search"
)

// Where the server has pgvector (0.7 or newer), a second copy of each vector is
// kept as unit vector of half precision, in one table for all models: halves are
// small enough to stay in their rows, so that looking at all of a model is a plain
// scan, and a column without a fixed length takes every model. That scan is
// exact, respects any scope, and needs no upkeep, so it is the way as long as a
// model has few vectors. From hnswFrom on a model gets a graph of its own, an
// index over its rows only: a tenant's search never walks through others' vectors,
// and one index never mixes lengths. A scope that is a small part of the model is
// scanned also then, as a graph finds too little under a narrow filter.
//
// The copy is made by a trigger, also for processes that know nothing of it.

// hnswFrom is from how many vectors on a model has a graph.
const hnswFrom = 50_000

// hnswDims is the longest halfvec that a graph takes.
const hnswDims = 4000

// half is what is known of pgvector on the server.
type half struct {
	db *DB
	on bool
	// iterative says that a graph goes on where a filter left too little (0.8).
	iterative bool
	from      int64 // hnswFrom, or a test's
	narrow    int   // the same

	mu     sync.Mutex
	graphs map[int64]bool // of spaces: built, or being built
}

const halfSQL = `
CREATE TABLE IF NOT EXISTS knowledge_half (
    vector bigint PRIMARY KEY REFERENCES knowledge_vector (id) ON DELETE CASCADE,
    space  bigint NOT NULL,
    digest bytea NOT NULL,
    half   halfvec NOT NULL
) WITH (toast_tuple_target = 8160);
ALTER TABLE knowledge_half ALTER COLUMN half SET STORAGE MAIN;
CREATE INDEX IF NOT EXISTS knowledge_half_digest ON knowledge_half (space, digest);
CREATE OR REPLACE FUNCTION knowledge_half_of() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF vector_norm(NEW.data::vector) > 0 THEN
        INSERT INTO knowledge_half (vector, space, digest, half)
        VALUES (NEW.id, NEW.space, NEW.digest, l2_normalize(NEW.data::vector)::halfvec) ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS knowledge_half_made ON knowledge_vector;
CREATE TRIGGER knowledge_half_made AFTER INSERT ON knowledge_vector FOR EACH ROW EXECUTE FUNCTION knowledge_half_of();
INSERT INTO knowledge_half (vector, space, digest, half)
SELECT id, space, digest, l2_normalize(data::vector)::halfvec FROM knowledge_vector v
WHERE vector_norm(data::vector) > 0 ON CONFLICT DO NOTHING`

// prepare finds out about pgvector, makes it available if the user may, and makes
// the table of halves. Without it vectors are searched in memory.
func (h *half) prepare(ctx context.Context, change bool) error {
	c, err := h.db.connect(ctx, lockWait)
	if err != nil {
		return h.db.problem("open", err)
	}
	defer shut(c)
	var version string
	find := func() error {
		err := c.QueryRow(ctx, "SELECT coalesce((SELECT extversion FROM pg_extension WHERE extname = 'vector' AND to_regtype('halfvec') IS NOT NULL), '')", pgx.QueryExecModeSimpleProtocol).Scan(&version)
		return h.db.problem("open", err)
	}
	if err := find(); err != nil {
		return err
	}
	if version == "" && change {
		// Not there, not allowed, or made by another process just now.
		_, _ = c.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS vector", pgx.QueryExecModeSimpleProtocol)
		if err := find(); err != nil {
			return err
		}
	}
	if version == "" {
		return nil
	}
	var there bool
	if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'knowledge_half_made' AND tgrelid = 'knowledge_vector'::regclass)", pgx.QueryExecModeSimpleProtocol).Scan(&there); err != nil {
		return h.db.problem("open", err)
	}
	if !there {
		if !change {
			return nil
		}
		// One process makes it, in one transaction; what it copies may take long.
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			for _, sql := range []string{"SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0", fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", migrateLock),
				"LOCK TABLE knowledge_vector IN SHARE ROW EXCLUSIVE MODE", halfSQL} {
				if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return h.db.problem("migrate", err)
		}
	}
	h.on = true
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, _ := strconv.Atoi(minor)
	h.iterative = major != "0" || m >= 8
	return nil
}

// scanned is how many chunks are scanned rather than found by a graph, and
// graphMost after how many neighbours a graph is left for what it found.
const (
	scanned   = 20_000
	graphMost = 20_000
)

// half finds the n nearest by the halves; all says that there are no more.
func (x *Index) half(ctx context.Context, q knowledge.Query, s spaceRow, in *reach, n int) (near []search.Near, all bool, err error) {
	err = x.snapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		near = nil
		texts := 0
		for _, c := range in.collections {
			texts += c.Texts
		}
		var total int64
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM knowledge_half WHERE space = $1 LIMIT $2) x", s.id, x.db.half.from).Scan(&total); err != nil {
			return err
		}
		const chunks = "c.tenant = $1 AND NOT c.disabled AND ($4::text[] IS NULL OR c.kind = ANY($4))"
		distance := fmt.Sprintf("(h.half::halfvec(%d)) <=> $2::halfvec(%d)", s.dims, s.dims)
		vector := literal(q.Vector)
		var rows pgx.Rows
		var err error
		switch {
		case len(in.whole) == 0, texts <= x.db.half.narrow, total < x.db.half.from:
			// Distances first, then the best: nothing is left to a planner's guess.
			rows, err = tx.Query(ctx, `SELECT c.id, c.entry, c.base, h.vector, `+distance+` FROM knowledge_chunk c JOIN knowledge_half h ON h.space = $3 AND h.digest = c.embedded
WHERE `+chunks+` AND (c.base = ANY($5) OR c.entry = ANY($6)) AND NOT c.entry = ANY($7) AND ($8::bigint[] IS NULL OR c.entry = ANY($8)) ORDER BY 5, 1 LIMIT $9`,
				q.Tenant, vector, s.id, wanted(q), keys(in.whole), keys(in.entries), keys(in.off), some(in.tagged), n)
			all = true // unless it is full
		default:
			sets := fmt.Sprintf("SET LOCAL hnsw.ef_search = %d", min(n, 1000))
			if x.db.half.iterative {
				sets += "; SET LOCAL hnsw.iterative_scan = strict_order"
			}
			if _, err := tx.Exec(ctx, sets, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
			// The space is written out, as the index is over its rows only.
			rows, err = tx.Query(ctx, fmt.Sprintf(`SELECT c.id, c.entry, c.base, h.vector, h.d FROM (
SELECT h.vector, h.digest, %s AS d FROM knowledge_half h WHERE h.space = %d ORDER BY %s LIMIT $3) h
JOIN knowledge_chunk c ON c.embedded = h.digest WHERE %s`, distance, s.id, distance, chunks), q.Tenant, vector, n, wanted(q))
		}
		if err != nil {
			return err
		}
		got := 0
		var r search.Near
		if _, err := pgx.ForEachRow(rows, []any{&r.Row, &r.Entry, &r.Collection, &r.Vector, &r.Score}, func() error {
			if got++; in.holds(r.Collection, r.Entry) {
				near = append(near, r)
			}
			return nil
		}); err != nil {
			return err
		}
		// A graph that gives up, and a scope that lets almost nothing through, end here.
		all = all && got < n || n > graphMost
		return nil
	})
	return near, all, err
}

func some(m map[int64]bool) []int64 {
	if m == nil {
		return nil
	}
	return keys(m)
}

// literal writes a vector as text, of unit length.
func literal(v []float32) string {
	norm := search.Norm(v)
	b := []byte{'['}
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(x)/norm, 'g', 7, 32)
	}
	return string(append(b, ']'))
}

// grown notes that a space has got vectors, and has a graph made for one that has
// become large. Searches do without until it is there.
func (h *half) grown(space int64, dims int) {
	if !h.on || dims > hnswDims || h.db.isClosed() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.graphs[space] {
		return
	}
	h.graphs[space] = true
	h.db.work.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-h.db.closed:
				cancel()
			case <-ctx.Done():
			}
		}()
		if built, err := h.graph(ctx, space, dims); err != nil || !built {
			h.mu.Lock()
			delete(h.graphs, space) // the next that come try again
			h.mu.Unlock()
		}
	})
}

// graph makes the index of a space if it is large and has none, or one that was
// cut short. It does not stop others from writing.
func (h *half) graph(ctx context.Context, space int64, dims int) (built bool, err error) {
	c, err := h.db.connect(ctx, lockWait)
	if err != nil {
		return false, err
	}
	defer shut(c)
	name := fmt.Sprintf("knowledge_half_%d", space)
	var total int64
	if err := c.QueryRow(ctx, "SELECT count(*) FROM (SELECT FROM knowledge_half WHERE space = $1 LIMIT $2) x", space, h.from).Scan(&total); err != nil || total < h.from {
		return false, err
	}
	if _, err := c.Exec(ctx, "SET statement_timeout = 0; SET lock_timeout = 0", pgx.QueryExecModeSimpleProtocol); err != nil {
		return false, err
	}
	// Another process may be at it.
	var mine bool
	if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", int32(knowledgeLock+1), int32(space)).Scan(&mine); err != nil || !mine {
		return false, err
	}
	valid := false
	err = c.QueryRow(ctx, "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)", name).Scan(&valid)
	switch {
	case err == nil && valid:
		return true, nil
	case err == nil:
		_, err = c.Exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+name)
	case errors.Is(err, pgx.ErrNoRows):
		err = nil
	}
	if err != nil {
		return false, err
	}
	_, err = c.Exec(ctx, fmt.Sprintf("CREATE INDEX CONCURRENTLY %s ON knowledge_half USING hnsw ((half::halfvec(%d)) halfvec_cosine_ops) WHERE space = %d", name, dims, space))
	return err == nil, err
}
