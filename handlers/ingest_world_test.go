package handlers_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/tool"
	"refold/handlers"
	"refold/infra/memory"
)

// ingesting is a store, a process that serves requests, and what ingestion needs.
type ingesting struct {
	t     *testing.T
	store *memory.Store
	blobs *memory.Blobs
	index *memory.Index
	clock *clock
	base  string
	faq   string
	ids   counter
	*commands.Commands

	mu       sync.Mutex
	parse    func(ctx context.Context, f handlers.File, text string) (handlers.Parsed, error)
	fetch    func(url string) (string, error)
	embed    func(texts []string) error
	embedded map[string]int // how often each text was
	away     bool           // the index is
}

func newIngesting(t *testing.T) *ingesting {
	t.Helper()
	l := &ingesting{t: t, store: memory.New(), blobs: &memory.Blobs{}, index: &memory.Index{}, clock: newClock(), embedded: map[string]int{}}
	l.Commands = l.commands(l.store, "id-")
	var err error
	if l.base, _, err = l.CreateBase(t.Context(), l.caller(), commands.NewBase{Name: "Guides"}); err != nil {
		t.Fatal(err)
	}
	if l.faq, _, err = l.CreateBase(t.Context(), l.caller(), commands.NewBase{Name: "Questions", Kind: knowledge.KindFAQ}); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *ingesting) commands(store event.Store, prefix string) *commands.Commands {
	c := commands.New(store, nil, l.clock.Now, l.ids.next(prefix))
	c.Vectors = func(string, string) string { return l.Name() }
	return c
}

func (l *ingesting) caller() commands.Caller {
	return commands.Caller{Tenant: tenant, Principal: "u", Request: "q"}
}

// Parse implements handlers.Parser: the text is the file's.
func (l *ingesting) Parse(ctx context.Context, f handlers.File) (handlers.Parsed, error) {
	b, err := io.ReadAll(f.Content)
	if err != nil {
		return handlers.Parsed{}, err
	}
	if l.parse != nil {
		return l.parse(ctx, f, string(b))
	}
	p := handlers.Parsed{Text: string(b)}
	if f.Type == "csv" {
		p.Tables = []handlers.Table{{Rows: 2, Columns: []handlers.Column{{Name: "city", Type: "text", Samples: []string{"北京", "Oslo"}}, {Name: "n", Type: "integer", Empty: 1, Samples: []string{"1"}}}}}
	}
	return p, nil
}

func (l *ingesting) Types() []string { return []string{"csv", "md"} }

// Fetch implements handlers.Fetcher.
func (l *ingesting) Fetch(_ context.Context, url string) (handlers.Fetched, error) {
	text := "# A page\n\nIts address is " + url
	if l.fetch != nil {
		var err error
		if text, err = l.fetch(url); err != nil {
			return handlers.Fetched{}, err
		}
	}
	return handlers.Fetched{URL: url, Name: "page.md", Type: "md", Size: -1, Content: io.NopCloser(strings.NewReader(text))}, nil
}

// Embed implements handlers.Embedder.
func (l *ingesting) Embed(_ context.Context, texts []string) ([][]float32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.embed != nil {
		if err := l.embed(texts); err != nil {
			return nil, err
		}
	}
	var out [][]float32
	for _, t := range texts {
		l.embedded[t]++
		h := fnv.New32()
		_, _ = h.Write([]byte(t))
		out = append(out, []float32{1, float32(h.Sum32()%100) / 100})
	}
	return out, nil
}

func (l *ingesting) Name() string { return "vectors-1" }

// Documents implements handlers.Holdings by reading the whole log.
func (l *ingesting) Documents(ctx context.Context, tenant, base string, _ event.Position, each func(string) error) error {
	return l.each(ctx, tenant, base, func(s knowledge.State) error { return each(s.Added.Document) })
}

func (l *ingesting) Entries(ctx context.Context, tenant, base string, _ event.Position, each func(handlers.HeldEntry) error) error {
	return l.each(ctx, tenant, base, func(s knowledge.State) error {
		return each(handlers.HeldEntry{Number: s.FAQ.ID, Question: s.FAQ.Question})
	})
}

