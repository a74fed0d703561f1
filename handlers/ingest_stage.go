package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"refold/domain/chunk"
	"refold/domain/event"
	"refold/domain/knowledge"
)

// maxSlices bounds the chunks of one document.
const maxSlices = 100_000

// stage is a stage of a document that this process has claimed.
type stage struct {
	g      *Ingest
	tenant string
	s      knowledge.State // when it was claimed
	claim  knowledge.StageStarted
	log    *slog.Logger
	moved  bool // something was done that need not be done again

	parsed *Parsed // what the stage before has found, nil if it was another process
	stored sync.WaitGroup
	failed atomic.Pointer[error] // of storing
}

// small is the largest content whose next stages are done under the claim of the
// first, so that a small file costs few appends.
const small = 256 << 10

// run does the stage, and those after it that are quick, and gives the results of
// those that were done. What they name is stored.
func (st *stage) run(ctx context.Context) (done []knowledge.Event, err error) {
	defer func() {
		st.stored.Wait()
		if failed := st.failed.Load(); failed != nil {
			done, err = nil, *failed
		}
	}()
	for {
		began := st.g.Clock.Now()
		e, err := st.do(ctx)
		if st.g.Watch != nil {
			outcome := "done"
			if ctx.Err() != nil && err != nil {
				outcome = "cut_off"
			} else if err != nil {
				outcome = failureOf(err).Code
			}
			st.g.Watch.Stage(st.claim.Stage, outcome, st.g.Clock.Now().Sub(began))
		}
		if err != nil {
			return done, err
		}
		done = append(done, e)
		st.s = knowledge.Evolve(st.s, e)
		next := st.s.Stage()
		if st.s.Content.Size > small || st.claim.Revision != st.s.Revision || !st.quick(next) {
			return done, nil
		}
		st.claim.Stage = next
	}
}

// quick tells whether a stage may be done without a claim of its own: nobody
// outside is asked, and the index is not told.
func (st *stage) quick(stage string) bool {
	switch stage {
	case knowledge.StageParse, knowledge.StageChunk:
		return true
	case knowledge.StageEmbed:
		model, _ := st.embedder()
		return model == nil
	}
	return false
}

// do does it and gives its result.
func (st *stage) do(ctx context.Context) (knowledge.Event, error) {
	switch st.claim.Stage {
	case knowledge.StageFetch:
		return st.fetch(ctx)
	case knowledge.StageParse:
		return st.parse(ctx)
	case knowledge.StageChunk:
		return st.chunk(ctx)
	case knowledge.StageEmbed:
		return st.embed(ctx)
	case knowledge.StageIndex:
		return st.index(ctx)
	case knowledge.StageSync:
		return st.sync(ctx)
	case knowledge.StageRemove:
		err := st.patient(ctx, func() error { return st.g.Index.Remove(ctx, st.tenant, st.s.Added.Document) })
		return knowledge.DocumentRemoved{At: st.now()}, err
	}
	return nil, fmt.Errorf("there is no stage %q", st.claim.Stage)
}

func (st *stage) now() time.Time { return st.g.Clock.Now().UTC() }

// patient repeats what fails because a store is away, as long as there is time:
// that is no fault of the document.
func (st *stage) patient(ctx context.Context, f func() error) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := f()
		if !errors.Is(err, event.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		st.log.Warn("a stage of ingestion waits for a store", "stage", st.claim.Stage, "error", err, "again_in", pause)
		if st.g.sleep(ctx, pause); st.g.isEnding() {
			return err
		}
	}
}

// put stores content.
func (st *stage) put(ctx context.Context, content []byte) (knowledge.Blob, error) {
	b := knowledge.Blob{Size: int64(len(content))}
	err := st.patient(ctx, func() (err error) {
		b.Digest, err = st.g.Blobs.Put(ctx, st.tenant, content)
		return err
	})
	return b, err
}

func (st *stage) putJSON(ctx context.Context, v any) (knowledge.Blob, error) {
	b, err := encode(v)
	if err != nil {
		return knowledge.Blob{}, err
	}
	return st.put(ctx, b)
}

