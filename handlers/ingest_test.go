package handlers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/handlers"
	"refold/tests/scenario"
)

func TestIngest_EveryOrigin(t *testing.T) {
	l := newIngesting(t)
	l.start("w1")
	file := l.file("a.md", "# Sleep\n\nBears hibernate in winter.")
	table := l.file("b.csv", "city,n\n北京,1\nOslo,\n")
	page := l.add(commands.AddDocument{Origin: knowledge.OriginURL, URL: "https://example.test/x"})
	typed := l.add(commands.AddDocument{Origin: knowledge.OriginManual, Title: "Note", Content: l.put("Whales sing at night.")})
	draft := l.add(commands.AddDocument{Origin: knowledge.OriginManual, Title: "Draft", Content: l.put("Owls wait."), Draft: true})
	entry := l.entry("How tall are giraffes?", "Five metres.").Document
	l.settled(file, table, page, typed, draft, entry)
	for id, words := range map[string]string{file: "hibernate", table: "city", page: "address", typed: "whales", entry: "giraffes"} {
		if s := l.doc(id); s.Status() != knowledge.StatusCompleted || s.Embedded.Model != "vectors-1" {
			t.Fatalf("%s: %s, %+v", words, s.Status(), s.Trouble)
		}
		if got := l.search(words, l.faq); !slices.Equal(got, []string{id}) {
			t.Fatalf("%s finds %v, want %s", words, got, id)
		}
	}
	if s := l.doc(page); s.FileType != "md" || s.Content.Digest == "" {
		t.Fatalf("%+v", s)
	}
	if len(l.indexed(draft)) > 0 || l.doc(draft).Status() != knowledge.StatusDraft {
		t.Fatal("a draft was indexed")
	}
	var kinds []string
	for _, c := range l.indexed(table) {
		kinds = append(kinds, string(c.Kind))
	}
	if !slices.Equal(kinds, []string{"text", "table_summary", "table_column", "table_column"}) {
		t.Fatal(kinds)
	}
	if c := l.indexed(table)[3]; c.Context != "Table" || c.Content != "Column n (integer), empty in 1 of 2 rows.\nSamples: 1" {
		t.Fatalf("%+v", c)
	}
	if c := l.indexed(entry)[0]; c.Kind != knowledge.FAQText || c.FAQ.Question != "How tall are giraffes?" || c.Content != "How tall are giraffes?\nFive metres." {
		t.Fatalf("%+v", c)
	}
}

func TestIngest_SameBytesAreFree(t *testing.T) {
	l := newIngesting(t)
	l.start("w1")
	a := l.file("a.md", "Bears hibernate.")
	l.settled(a)
	before := len(l.facts(a))
	if pos, err := l.ReparseDocument(t.Context(), l.caller(), a, nil, false); err != nil || pos != "" || len(l.facts(a)) != before {
		t.Fatal(pos, err)
	}
	// The same text under another name has its vectors already.
	b := l.file("b.md", "Bears hibernate.")
	l.settled(b)
	if e := l.doc(b).Embedded; e.Vectors != 0 || e.Kept != 1 {
		t.Fatalf("%+v", e)
	}
	// Another way of cutting leaves the text as it is.
	if _, err := l.ReparseDocument(t.Context(), l.caller(), a, []byte(`{"chunking_config":{"chunk_size":100}}`), false); err != nil {
		t.Fatal(err)
	}
	l.settled(a)
	if n := len(scenario.All[knowledge.Parsed](l.facts(a))); n != 1 {
		t.Fatalf("parsed %d times", n)
	}
	if c := l.indexed(a); len(c) != 1 || c[0].Entry.Revision != 2 || c[0].ID != knowledge.ChunkID(a, 2, 0) {
		t.Fatalf("%+v", c)
	}
}

func TestIngest_WithoutModel(t *testing.T) {
	l := newIngesting(t)
	l.Vectors = nil
	l.start("w1", func(g *handlers.Ingest) { g.Embedder = nil })
	id := l.file("a.md", "Bears hibernate.")
	l.settled(id)
	if s := l.doc(id); s.Status() != knowledge.StatusCompleted || s.Embedded.Skipped != knowledge.SkippedNoModel || len(l.search("bears")) != 1 {
		t.Fatalf("%+v", s.Embedded)
	}
	// With a model, reading it again makes the vectors, and nothing else.
	l.Vectors = func(string, string) string { return "vectors-1" }
	l.start("w2")
	if _, err := l.ReparseDocument(t.Context(), l.caller(), id, nil, false); err != nil {
		t.Fatal(err)
	}
	l.await("vectors", func() bool { s := l.doc(id); return s.Indexed == 2 })
	if n := len(scenario.All[knowledge.Chunked](l.facts(id))); n != 1 {
		t.Fatalf("cut %d times", n)
	}
}

