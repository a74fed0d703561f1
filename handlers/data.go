package handlers

import (
	"context"
	"strings"
	"time"

	"refold/domain/tool"
)

// Views answers SQL about what a run may see. Implementation: infra/viewquery.
// Safe for concurrent use.
type Views interface {
	// Query runs one SELECT on the tables knowledge_bases, knowledges and chunks,
	// which hold nothing but what is in scope. What is refused, wrong or too much
	// is a *QueryError.
	Query(ctx context.Context, tenant string, s tool.Scope, sql string) (Rows, error)
}

// Rows is the answer to a query. Values are nil, int64, float64, bool or string.
type Rows struct {
	Columns []string // each name once
	Rows    [][]any
	More    bool // there were more rows than are given
}

// Limits of what a query gives.
const (
	MaxSQL       = 8 << 10 // bytes of a statement
	MaxRows      = 1000
	MaxRowsBytes = 1 << 20 // of all values
)

// QueryError says why a statement gave nothing. Code is stable: refused (it is
// not a statement that may be run), invalid (it is wrong), too_much (time,
// memory), unavailable (the engine broke down; the next call gets a new one).
// Message is for models and says what to do.
type QueryError struct{ Code, Message string }

func (e *QueryError) Error() string { return e.Message }

// ViewSource lists what the views hold. Rows may come in any order; row tells
// whether more are wanted. Deleted and temporary bases and documents, and
// disabled documents, are not given.
type ViewSource interface {
	Bases(ctx context.Context, tenant string, ids []string, row func(ViewBase) (more bool)) error
	Documents(ctx context.Context, tenant string, s tool.Scope, row func(ViewDocument) (more bool)) error
}

// ViewBase is a row of knowledge_bases.
type ViewBase struct {
	ID, Name, Kind, Description string
	CreatedAt, UpdatedAt        time.Time
}

// ViewDocument is a row of knowledges.
type ViewDocument struct {
	ID, Base, Title, Description string
	Kind, Source                 string // kind: file, url, manual ...
	File, FileType               string
	Size                         int64
	Status                       string
	Chunks                       int
	CreatedAt, UpdatedAt         time.Time
}

// Analyst answers SQL about table files, in a process of its own.
// Implementation: infra/analysis. Safe for concurrent use.
type Analyst interface {
	// Query runs one statement on the table that the document's file holds, loading
	// it first if this run has not asked before. What is refused, wrong or too much
	// is a *QueryError; a file that cannot be read is a *ParseError.
	Query(ctx context.Context, run string, t TableFile, sql string) (Analysis, error)
	// Forget ends what a run has loaded.
	Forget(ctx context.Context, run string) error
}

// TableName is what the table of a document is called.
func TableName(document string) string {
	return "k_" + strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, document)
}

// TableFiles finds the files of documents.
type TableFiles interface {
	// TableFile gives the file of a document; false if the tenant has no such
	// document, or one without a file.
	TableFile(ctx context.Context, tenant, document string) (DocumentFile, bool, error)
}

// DocumentFile is a document with its file.
type DocumentFile struct {
	Base, Title, Type string // Type: extension, lower case
	Disabled          bool
	TableFile
}

// TableFile names a table file and opens it.
type TableFile struct {
	Document string
	Revision int // of its content: another one is loaded anew
	Open     func(ctx context.Context) (File, func(), error)
}

// Analysis is the answer to a query on a table file.
type Analysis struct {
	Rows
	Table string // name of the table
	SQL   string // as it was run
	Notes []string
}