func (l *ingesting) each(ctx context.Context, tenant, base string, each func(knowledge.State) error) error {
	raw, _, err := l.store.Scan(ctx, "", event.Filter{Tenant: tenant, Categories: []string{knowledge.Category}}, 0)
	if err != nil {
		return err
	}
	var seen []string
	for _, r := range raw {
		if r.Meta.Correlation != base || slices.Contains(seen, r.Stream.ID) {
			continue
		}
		seen = append(seen, r.Stream.ID)
		if s := l.doc(r.Stream.ID); s.Live() {
			if err := each(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// absent is an index that may be away.
type absent struct {
	*memory.Index
	l *ingesting
}

func (a absent) Put(ctx context.Context, d knowledge.Entry, chunks []knowledge.Chunk) error {
	a.l.mu.Lock()
	away := a.l.away
	a.l.mu.Unlock()
	if away {
		return fmt.Errorf("%w: away", event.ErrUnavailable)
	}
	return a.Index.Put(ctx, d, chunks)
}

// ingester is an Ingest at work.
type ingester struct {
	*handlers.Ingest
	end  func()
	done chan struct{}
	log  *buffer
}

// start runs a process over a store; it ends with the test.
func (l *ingesting) start(self string, change ...func(*handlers.Ingest)) *ingester {
	l.t.Helper()
	p := &ingester{done: make(chan struct{}), log: &buffer{}}
	p.Ingest = &handlers.Ingest{Commands: l.commands(l.store, self+"-"), Store: l.store, Blobs: l.blobs, Parser: l, Fetcher: l, Index: absent{l.index, l}, Holdings: l,
		Embedder: func(string, string) handlers.Embedder { return l }, Clock: l.clock, Self: self, Sole: true}
	for _, f := range change {
		f(p.Ingest)
	}
	p.Log = slog.New(slog.NewTextHandler(p.log, nil))
	ctx, cancel := context.WithCancel(context.Background())
	p.end = cancel
	go func() {
		defer close(p.done)
		p.Run(ctx, "", l.owed())
	}()
	l.t.Cleanup(func() { l.stop(p) })
	return p
}

// owed lists everything that the log has of documents, bases and imports.
func (l *ingesting) owed() (out []handlers.Owed) {
	raw, _, err := l.store.Scan(context.Background(), "", event.Filter{Categories: []string{knowledge.Category, knowledge.BaseCategory, knowledge.ImportCategory, knowledge.TransferCategory}}, 0)
	if err != nil {
		l.t.Error(err)
	}
	for _, r := range raw {
		if r.Version == 1 {
			out = append(out, handlers.Owed{Stream: r.Stream, Base: r.Meta.Correlation})
		}
	}
	return out
}

func (l *ingesting) stop(p *ingester) {
	p.end()
	select {
	case <-p.done:
	case <-time.After(patience):
		l.t.Error("a process does not end")
	}
}

// store puts content.
func (l *ingesting) put(text string) knowledge.Blob {
	l.t.Helper()
	digest, err := l.blobs.Put(l.t.Context(), tenant, []byte(text))
	if err != nil {
		l.t.Fatal(err)
	}
	return knowledge.Blob{Digest: digest, Size: int64(len(text))}
}

func (l *ingesting) add(a commands.AddDocument) string {
	l.t.Helper()
	if a.Base == "" {
		a.Base = l.base
	}
	added, err := l.AddDocument(l.t.Context(), l.caller(), a)
	if err != nil {
		l.t.Fatal(err)
	}
	return added.Document
}

func (l *ingesting) file(name, text string) string {
	return l.add(commands.AddDocument{Origin: knowledge.OriginFile, FileName: name, Content: l.put(text)})
}

func (l *ingesting) entry(question, answer string) commands.Entry {
	l.t.Helper()
	e, err := l.AddEntry(l.t.Context(), l.caller(), l.faq, commands.AddEntry{FAQ: knowledge.FAQ{Question: question, Answers: []string{answer}}})
	if err != nil {
		l.t.Fatal(err)
	}
	return e
}

func (l *ingesting) doc(id string) knowledge.State {
	l.t.Helper()
	d, err := l.OpenDocument(context.Background(), tenant, id)
	if err != nil {
		l.t.Fatal(err)
	}
	return d.State
}

func (l *ingesting) facts(id string) []knowledge.Event {
	l.t.Helper()
	recs, err := l.History(context.Background(), tenant, id)
	if err != nil {
		l.t.Fatal(err)
	}
	var out []knowledge.Event
	for _, r := range recs {
		out = append(out, r.Event)
	}
	return out
}

// await waits until the log shows something.
func (l *ingesting) await(what string, done func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		head, err := l.store.Head(ctx)
		if err != nil {
			l.t.Fatal(err)
		}
		if done() {
			return
		}
		if err := l.store.Wait(ctx, head); err != nil {
			l.t.Fatalf("still waiting for %s: %v", what, err)
		}
	}
}

// settled waits until nothing is owed to documents.
func (l *ingesting) settled(ids ...string) {
	l.t.Helper()
	for _, id := range ids {
		l.await("the end of "+id, func() bool { return !l.doc(id).Open() })
	}
}

// has waits until a fact of a type is on a document's record.
func hasFact[E knowledge.Event](l *ingesting, id string) E {
	l.t.Helper()
	var found E
	l.await(fmt.Sprintf("%T", found), func() bool {
		for _, e := range l.facts(id) {
			if e, ok := e.(E); ok {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// indexed is everything that the index holds of a document.
func (l *ingesting) indexed(id string) []knowledge.Found {
	l.t.Helper()
	found, n, err := l.index.List(context.Background(), knowledge.List{Tenant: tenant, Document: id, Disabled: true, Limit: 1000})
	if err != nil || n != len(found) {
		l.t.Fatal(n, err)
	}
	return found
}

// search finds documents by words.
func (l *ingesting) search(words string, bases ...string) []string {
	l.t.Helper()
	var s tool.Scope
	for _, b := range append(bases, l.base) {
		s.Targets = append(s.Targets, tool.Target{Base: b})
	}
	hits, err := l.index.Keyword(context.Background(), knowledge.Query{Tenant: tenant, Scope: s, Text: words, Limit: 100})
	if err != nil {
		l.t.Fatal(err)
	}
	var out []string
	for _, h := range hits {
		out = append(out, h.Entry.Document)
	}
	return slices.Compact(out)
}