func TestIngest_WhatCannotBeRead(t *testing.T) {
	l := newIngesting(t)
	l.parse = func(_ context.Context, f handlers.File, text string) (handlers.Parsed, error) {
		switch text {
		case "locked":
			return handlers.Parsed{}, &handlers.ParseError{Code: "encrypted", Message: "needs a password; save it without one"}
		case "panic":
			panic("bug")
		}
		return handlers.Parsed{Text: text}, nil
	}
	l.start("w1")
	for _, c := range []struct{ text, code string }{{"locked", "encrypted"}, {"panic", "internal"}, {" \n", "no_text"}} {
		id := l.file(c.text+".md", c.text)
		l.settled(id)
		if s := l.doc(id); s.Failed == nil || s.Failed.Code != c.code || s.Status() != knowledge.StatusFailed {
			t.Fatalf("%s: %+v", c.text, s.Failed)
		}
	}
	lost := l.add(commands.AddDocument{Origin: knowledge.OriginFile, FileName: "x.md", Content: knowledge.Blob{Digest: "sha256:none", Size: 1}})
	fine := l.file("fine.md", "Fine.")
	l.settled(lost, fine)
	if s := l.doc(lost); s.Failed == nil || s.Failed.Code != "content_missing" {
		t.Fatalf("%+v", s.Failed)
	}
	if s := l.doc(fine); s.Status() != knowledge.StatusCompleted {
		t.Fatal("the rest did not go on")
	}
}

func TestIngest_TransientFailuresAreTriedAgain(t *testing.T) {
	l := newIngesting(t)
	calls := 0
	l.embed = func([]string) error {
		if calls++; calls < 3 {
			return &handlers.ModelError{Code: "rate_limited", Message: "slow down", Transient: true, RetryAfter: 40 * time.Second}
		}
		return nil
	}
	l.fetch = func(string) (string, error) {
		return "", &handlers.WebError{Code: "connection_timeout", Message: "no answer", Retryable: true}
	}
	l.start("w1")
	id := l.file("a.md", "Bears hibernate.")
	for n := 1; n <= 2; n++ {
		l.clock.await(t, time.Duration(n)*40*time.Second)
		if s := l.doc(id); s.Trouble == nil || s.Trouble.Code != "rate_limited" || s.Status() != knowledge.StatusProcessing {
			t.Fatalf("%+v", s.Trouble)
		}
		l.clock.advance(40 * time.Second)
	}
	l.settled(id)
	if s := l.doc(id); s.Status() != knowledge.StatusCompleted || len(scenario.All[knowledge.Parsed](l.facts(id))) != 1 {
		t.Fatal(s.Status())
	}
	page := l.add(commands.AddDocument{Origin: knowledge.OriginURL, URL: "https://example.test/x"})
	for _, at := range []time.Duration{82 * time.Second, 92 * time.Second} {
		l.clock.await(t, at)
		l.clock.advance(at - l.clock.Now().Sub(t0))
	}
	l.settled(page)
	if s := l.doc(page); s.Failed == nil || s.Failed.Code != "connection_timeout" || s.Failed.Attempt != 3 {
		t.Fatalf("%+v", s.Failed)
	}
}

// An index that is away is waited for: it is no fault of the document.
func TestIngest_WaitsForTheIndex(t *testing.T) {
	l := newIngesting(t)
	l.away = true
	p := l.start("w1")
	id := l.file("a.md", "Bears hibernate.")
	for n := range 5 {
		l.clock.await(t, l.clock.Now().Sub(t0)+min(100*time.Millisecond<<n, 10*time.Second))
		l.clock.advance(min(100*time.Millisecond<<n, 10*time.Second))
	}
	l.mu.Lock()
	l.away = false
	l.mu.Unlock()
	done := make(chan struct{})
	go func() { l.settled(id); close(done) }()
	l.pump(done)
	if s := l.doc(id); s.Status() != knowledge.StatusCompleted || len(scenario.All[knowledge.StageFailed](l.facts(id))) > 0 {
		t.Fatalf("%s\n%s", scenario.Text(l.facts(id)), p.log)
	}
}

func (l *ingesting) pump(done <-chan struct{}) {
	limit := time.After(patience)
	for {
		l.clock.mu.Lock()
		added := l.clock.added
		l.clock.mu.Unlock()
		l.clock.advance(10 * time.Second)
		select {
		case <-done:
			return
		case <-added:
		case <-limit:
			l.t.Fatal("it does not end")
		}
	}
}

