package knowledge

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"refold/domain/event"
	"refold/domain/tool"
)

var (
	// ErrNoChunk says that the tenant has no such chunk.
	ErrNoChunk = errors.New("no such chunk")
	// ErrNoVectors says that this index cannot search by vector.
	ErrNoVectors = errors.New("this index has no vectors")
)

// Index is where chunks are found: full text with BM25 ranking that is good for
// Chinese and English, vectors, and reading by id. It is a read model: all of it
// can be made again from the record and the blobs. Implementations:
// infra/sqlite, infra/postgres, infra/memory; the suite is
// tests/storetest. Safe for concurrent use. Errors: event.ErrUnavailable, wrapped,
// the context's, or those named.
//
// Whoever does not name a tenant gets nothing; searches see what is in scope,
// enabled, and of enabled documents. All implementations rank by domain/search,
// so that the same query finds the same.
type Index interface {
	// Put makes the index hold exactly these chunks of a document, in one
	// transaction; those of earlier revisions go. The same again changes nothing.
	// An index that already has a later revision stays as it is, and so does a chunk
	// that is there in a later edition. It does not know what was removed: whoever
	// puts what may be gone meanwhile looks again afterwards.
	Put(ctx context.Context, d Entry, chunks []Chunk) error
	// Change sets what can change about a document without its content. A document
	// that is not in the index is no error.
	Change(ctx context.Context, d Entry) error
	// Edit sets content, Context, Tokens, Digest, Edition, Disabled and FAQ of one
	// chunk that is there; ErrNoChunk if not. A later edition stays.
	Edit(ctx context.Context, tenant string, c Chunk) error
	// Remove takes documents out, or all of a base. A base goes document by document:
	// cut short, it is done again.
	Remove(ctx context.Context, tenant string, documents ...string) error
	RemoveBase(ctx context.Context, tenant, base string) error

	// Keyword finds chunks by words, best first: by BM25 over title, headings and
	// content, whose numbers are those of all searched chunks of the bases in reach.
	// Where very many chunks match, those that cannot be among the best may be left out.
	Keyword(ctx context.Context, q Query) ([]Hit, error)
	// Nearest finds chunks by vector (cosine), best first; ErrNoVectors if there
	// are none of this model.
	Nearest(ctx context.Context, q Query) ([]Hit, error)
	// Walk gives every enabled chunk in scope whose kind is searched, document by
	// document in order, until fn says false. Nothing is held open while fn runs: what
	// changes meanwhile may be seen before or after.
	Walk(ctx context.Context, tenant string, s tool.Scope, fn func(Found) (more bool)) error
	// Chunks gives chunks by id, those that exist, in no particular order, also
	// disabled ones.
	Chunks(ctx context.Context, tenant string, ids ...string) ([]Found, error)
	// List gives a page of a document's chunks in order, and how many there are in all.
	List(ctx context.Context, l List) ([]Found, int, error)

	// Embeddings gives the vectors that are kept for contents, by digest of what
	// was embedded (see EmbeddedDigest).
	Embeddings(ctx context.Context, tenant, model string, digests []string) (map[string][]float32, error)
	// Embed keeps vectors, durably, all of one length for a model (event.ErrInvalid if
	// not); the first that comes for a digest stays. Chunks whose EmbeddedDigest has a
	// vector are found by Nearest, whichever came first. Vectors that no chunk has are
	// kept for KeepLoose at least, so that what comes back costs nothing.
	Embed(ctx context.Context, tenant, model string, vectors map[string][]float32) error
}

// KeepLoose is for how long vectors are kept that no chunk has.
const KeepLoose = 24 * time.Hour

// Entry is what an index knows about a document.
type Entry struct {
	Tenant   string
	Base     string
	Document string
	Revision int
	Title    string
	Tags     []string // ids
	Disabled bool
}

// Found is a chunk with its document.
type Found struct {
	Chunk
	Entry
}

// Hit is a chunk that was found. Score is the index's own: BM25, larger is
// better; or the cosine, -1 to 1.
type Hit struct {
	Found
	Score float64
}

// Query asks an index. Scope's zero value finds nothing.
type Query struct {
	Tenant string
	Scope  tool.Scope
	Text   string    // for Keyword; at most MaxQuery runes count
	Model  string    // for Nearest: whose vectors
	Vector []float32 // for Nearest
	Kinds  []Kind    // nil = all that are searched
	Tags   []string  // documents with any of these; nil = all
	Limit  int       // 1 to 500
}

// Normal gives the query within its limits.
func (q Query) Normal() Query {
	n := 0
	for i := range q.Text {
		if n++; n > MaxQuery {
			q.Text = q.Text[:i]
			break
		}
	}
	q.Limit = min(max(q.Limit, 1), 500)
	return q
}

// Wants tells whether chunks of a kind are looked for. Who wants FAQ entries wants
// every way to ask them.
func (q Query) Wants(k Kind) bool {
	return k.Searched() && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, k) || k == FAQQuestion && slices.Contains(q.Kinds, FAQText))
}

// Check refuses what no index can hold: event.ErrInvalid.
func (d Entry) Check(chunks []Chunk) error {
	if d.Tenant == "" || d.Base == "" || d.Document == "" {
		return fmt.Errorf("%w: a document in an index needs tenant, base and id", event.ErrInvalid)
	}
	ids, places := make(map[string]bool, len(chunks)), make(map[int]bool, len(chunks))
	for _, c := range chunks {
		if c.ID == "" || c.Kind == "" || ids[c.ID] || places[c.Index] || c.Index < 0 {
			return fmt.Errorf("%w: chunk %d of document %s has no kind, or no id and place of its own", event.ErrInvalid, c.Index, d.Document)
		}
		ids[c.ID], places[c.Index] = true, true
	}
	return nil
}

// ParseDigest gives the 32 bytes of "sha256:" and 64 hex digits; event.ErrInvalid
// if it is something else.
func ParseDigest(d string) ([]byte, error) {
	raw, ok := strings.CutPrefix(d, "sha256:")
	b, err := hex.DecodeString(raw)
	if !ok || err != nil || len(b) != 32 {
		return nil, fmt.Errorf("%w: %.80q is no digest", event.ErrInvalid, d)
	}
	return b, nil
}

// SortHits puts the best first, equal ones in the order of documents.
func SortHits(hits []Hit) {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Entry.Document, b.Entry.Document), cmp.Compare(a.Index, b.Index))
	})
}

// MaxQuery is how many runes of a query count.
const MaxQuery = 4000

// List selects chunks of one document.
type List struct {
	Tenant, Document string
	Kinds            []Kind // nil = all
	Disabled         bool   // disabled ones too
	Offset, Limit    int    // Limit 1 to 1000
}