// putLater stores what a result names; run waits for it.
func (st *stage) putLater(ctx context.Context, v any) (knowledge.Blob, error) {
	b, err := encode(v)
	if err != nil {
		return knowledge.Blob{}, err
	}
	blob := knowledge.Blob{Digest: knowledge.Digest(string(b)), Size: int64(len(b))}
	st.stored.Go(func() {
		got, err := st.put(ctx, b)
		if err == nil && got != blob {
			err = fmt.Errorf("stored as %s, not as %s", got.Digest, blob.Digest)
		}
		if err != nil {
			st.failed.Store(&err)
		}
	})
	return blob, nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// open opens stored content; the caller must close it.
func (st *stage) open(ctx context.Context, b knowledge.Blob) (f io.ReadSeekCloser, size int64, err error) {
	err = st.patient(ctx, func() error {
		f, size, err = st.g.Blobs.Open(ctx, st.tenant, b.Digest)
		return err
	})
	return f, size, err
}

func (st *stage) getJSON(ctx context.Context, b knowledge.Blob, v any) error {
	f, _, err := st.open(ctx, b)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := json.NewDecoder(f).Decode(v); err != nil {
		return fmt.Errorf("read %s: %w", b.Digest, err)
	}
	return nil
}

func (st *stage) fetch(ctx context.Context) (knowledge.Event, error) {
	if st.g.Fetcher == nil {
		return nil, &WebError{Code: "not_configured", Message: "this server fetches no addresses; upload the file instead"}
	}
	f, err := st.g.Fetcher.Fetch(ctx, st.s.Added.URL)
	if err != nil {
		return nil, err
	}
	defer f.Content.Close()
	content, err := io.ReadAll(io.LimitReader(f.Content, MaxFetched+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > MaxFetched:
		return nil, &WebError{Code: "too_large", Message: fmt.Sprintf("the address gives more than %d MB", MaxFetched>>20)}
	case len(content) == 0:
		return nil, &WebError{Code: "empty_content", Message: "the address gives nothing"}
	}
	e := knowledge.Fetched{Revision: st.claim.Revision, FileName: f.Name, FileType: f.Type, URL: f.URL, At: st.now()}
	if st.s.Added.FileName != "" { // a person has named it
		e.FileName = ""
	}
	if st.s.Added.FileType != "" {
		e.FileType = ""
	}
	e.Content, err = st.put(ctx, content)
	return e, err
}

func (st *stage) parse(ctx context.Context) (knowledge.Event, error) {
	f, size, err := st.open(ctx, st.s.Content)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := st.g.Parser.Parse(ctx, File{Name: st.s.FileName, Type: st.s.FileType, Size: size, Content: f})
	if err != nil {
		return nil, err
	}
	e := knowledge.Parsed{Revision: st.claim.Revision, Title: shorten(line(p.Title), knowledge.MaxTitle), Runes: utf8.RuneCountInString(p.Text), Pages: p.Pages,
		Tables: len(p.Tables), Encoding: p.Encoding, At: st.now()}
	for _, note := range p.Notes[:min(len(p.Notes), 20)] {
		e.Notes = append(e.Notes, shorten(line(note), 300))
	}
	st.parsed = &p
	e.Text, err = st.putLater(ctx, p)
	return e, err
}

// text gives what is to be cut.
func (st *stage) text(ctx context.Context) (Parsed, error) {
	if st.parsed != nil {
		return *st.parsed, nil
	}
	if st.s.Parsed != nil {
		var p Parsed
		err := st.getJSON(ctx, st.s.Parsed.Text, &p)
		return p, err
	}
	f, size, err := st.open(ctx, st.s.Content)
	if err != nil {
		return Parsed{}, err
	}
	defer f.Close()
	if size > MaxParsed {
		return Parsed{}, &ParseError{Code: "too_large", Message: "the text is too large; split it"}
	}
	b, err := io.ReadAll(f)
	return Parsed{Text: string(bytes.ToValidUTF8(b, nil))}, err
}

func (st *stage) chunk(ctx context.Context) (knowledge.Event, error) {
	p, err := st.text(ctx)
	if err != nil {
		return nil, err
	}
	c := st.s.Recipe.Chunking
	count := st.g.counter().Count
	pieces := chunk.Split(p.Text, chunk.Options{Size: c.Size, Overlap: c.Overlap, ParentChild: c.ParentChild, Parent: c.Parent, Child: c.Child,
		Limit: c.Limit, Separators: c.Separators, Strategy: c.Strategy}, count)
	slices := make([]knowledge.Slice, 0, len(pieces))
	for _, p := range pieces {
		slices = append(slices, knowledge.Slice{Kind: knowledge.Kind(p.Kind), Parent: p.Parent, Start: p.Start, End: p.End, Context: p.Context, Content: p.Content, Tokens: p.Tokens})
	}
	slices = append(slices, tableSlices(p.Tables, count)...)
	switch {
	case len(slices) == 0:
		return nil, &ParseError{Code: "no_text", Message: "there is no text in it that could be found; if it is a scan, recognise its text first"}
	case len(slices) > maxSlices:
		return nil, &ParseError{Code: "too_many_chunks", Message: fmt.Sprintf("it gives %d chunks, more than %d; make chunk_size larger or split it", len(slices), maxSlices)}
	}
	e := knowledge.Chunked{Revision: st.claim.Revision, Chunks: len(slices), At: st.now()}
	for _, s := range slices {
		if s.Kind.Searched() {
			e.Searched++
			e.Tokens += s.Tokens
		}
	}
	e.Slices, err = st.putLater(ctx, slices)
	return e, err
}

// chunks gives the chunks of the document.
func (st *stage) chunks(ctx context.Context) ([]knowledge.Chunk, error) {
	var slices []knowledge.Slice
	if f := st.s.FAQ; f != nil {
		kind, parent := knowledge.FAQText, -1
		for _, text := range f.Units(st.s.Recipe) {
			slices = append(slices, knowledge.Slice{Kind: kind, Parent: parent, End: utf8.RuneCountInString(text), Content: text, Tokens: st.g.counter().Count(text)})
			kind, parent = knowledge.FAQQuestion, 0
		}
	} else if err := st.getJSON(ctx, st.s.Chunked.Slices, &slices); err != nil {
		return nil, err
	}
	return st.s.ChunksOf(slices), nil
}

func (st *stage) index(ctx context.Context) (knowledge.Event, error) {
	chunks, err := st.chunks(ctx)
	if err != nil {
		return nil, err
	}
	err = st.patient(ctx, func() error {
		return st.g.Index.Put(ctx, st.s.Entry(st.tenant, st.claim.Revision), chunks)
	})
	count := len(chunks)
	if st.s.FAQ != nil { // other ways to ask it are no chunks that people see
		count = 1
	}
	return knowledge.Indexed{Revision: st.claim.Revision, Chunks: count, Change: st.s.Changes, At: st.now()}, err
}

// sync tells the index what has changed beside the content.
func (st *stage) sync(ctx context.Context) (knowledge.Event, error) {
	if err := st.patient(ctx, func() error { return st.g.Index.Change(ctx, st.s.Entry(st.tenant, st.s.Indexed)) }); err != nil {
		return nil, err
	}
	for _, e := range st.s.Unsynced() {
		var found []knowledge.Found
		if err := st.patient(ctx, func() (err error) {
			found, err = st.g.Index.Chunks(ctx, st.tenant, e.Chunk)
			return err
		}); err != nil {
			return nil, err
		}
		if len(found) == 0 {
			st.log.Warn("an edited chunk is not in the index", "chunk", e.Chunk)
			continue
		}
		c := found[0].Chunk
		if e.Tokens == 0 && e.Content != "" {
			e.Tokens = st.g.counter().Count(e.Content)
		}
		c = c.Apply(e)
		if !c.Disabled {
			if err := st.embedEdited(ctx, c); err != nil {
				return nil, err
			}
		}
		err := st.patient(ctx, func() error { return st.g.Index.Edit(ctx, st.tenant, c) })
		if err != nil && !errors.Is(err, knowledge.ErrNoChunk) {
			return nil, err
		}
	}
	return knowledge.Synced{Change: st.s.Changes, At: st.now()}, nil
}