// held is a parser that works until its context ends, and says when it has begun.
func (l *ingesting) held() chan string {
	begun := make(chan string, 100)
	l.parse = func(ctx context.Context, f handlers.File, text string) (handlers.Parsed, error) {
		begun <- f.Name
		<-ctx.Done()
		return handlers.Parsed{}, ctx.Err()
	}
	return begun
}

func TestIngest_FencesEndTheWork(t *testing.T) {
	for name, fence := range map[string]func(l *ingesting, id string) error{
		"cancel": func(l *ingesting, id string) error {
			_, err := l.CancelDocument(t.Context(), l.caller(), id)
			return err
		},
		"delete": func(l *ingesting, id string) error {
			_, err := l.DeleteDocument(t.Context(), l.caller(), id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newIngesting(t)
			begun := l.held()
			l.start("w1")
			id := l.file("a.md", "x")
			<-begun
			if err := fence(l, id); err != nil {
				t.Fatal(err)
			}
			l.settled(id)
			facts := l.facts(id)
			if e, ok := facts[len(facts)-1].(knowledge.StageFailed); !ok || e.Code != knowledge.CodeReturned {
				t.Fatalf("%+v", facts)
			}
			if len(l.indexed(id)) > 0 {
				t.Fatal("it is in the index")
			}
		})
	}
}

// A process that is told to end hands back what it holds; another one, that is no
// sole one, goes on at once.
func TestIngest_HandsBack(t *testing.T) {
	l := newIngesting(t)
	begun := l.held()
	shared := func(g *handlers.Ingest) { g.Sole = false }
	first := l.start("w1", shared)
	id := l.file("a.md", "Bears hibernate.")
	<-begun
	l.stop(first)
	if e := hasFact[knowledge.StageFailed](l, id); e.Code != knowledge.CodeReturned {
		t.Fatalf("%+v", e)
	}
	l.parse = nil
	l.start("w2", shared)
	l.settled(id)
	if s := l.doc(id); s.Status() != knowledge.StatusCompleted {
		t.Fatal(s.Status())
	}
}

