// Package parse turns files into Markdown and tables: it implements
// handlers.Parser and handlers.TableReader.
//
// Files are hostile: what a file claims to be is checked against its bytes, what
// it unpacks to is bounded, and a fault in a library is a *handlers.ParseError like
// any other. It imports its own sub-packages, each around one library (charset,
// xlsx, pdf; docx and grid around none), infra/markdown and the HTML parser of
// golang.org/x/net.
//
// Start reading at Parser.Parse. kind.go says what a file is, table.go reads
// tables; the other files are the formats.
package parse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"refold/handlers"
	"refold/infra/parse/charset"
	"refold/infra/parse/docx"
	"refold/infra/parse/pdf"
	"refold/infra/parse/xlsx"
)

// MaxFile is the largest file that is read, in bytes.
const MaxFile = 100 << 20

// Parser reads files. The zero value is ready; what is heavy is loaded with the
// first file that needs it. Safe for concurrent use.
type Parser struct {
	PDF pdf.Reader // where its machine code is kept can be set before the first use
}

var (
	_ handlers.Parser      = (*Parser)(nil)
	_ handlers.TableReader = (*Parser)(nil)
)

// Close gives back what the parser holds in memory. It can be used again.
func (p *Parser) Close() { p.PDF.Close() }

// Types implements handlers.Parser.
func (p *Parser) Types() []string {
	out := []string{"csv", "docx", "htm", "html", "json", "jsonl", "log", "markdown", "md", "ndjson", "pdf", "text", "tsv", "txt", "xhtml", "xlsm", "xlsx"}
	for ext := range languages {
		out = append(out, ext)
	}
	slices.Sort(out)
	return out
}

// Parse implements handlers.Parser.
func (p *Parser) Parse(ctx context.Context, f handlers.File) (out handlers.Parsed, err error) {
	defer guard(ctx, &err)
	k, size, err := identify(f)
	if err != nil {
		return out, err
	}
	switch k {
	case isPDF:
		out, err = p.PDF.Parse(ctx, f.Content, size)
	case isDOCX:
		out, err = docx.Parse(ctx, f.Content, size)
	case isXLSX, isCSV:
		out, err = tables(ctx, f, k, size)
	default:
		out, err = text(ctx, f, k)
	}
	if err != nil {
		return handlers.Parsed{}, err
	}
	out.Text, out.Title = clean(out.Text), clean(out.Title)
	if k != isXLSX && k != isCSV && blank(out.Text) {
		return handlers.Parsed{}, fail("empty", "the file holds no text")
	}
	if len(out.Text) > handlers.MaxParsed {
		return handlers.Parsed{}, fail("too_large", "the file holds %d MB of text, at most %d MB can be read: split it", len(out.Text)>>20, handlers.MaxParsed>>20)
	}
	return out, nil
}

// Tables implements handlers.TableReader.
func (p *Parser) Tables(ctx context.Context, f handlers.File, open func(handlers.Table) error, row func(cells []string) error) (err error) {
	var theirs error // of the callbacks: comes back as it is
	defer func() {
		if theirs != nil {
			err = theirs
		}
	}()
	defer guard(ctx, &err)
	k, size, err := identify(f)
	if err != nil {
		return err
	}
	var book book
	switch k {
	case isXLSX:
		book, err = xlsx.Open(ctx, f.Content, size)
	case isCSV:
		book, err = openCSV(f)
	default:
		return fail("unsupported", "this is no table file: csv, tsv and xlsx are")
	}
	if err != nil {
		return err
	}
	defer book.Close()
	for i := range book.Sheets() {
		sheet, err := describe(ctx, book, i)
		if err != nil {
			return err
		}
		if theirs = open(sheet.Table); theirs != nil {
			return theirs
		}
		err = sheet.Read(ctx, book.Source(i), func(cells []string) error {
			theirs = row(cells)
			return theirs
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func fail(code, format string, args ...any) error {
	return &handlers.ParseError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// guard makes one kind of error of all that can go wrong with a file, and keeps
// the end of the context and failed reads of the content apart from it.
func guard(ctx context.Context, err *error) {
	if p := recover(); p != nil {
		*err = fail("damaged", "the file is built in a way that cannot be read: save it again, or in another format")
	}
	var known *handlers.ParseError
	switch {
	case *err == nil || errors.As(*err, &known):
	case ctx.Err() != nil:
		*err = ctx.Err()
	case errors.Is(*err, charset.ErrBinary):
		*err = fail("unsupported", "the file holds binary data, not text of its type")
	case errors.Is(*err, charset.ErrUnknown), errors.Is(*err, charset.ErrInvalid):
		*err = fail("encoding", "the encoding of the text cannot be told for sure: save it as UTF-8")
	case errors.Is(*err, io.ErrUnexpectedEOF):
		*err = fail("damaged", "the file ends too early: upload it again")
	}
}

// clean keeps the promise of valid UTF-8, and drops NULs, which escapes can make and
// databases refuse.
func clean(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return strings.ToValidUTF8(s, "")
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
