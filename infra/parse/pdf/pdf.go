// Package pdf reads the text of PDF files with PDFium, which runs as WebAssembly
// in this process: it imports go-pdfium and wazero. So the binary stays pure Go, a
// file that breaks PDFium breaks only its own sandbox, which has no files and no
// network, and one that hangs it is ended. Start reading at Reader.Parse.
package pdf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/klippa-app/go-pdfium"
	failures "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/responses"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"refold/handlers"
)

const (
	maxPages  = 20_000
	maxMemory = 4096            // pages of 64 KiB that one file may need: 256 MiB
	reopen    = 250             // pages after which PDFium starts anew with a file: it keeps all that it has seen
	idle      = 2 * time.Minute // after which what was loaded is given back
)

// Limit is how long one file may take.
const Limit = 5 * time.Minute

// Reader reads files, one at a time: others wait. The zero value is ready. PDFium is
// loaded with the first file and given back when none has come for two minutes. The
// first time on a machine it is translated to machine code, which takes ten seconds of
// processor time and 350 MB for as long; the result (22 MB) is kept in Cache, and
// loading it takes a third of a second and 50 MB. Safe for concurrent use.
type Reader struct {
	// Cache is the folder for machine code, which nobody else must be able to write
	// to; "" = that of the user for such things. Without one it is not kept.
	Cache string

	turn  sync.Once
	slot  chan struct{}
	pool  pdfium.Pool // this and the following guarded by slot
	code  wazero.CompilationCache
	timer *time.Timer
	limit time.Duration // 0 = Limit
}

// Close gives back what is loaded.
func (r *Reader) Close() {
	r.take(context.Background())
	r.release()
	<-r.slot
}

func (r *Reader) take(ctx context.Context) error {
	r.turn.Do(func() { r.slot = make(chan struct{}, 1) })
	select {
	case r.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Reader) release() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if r.pool != nil {
		r.pool.Close()
		r.pool = nil
	}
	if r.code != nil {
		r.code.Close(context.Background())
		r.code = nil
	}
}

// ready loads PDFium unless that is done. It takes the slot along where the context
// ends first.
func (r *Reader) ready(ctx context.Context) error {
	if r.pool != nil {
		return nil
	}
	loaded := make(chan error, 1)
	go func() { loaded <- r.load() }()
	select {
	case err := <-loaded:
		if err != nil {
			<-r.slot
		}
		return err
	case <-ctx.Done():
		go func() {
			<-loaded
			<-r.slot
		}()
		return ctx.Err()
	}
}

func (r *Reader) load() error {
	config := wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).
		WithCloseOnContextDone(true).WithMemoryLimitPages(maxMemory)
	if r.code = r.kept(); r.code != nil {
		config = config.WithCompilationCache(r.code)
	}
	pool, err := webassembly.Init(webassembly.Config{
		Context:  experimental.WithCompilationWorkers(context.Background(), runtime.NumCPU()),
		MaxTotal: 1, RuntimeConfig: config, FSConfig: wazero.NewFSConfig(), Stdout: io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		r.release()
		return fmt.Errorf("load PDFium: %w", err)
	}
	r.pool = pool
	debug.FreeOSMemory() // translating takes 300 MB that nobody needs again
	return nil
}

func (r *Reader) kept() wazero.CompilationCache {
	folder := r.Cache
	if folder == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return nil
		}
		folder = filepath.Join(home, "refold", "pdfium")
	}
	cache, err := wazero.NewCompilationCacheWithDir(folder)
	if err != nil {
		return nil
	}
	return cache
}

// Parse reads a file. A page begins with a comment that has its number.
func (r *Reader) Parse(ctx context.Context, in io.ReadSeeker, size int64) (handlers.Parsed, error) {
	var out handlers.Parsed
	if err := r.take(ctx); err != nil {
		return out, err
	}
	if r.timer != nil {
		r.timer.Stop()
	}
	if err := r.ready(ctx); err != nil {
		return out, err
	}
	defer func() { <-r.slot }()
	defer func() {
		r.timer = time.AfterFunc(idle, func() {
			if r.take(context.Background()) == nil {
				r.release()
				debug.FreeOSMemory()
				<-r.slot
			}
		})
	}()
	limit := r.limit
	if limit == 0 {
		limit = Limit
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	instance, err := r.pool.GetInstanceWithContext(bounded)
	if err != nil {
		return out, fmt.Errorf("start PDFium: %w", err)
	}
	// What hangs is ended by taking its sandbox away.
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-done:
			instance.Close()
		case <-bounded.Done():
			instance.Kill()
		}
	}()
	out, err = read(bounded, instance, in, size)
	close(done)
	<-ended
	switch {
	case err == nil || ctx.Err() != nil:
		return out, errors.Join(err, ctx.Err())
	case bounded.Err() != nil:
		return out, &handlers.ParseError{Code: "damaged", Message: fmt.Sprintf("the PDF could not be read in %v: print it to a new PDF", limit)}
	}
	var known *handlers.ParseError
	if !errors.As(err, &known) {
		debug.FreeOSMemory() // it may have been for want of it
		err = &handlers.ParseError{Code: "damaged", Message: "the PDF is damaged and cannot be read: print it to a new PDF"}
	}
	return out, err
}