// A claim of a process that is gone is void as soon as that is known.
func TestIngest_OwnersThatAreGone(t *testing.T) {
	l := newIngesting(t)
	id := l.file("a.md", "Bears hibernate.")
	d, err := l.OpenDocument(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	m := knowledge.Moment{Now: l.clock.Now(), Self: "w0"}
	if _, err := d.Do(t.Context(), l.caller(), "claim", func(knowledge.State) ([]knowledge.Command, error) {
		return []knowledge.Command{knowledge.Claim{Moment: m, Stage: knowledge.StageParse, Attempt: 1, Deadline: m.Now.Add(time.Hour)}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	p := l.start("w1", func(g *handlers.Ingest) { g.Sole = false })
	other := l.file("b.md", "Whales sing.")
	l.settled(other)
	if s := l.doc(id); s.Claim == nil || s.Claim.Owner != "w0" {
		t.Fatal("somebody else's claim was taken")
	}
	p.SetGone([]string{"w0"})
	p.Wake(handlers.Owed{Stream: event.Stream{Tenant: tenant, Category: knowledge.Category, ID: id}, Base: l.base})
	l.settled(id)
	if s := l.doc(id); s.Status() != knowledge.StatusCompleted {
		t.Fatal(s.Status())
	}
}

// Two processes share the work, and no stage is done by both.
func TestIngest_TwoProcesses(t *testing.T) {
	l := newIngesting(t)
	shared := func(g *handlers.Ingest) { g.Sole = false }
	l.start("w1", shared)
	l.start("w2", shared)
	var ids []string
	for n := range 20 {
		ids = append(ids, l.file(fmt.Sprintf("%d.md", n), fmt.Sprint("Text number ", n)))
	}
	l.settled(ids...)
	for _, id := range ids {
		if n := len(scenario.All[knowledge.Indexed](l.facts(id))); n != 1 || len(l.indexed(id)) != 1 {
			t.Fatalf("indexed %d times", n)
		}
	}
	for text, n := range l.embedded {
		if n != 1 {
			t.Fatalf("%q was embedded %d times", text, n)
		}
	}
}

func TestIngest_TellsTheIndexOfChanges(t *testing.T) {
	l := newIngesting(t)
	l.start("w1")
	id := l.file("a.md", "Bears hibernate.")
	l.settled(id)
	tag, _, err := l.EnsureTag(t.Context(), l.caller(), l.base, "News")
	if err != nil {
		t.Fatal(err)
	}
	title, off := "Zoology", false
	for _, step := range []func() (event.Position, error){
		func() (event.Position, error) {
			return l.ChangeDocument(t.Context(), l.caller(), id, commands.DocumentChange{Title: &title})
		},
		func() (event.Position, error) {
			return l.TagDocument(t.Context(), l.caller(), id, []string{fmt.Sprint(tag.Number)})
		},
	} {
		if _, err := step(); err != nil {
			t.Fatal(err)
		}
	}
	l.settled(id)
	if e := l.indexed(id)[0].Entry; e.Title != "Zoology" || !slices.Equal(e.Tags, []string{tag.ID}) {
		t.Fatalf("%+v", e)
	}
	text, zero := "Bears sleep.", 0
	edited, _, err := l.EditChunk(t.Context(), l.caller(), l.indexed(id)[0].Chunk, commands.ChunkEdit{Content: &text, Expect: &zero})
	if err != nil || edited.Edition != 1 || edited.Content != text {
		t.Fatal(edited, err)
	}
	l.settled(id)
	if got := l.search("sleep"); len(got) != 1 || len(l.search("hibernate")) != 0 || l.embedded[edited.EmbeddedText()] != 1 {
		t.Fatal(got)
	}
	if eds, err := l.ChunkEditions(t.Context(), tenant, id, edited.ID); err != nil || len(eds) != 1 || eds[0].By != "u" {
		t.Fatal(eds, err)
	}
	if _, err := l.ChangeDocument(t.Context(), l.caller(), id, commands.DocumentChange{Enabled: &off}); err != nil {
		t.Fatal(err)
	}
	l.settled(id)
	if len(l.search("sleep")) != 0 {
		t.Fatal("a disabled document was found")
	}
	if _, err := l.DeleteDocument(t.Context(), l.caller(), id); err != nil {
		t.Fatal(err)
	}
	l.settled(id)
	if len(l.indexed(id)) > 0 {
		t.Fatal("a deleted document is in the index")
	}
	again := l.file("a.md", "Bears hibernate.")
	l.settled(again)
	if again == id || len(l.search("hibernate")) != 1 {
		t.Fatal("a deleted document can't be added again")
	}
}

func TestIngest_DeletedBase(t *testing.T) {
	l := newIngesting(t)
	p := l.start("w1")
	a, b := l.file("a.md", "Bears hibernate."), l.file("b.md", "Whales sing.")
	other := l.entry("Why?", "Because.").Document
	l.settled(a, b, other)
	if _, err := l.DeleteBase(t.Context(), l.caller(), l.base); err != nil {
		t.Fatal(err)
	}
	l.await("the emptied base", func() bool { s, _, _ := l.LookBase(context.Background(), tenant, l.base); return s.Emptied })
	l.settled(a, b)
	if len(l.indexed(a))+len(l.indexed(b)) > 0 || l.doc(a).Live() || len(l.indexed(other)) != 1 {
		t.Fatal("something is left, or gone")
	}
	if _, err := l.AddDocument(t.Context(), l.caller(), commands.AddDocument{Base: l.base, Origin: knowledge.OriginFile, FileName: "c.md", Content: l.put("c")}); err == nil {
		t.Fatal("a deleted base takes documents")
	}
	// One that was being added at that moment goes, too.
	e := l.doc(a).Added
	late := *e
	late.Document, late.FileName = "late", "late.md"
	d, err := l.OpenDocument(t.Context(), tenant, "late")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Do(t.Context(), l.caller(), "add", func(knowledge.State) ([]knowledge.Command, error) {
		return []knowledge.Command{knowledge.Add{DocumentAdded: late}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	hasFact[knowledge.DocumentDeleted](l, "late")
	l.settled("late")
	// So does a draft, which nobody works on, also if the process died before it saw
	// it: then the base is emptied again (see projections.Bases).
	late.Document, late.Origin, late.Draft = "draft", knowledge.OriginManual, true
	add := func(id string) {
		t.Helper()
		late.Document = id
		d, err := l.OpenDocument(t.Context(), tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Do(t.Context(), l.caller(), "add", func(knowledge.State) ([]knowledge.Command, error) {
			return []knowledge.Command{knowledge.Add{DocumentAdded: late}}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	add("draft")
	hasFact[knowledge.DocumentDeleted](l, "draft")
	l.stop(p)
	add("unseen")
	owed := handlers.Owed{Stream: event.Stream{Tenant: tenant, Category: knowledge.BaseCategory, ID: l.base}, Base: l.base}
	q := &handlers.Ingest{Commands: l.commands(l.store, "w2-"), Store: l.store, Blobs: l.blobs, Parser: l, Index: l.index, Holdings: l, Clock: l.clock, Self: "w2", Sole: true, Log: p.Log}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	head, err := l.store.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	go func() { defer close(done); q.Run(ctx, head, []handlers.Owed{owed}) }()
	defer func() { cancel(); <-done }()
	hasFact[knowledge.DocumentDeleted](l, "unseen")
	if strings.Contains(p.log.String(), "level=ERROR") {
		t.Fatal(p.log)
	}
}
