package handlers

import (
	"context"
	"io"

	"refold/domain/event"
)

// Embedder turns texts into vectors. Implementation: infra/openai (any
// OpenAI-compatible /embeddings).
type Embedder interface {
	// Embed gives a vector for each text, in order, all of one length. At most
	// MaxEmbedBatch texts. A failed attempt is a *ModelError.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Name identifies the vectors: those of other names cannot be compared.
	Name() string
}

// MaxEmbedBatch is how many texts are embedded at once.
const MaxEmbedBatch = 64

// Reranker says how well passages answer a query. Implementation: infra/openai
// (the common /rerank).
type Reranker interface {
	// Rerank gives a score from 0 to 1 for each passage, in the order of passages.
	// A failed attempt is a *ModelError.
	Rerank(ctx context.Context, query string, passages []string) ([]float64, error)
	Name() string
}

// Parser turns files into text. Implementation: infra/parse.
type Parser interface {
	// Parse reads one file. What cannot be read is a *ParseError. It holds at most
	// a small multiple of MaxParsed in memory, whatever the file claims to be.
	Parse(ctx context.Context, f File) (Parsed, error)
	// Types are the file name extensions that can be read, without the dot, sorted.
	Types() []string
}

// File is what is to be parsed. Type is the extension, lower case, without the
// dot, as the upload named it; the content has the last word.
type File struct {
	Name    string
	Type    string
	Size    int64
	Content io.ReadSeeker
}

// Parsed is the text of a file as Markdown, with the tables that it holds.
type Parsed struct {
	Title    string   `json:"title,omitempty"` // as the file names itself, "" if it does not
	Text     string   `json:"text"`            // Markdown, at most MaxParsed bytes, valid UTF-8
	Pages    int      `json:"pages,omitempty"`
	Tables   []Table  `json:"tables,omitempty"`   // of table files: one for each sheet, also empty ones
	Encoding string   `json:"encoding,omitempty"` // as it was detected, of text files: "utf-8", "gb18030" ...
	Notes    []string `json:"notes,omitempty"`    // what a reader should know: what was left out, guessed or cut
}

// Table describes one sheet of a table file. Its rows are in no Parsed: who
// analyses them reads the file (see TableReader).
type Table struct {
	Name    string   `json:"name"` // of the sheet, "" for a CSV file
	Rows    int      `json:"rows"` // without the header
	Columns []Column `json:"columns"`
	Notes   []string `json:"notes,omitempty"` // footers, merged headers, duplicate names
}

// Column describes one column: its name as it can be selected, what its values
// look like (text, integer, number, date, boolean), and some of them.
type Column struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Empty   int      `json:"empty,omitempty"` // rows without a value
	Samples []string `json:"samples,omitempty"`
}

// TableReader reads the rows of a table file. Implementation: infra/parse.
type TableReader interface {
	// Tables calls open for each sheet with its name and columns, as Parse
	// describes them, then row for each of its rows, cells as text in the order of
	// the columns ("" for none). Errors of the callbacks end it and come back. What
	// cannot be read is a *ParseError.
	Tables(ctx context.Context, f File, open func(Table) error, row func(cells []string) error) error
}

// MaxParsed is the largest text of one document, in bytes.
const MaxParsed = 32 << 20

// ParseError says why a file could not be read. Code is stable: empty,
// unsupported, encrypted, damaged, too_large (the file or what it unpacks to),
// too_many_columns, encoding, no_text (for example a scan). Message is for
// people and says what to do.
type ParseError struct{ Code, Message string }

func (e *ParseError) Error() string { return e.Code + ": " + e.Message }

// Holdings lists what bases hold. Implementation: infra/app, over the read models.
type Holdings interface {
	// Documents calls each for every document of a base that is not deleted, FAQ
	// entries too, as the log had them at upTo or later. The error of each ends it
	// and comes back.
	Documents(ctx context.Context, tenant, base string, upTo event.Position, each func(id string) error) error
	// Entries calls each for every FAQ entry of a base in the same way.
	Entries(ctx context.Context, tenant, base string, upTo event.Position, each func(HeldEntry) error) error
}

// HeldEntry is an FAQ entry that a base holds.
type HeldEntry struct {
	Number   int64
	Question string
}