func read(ctx context.Context, p pdfium.Pdfium, in io.ReadSeeker, size int64) (handlers.Parsed, error) {
	var out handlers.Parsed
	doc, err := open(p, in, size)
	if errors.Is(err, failures.ErrPassword) || errors.Is(err, failures.ErrSecurity) {
		return out, &handlers.ParseError{Code: "encrypted", Message: "the PDF is protected by a password: save it without one"}
	}
	if err != nil {
		return out, err
	}
	count, err := p.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil {
		return out, err
	}
	if count.PageCount > maxPages {
		return out, &handlers.ParseError{Code: "too_large", Message: fmt.Sprintf("the PDF has %d pages, at most %d can be read: split it", count.PageCount, maxPages)}
	}
	out.Pages = count.PageCount
	var b strings.Builder
	without, broken := 0, 0
	for i := range count.PageCount {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if i > 0 && i%reopen == 0 {
			if _, err := p.FPDF_CloseDocument(&requests.FPDF_CloseDocument{Document: doc.Document}); err != nil {
				return out, err
			}
			if doc, err = open(p, in, size); err != nil {
				return out, err
			}
		}
		text, err := page(p, doc.Document, i)
		if err != nil {
			if ctx.Err() != nil {
				return out, err
			}
			broken++
			continue
		}
		if text = flow(text); text == "" {
			without++
			continue
		}
		b.WriteString(text + "\n\n")
		if b.Len() > handlers.MaxParsed {
			return out, &handlers.ParseError{Code: "too_large", Message: "the PDF holds too much text: split it"}
		}
	}
	switch {
	case broken == count.PageCount:
		return out, errors.New("no page can be read")
	case broken+without == count.PageCount:
		return out, &handlers.ParseError{Code: "no_text", Message: "the PDF holds pictures of pages and no text: run text recognition (OCR) on it first"}
	}
	if without > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d of %d pages hold no text", without, count.PageCount))
	}
	if broken > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d of %d pages cannot be read and were left out", broken, count.PageCount))
	}
	out.Text = strings.TrimSpace(b.String())
	if meta, err := p.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: doc.Document, Tag: "Title"}); err == nil {
		out.Title = strings.Join(strings.Fields(clean(meta.Value)), " ")
	}
	return out, nil
}

func open(p pdfium.Pdfium, in io.ReadSeeker, size int64) (*responses.OpenDocument, error) {
	return p.OpenDocument(&requests.OpenDocument{FileReader: in, FileReaderSize: size})
}

func page(p pdfium.Pdfium, doc references.FPDF_DOCUMENT, i int) (string, error) {
	loaded, err := p.FPDF_LoadPage(&requests.FPDF_LoadPage{Document: doc, Index: i})
	if err != nil {
		return "", err
	}
	defer p.FPDF_ClosePage(&requests.FPDF_ClosePage{Page: loaded.Page})
	text, err := p.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: requests.Page{ByReference: &loaded.Page}})
	if err != nil {
		return "", err
	}
	defer p.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: text.TextPage})
	chars, err := p.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: text.TextPage})
	if err != nil || chars.Count == 0 {
		return "", err
	}
	all, err := p.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: text.TextPage, StartIndex: 0, Count: chars.Count})
	if err != nil {
		return "", err
	}
	return clean(all.Text), nil
}

// clean drops what is no text: control characters, and marks that stand for
// letters that the file does not name.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\u0002': // PDFium's sign for a hyphen at the end of a line
			return '\u00ad'
		case r < 0x20, r >= 0x7f && r < 0xa0, r == 0xfffe, r == 0xffff, r == 0xfffd:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
