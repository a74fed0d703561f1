package projections

import (
	"context"
	"errors"

	"refold/domain/event"
)

// ErrStale says that another process, or an earlier try, has already committed
// past this checkpoint: nothing was written. Read the checkpoint and go on.
var ErrStale = errors.New("the checkpoint has moved on")

// ErrBadCursor says that a cursor was not minted by this query.
var ErrBadCursor = errors.New("the cursor does not belong to this list")

// Documents keeps the read models: documents by key with declared index fields,
// and one checkpoint per projection. Generic for every read model, so a new one
// needs no migration. Safe for concurrent use. Errors: ErrStale, ErrBadCursor,
// event.ErrUnavailable, event.ErrCorrupt, wrapped.
type Documents interface {
	// Checkpoint is the log position up to which the projection has folded; ""
	// if it never ran.
	Checkpoint(ctx context.Context, projection string) (event.Position, error)
	// Get gives the documents of the keys that exist, in no particular order.
	Get(ctx context.Context, keys ...Key) ([]Document, error)
	// Commit writes all puts and deletes and moves the checkpoint from b.From to
	// b.To in one transaction, or does nothing and answers ErrStale.
	Commit(ctx context.Context, b Batch) error
	// Find gives a page of one collection of one tenant.
	Find(ctx context.Context, q Query) (Page, error)
	// Drop deletes the checkpoint of a projection and all its collections
	// (those whose name is the projection or starts with it and a dot).
	Drop(ctx context.Context, projection string) error
}

// Key names a document. Collection is the projection's name with its version
// ("sessions@1"), or that, a dot and a word.
type Key struct{ Collection, Tenant, ID string }

// Document is a stored fold: JSON with the fields it can be found by. Index
// values are string, int64 or bool; bools are stored as 0 and 1.
type Document struct {
	Key
	Body  []byte
	Index map[string]any
}

// Batch is one committed step of a projection.
type Batch struct {
	Projection string
	From, To   event.Position
	Put        []Document
	Delete     []Key
}

// Query selects documents of one tenant in one collection.
type Query struct {
	Collection, Tenant string
	Where              []Where // all must hold
	OrderBy            []Order // index fields; ties are broken by ID ascending
	Offset, Limit      int     // Limit <= 0 is 20, more than 1000 is cut
	Cursor             string  // answer of an earlier page; Offset is ignored then
	CountTotal         bool    // fill Page.Total
	NoIndex            bool    // nobody looks at the Index of what is found: it may be left out
}

// Where compares an index field with a value of the type it was stored with.
// Op is "=", "<", "<=", ">", ">=" or "contains" (strings, case-insensitive,
// the value is literal text).
type Where struct {
	Field, Op string
	Value     any
}

// Order sorts by an index field. Documents without the field sort as if it were
// the smallest value.
type Order struct {
	Field string
	Desc  bool
}

// Page is one page of a query. Next is empty on the last page. A walk by cursor
// neither skips nor repeats a document whose sort fields did not change.
type Page struct {
	Documents []Document
	Total     int // -1 unless asked for
	Next      string
}
