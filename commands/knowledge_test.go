package commands_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"refold/commands"
	"refold/domain"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/infra/memory"
)

// base makes a base of a kind.
func (o *office) base(kind string) string {
	o.t.Helper()
	id, _, err := o.CreateBase(o.t.Context(), ada, commands.NewBase{Name: "Guides", Kind: kind})
	if err != nil {
		o.t.Fatal(err)
	}
	return id
}

func aFile(base string) commands.AddDocument {
	return commands.AddDocument{Base: base, Origin: knowledge.OriginFile, FileName: `C:\docs\a.MD`, Content: knowledge.Blob{Digest: "sha256:aa", Size: 3}}
}

func anEntry(question string) commands.AddEntry {
	return commands.AddEntry{FAQ: knowledge.FAQ{Question: question, Answers: []string{"a"}}}
}

func TestAddDocument_OneOfEach(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	base, other := o.base(""), o.base("")
	a, err := o.AddDocument(ctx, ada, aFile(base))
	if err != nil {
		t.Fatal(err)
	}
	d, err := o.Document(ctx, "acme", a.Document)
	if err != nil || d.State.Title != "a.MD" || d.State.FileName != "a.MD" || d.State.FileType != "md" {
		t.Fatal(d.State.Title, d.State.FileName, d.State.FileType, err)
	}
	_, err = o.AddDocument(ctx, ada, aFile(base))
	r, _ := domain.AsRejection(err)
	if !errors.Is(err, knowledge.ErrDuplicateFile) || r.Details["knowledge_id"] != a.Document || r.Kind != domain.Conflict {
		t.Fatal(err)
	}
	// Elsewhere, under another name, or with other bytes it is another one.
	renamed, changed := aFile(base), aFile(base)
	renamed.FileName, changed.Content.Digest = "b.md", "sha256:bb"
	for _, more := range []commands.AddDocument{aFile(other), renamed, changed} {
		if _, err := o.AddDocument(ctx, ada, more); err != nil {
			t.Fatal(err)
		}
	}
	// It can be added again when it was deleted, and again.
	last := a.Document
	for range 3 {
		if _, err := o.DeleteDocument(ctx, ada, last); err != nil {
			t.Fatal(err)
		}
		b, err := o.AddDocument(ctx, ada, aFile(base))
		if err != nil || b.Document == last {
			t.Fatal(b, err)
		}
		last = b.Document
	}
	page := commands.AddDocument{Base: base, Origin: knowledge.OriginURL, URL: "https://Example.test:443/a#x"}
	if _, err := o.AddDocument(ctx, ada, page); err != nil {
		t.Fatal(err)
	}
	page.URL = "https://example.test/a"
	if _, err := o.AddDocument(ctx, ada, page); !errors.Is(err, knowledge.ErrDuplicateURL) {
		t.Fatal(err)
	}
	typed := commands.AddDocument{Base: base, Origin: knowledge.OriginManual, Title: "N", Content: knowledge.Blob{Digest: "sha256:cc", Size: 1}}
	for range 2 {
		if _, err := o.AddDocument(ctx, ada, typed); err != nil {
			t.Fatal(err)
		}
	}
}

// Of many that bring the same file at once, one adds it.
func TestAddDocument_Racing(t *testing.T) {
	store := memory.New()
	o := newOffice(t, store)
	base := o.base("")
	const n = 16
	var wg sync.WaitGroup
	added, refused := make(chan string, n), make(chan string, n)
	for range n {
		wg.Go(func() {
			a, err := o.AddDocument(t.Context(), ada, aFile(base))
			if r, ok := domain.AsRejection(err); ok && errors.Is(err, knowledge.ErrDuplicateFile) {
				refused <- fmt.Sprint(r.Details["knowledge_id"])
			} else if err != nil {
				t.Error(err)
			} else {
				added <- a.Document
			}
		})
	}
	wg.Wait()
	if len(added) != 1 || len(refused) != n-1 {
		t.Fatal(len(added), len(refused))
	}
	id := <-added
	for range n - 1 {
		if got := <-refused; got != id {
			t.Fatal(got, id)
		}
	}
}

func TestKnowledge_OfAnotherTenantIsNotThere(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	base, faq := o.base(""), o.base(knowledge.KindFAQ)
	a, err := o.AddDocument(ctx, ada, aFile(base))
	if err != nil {
		t.Fatal(err)
	}
	e, err := o.AddEntry(ctx, ada, faq, anEntry("Why?"))
	if err != nil {
		t.Fatal(err)
	}
	eve := ada
	eve.Tenant = "evil"
	text := "x"
	for name, do := range map[string]func() error{
		"add": func() error { _, err := o.AddDocument(ctx, eve, aFile(base)); return err },
		"change": func() error {
			_, err := o.ChangeDocument(ctx, eve, a.Document, commands.DocumentChange{Title: &text})
			return err
		},
		"tag":     func() error { _, err := o.TagDocument(ctx, eve, a.Document, nil); return err },
		"reparse": func() error { _, err := o.ReparseDocument(ctx, eve, a.Document, nil, true); return err },
		"cancel":  func() error { _, err := o.CancelDocument(ctx, eve, a.Document); return err },
		"delete":  func() error { _, err := o.DeleteDocument(ctx, eve, a.Document); return err },
		"text": func() error {
			_, err := o.ReplaceText(ctx, eve, a.Document, "", knowledge.Blob{Digest: "x"}, false)
			return err
		},
		"chunk": func() error {
			_, _, err := o.EditChunk(ctx, eve, knowledge.Chunk{Document: a.Document}, commands.ChunkEdit{Content: &text})
			return err
		},
		"base":       func() error { _, err := o.ChangeBase(ctx, eve, base, commands.BaseChange{Name: &text}); return err },
		"pin":        func() error { _, _, err := o.PinBase(ctx, eve, base); return err },
		"drop":       func() error { _, err := o.DeleteBase(ctx, eve, base); return err },
		"create tag": func() error { _, _, err := o.CreateTag(ctx, eve, base, "T", "", 0); return err },
		"ensure tag": func() error { _, _, err := o.EnsureTag(ctx, eve, base, "T"); return err },
		"entry":      func() error { _, err := o.AddEntry(ctx, eve, faq, anEntry("Why?")); return err },
		"ask": func() error {
			_, err := o.ChangeEntry(ctx, eve, faq, e.Number, commands.EntryChange{Similar: []string{"x"}})
			return err
		},
		"unask": func() error { _, err := o.DeleteEntry(ctx, eve, faq, e.Number); return err },
		"import": func() error {
			_, _, err := o.ImportEntries(ctx, eve, commands.ImportEntries{Base: faq, Mode: "append", Total: 1})
			return err
		},
	} {
		err := do()
		if r, ok := domain.AsRejection(err); !ok || r.Kind != domain.Missing {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d, err := o.Document(ctx, "acme", a.Document); err != nil || d.Version != 1 {
		t.Fatal(err)
	}
}

func TestKnowledge_EveryCommandAgain(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	type made struct {
		id  any
		pos event.Position
	}
	base := again(t, o, "create base", func(by commands.Caller) (made, error) {
		id, pos, err := o.CreateBase(ctx, by, commands.NewBase{Name: "B"})
		return made{id, pos}, err
	}).id.(string)
	faq := o.base(knowledge.KindFAQ)
	name := "C"
	again(t, o, "change base", func(by commands.Caller) (event.Position, error) {
		return o.ChangeBase(ctx, by, base, commands.BaseChange{Name: &name})
	})
	// A pin is turned once, however often the request comes.
	again(t, o, "pin", func(by commands.Caller) (made, error) {
		on, pos, err := o.PinBase(ctx, by, base)
		return made{on, pos}, err
	})
	tag := again(t, o, "tag", func(by commands.Caller) (made, error) {
		tag, pos, err := o.CreateTag(ctx, by, base, "T", "", 0)
		return made{tag.ID, pos}, err
	}).id.(string)
	again(t, o, "change tag", func(by commands.Caller) (event.Position, error) {
		return o.ChangeTag(ctx, by, base, tag, commands.TagChange{Name: &name})
	})
	doc := again(t, o, "add", func(by commands.Caller) (commands.Added, error) { return o.AddDocument(ctx, by, aFile(base)) }).Document
	again(t, o, "change", func(by commands.Caller) (event.Position, error) {
		return o.ChangeDocument(ctx, by, doc, commands.DocumentChange{Title: &name})
	})
	again(t, o, "label", func(by commands.Caller) (event.Position, error) { return o.TagDocument(ctx, by, doc, []string{tag}) })
	again(t, o, "cancel", func(by commands.Caller) (event.Position, error) { return o.CancelDocument(ctx, by, doc) })
	again(t, o, "reparse", func(by commands.Caller) (event.Position, error) { return o.ReparseDocument(ctx, by, doc, nil, true) })
	typed := again(t, o, "type", func(by commands.Caller) (commands.Added, error) {
		return o.AddDocument(ctx, by, commands.AddDocument{Base: base, Origin: knowledge.OriginManual, Title: "N", Content: knowledge.Blob{Digest: "sha256:cc", Size: 1}})
	}).Document
	again(t, o, "retype", func(by commands.Caller) (event.Position, error) {
		return o.ReplaceText(ctx, by, typed, "M", knowledge.Blob{Digest: "sha256:dd", Size: 1}, true)
	})
	if d, err := o.Document(ctx, "acme", typed); err != nil || d.State.Title != "M" || !d.State.Draft {
		t.Fatal(d.State.Title, err)
	}
	e := again(t, o, "entry", func(by commands.Caller) (commands.Entry, error) { return o.AddEntry(ctx, by, faq, anEntry("Why?")) })
	again(t, o, "change entry", func(by commands.Caller) (commands.Entry, error) {
		return o.ChangeEntry(ctx, by, faq, e.Number, commands.EntryChange{Similar: []string{"How come?"}})
	})
	again(t, o, "delete entry", func(by commands.Caller) (event.Position, error) { return o.DeleteEntry(ctx, by, faq, e.Number) })
	again(t, o, "import", func(by commands.Caller) (made, error) {
		id, pos, err := o.ImportEntries(ctx, by, commands.ImportEntries{Base: faq, Mode: "append", Rows: knowledge.Blob{Digest: "sha256:ee", Size: 2}, Total: 1})
		return made{id, pos}, err
	})
	again(t, o, "delete", func(by commands.Caller) (event.Position, error) { return o.DeleteDocument(ctx, by, doc) })
	again(t, o, "delete tag", func(by commands.Caller) (event.Position, error) { return o.DeleteTag(ctx, by, base, tag) })
	again(t, o, "delete base", func(by commands.Caller) (event.Position, error) { return o.DeleteBase(ctx, by, base) })
}

func TestEntries(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	docs, faq := o.base(""), o.base(knowledge.KindFAQ)
	if _, err := o.AddEntry(ctx, ada, docs, anEntry("Why?")); !errors.Is(err, knowledge.ErrWrongKind) {
		t.Fatal(err)
	}
	if _, err := o.AddDocument(ctx, ada, aFile(faq)); !errors.Is(err, knowledge.ErrWrongKind) {
		t.Fatal(err)
	}
	tag, _, err := o.EnsureTag(ctx, ada, faq, "未分类")
	if err != nil {
		t.Fatal(err)
	}
	if same, pos, err := o.EnsureTag(ctx, ada, faq, " 未分类 "); err != nil || same.ID != tag.ID || pos != "" {
		t.Fatal(same, pos, err)
	}
	in := anEntry("Why?")
	in.Tag, in.Disabled = fmt.Sprint(tag.Number), true
	e, err := o.AddEntry(ctx, ada, faq, in)
	if err != nil || e.Document != knowledge.EntryID(faq, e.Number) || e.Number <= 0 || e.Number >= 1<<53 {
		t.Fatal(e, err)
	}
	state := func() knowledge.State {
		d, err := o.Document(ctx, "acme", e.Document)
		if err != nil {
			t.Fatal(err)
		}
		return d.State
	}
	if s := state(); !s.Disabled || !slices.Equal(s.Tags, []string{tag.ID}) || s.FAQ.ID != e.Number {
		t.Fatalf("%+v", s)
	}
	on, none := true, ""
	whole := knowledge.FAQ{Question: " Why  not? ", Answers: []string{"b"}}
	if _, err := o.ChangeEntry(ctx, ada, faq, e.Number, commands.EntryChange{FAQ: &whole, Enabled: &on, Recommended: &on, Tag: &none}); err != nil {
		t.Fatal(err)
	}
	if s := state(); s.Disabled || len(s.Tags) != 0 || s.FAQ.Question != "Why not?" || s.Title != "Why not?" || !s.FAQ.Recommended || s.FAQ.ID != e.Number {
		t.Fatalf("%+v %+v", s, s.FAQ)
	}
	// A number is given as it is wished, once; that of a deleted entry is not given again.
	wish := anEntry("Second?")
	wish.ID = 42
	if e, err := o.AddEntry(ctx, ada, faq, wish); err != nil || e.Number != 42 {
		t.Fatal(e, err)
	}
	if _, err := o.AddEntry(ctx, ada, faq, wish); !errors.Is(err, knowledge.ErrDocumentExists) {
		t.Fatal(err)
	}
	if _, err := o.DeleteEntry(ctx, ada, faq, 42); err != nil {
		t.Fatal(err)
	}
	if e, err := o.AddEntry(ctx, ada, faq, wish); err != nil || e.Number == 42 {
		t.Fatal(e, err)
	}
}

func TestBase_ChangeKeepsWhatIsNotNamed(t *testing.T) {
	o, ctx := newOffice(t, memory.New()), t.Context()
	id, _, err := o.CreateBase(ctx, ada, commands.NewBase{Name: "B", Description: "D", Settings: knowledge.Settings{Embedding: "e",
		Other: map[string]json.RawMessage{"wiki_config": json.RawMessage(`{"a":1}`), "vlm_config": json.RawMessage(`{"b":1}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	cut := knowledge.Chunking{Size: 100}
	if _, err := o.ChangeBase(ctx, ada, id, commands.BaseChange{Chunking: &cut, Other: map[string]json.RawMessage{"wiki_config": json.RawMessage(`{"a":2}`), "vlm_config": json.RawMessage("null")}}); err != nil {
		t.Fatal(err)
	}
	b, err := o.Base(ctx, "acme", id)
	if err != nil || b.Description != "D" || b.Settings.Embedding != "e" || b.Settings.Chunking.Size != 100 ||
		string(b.Settings.Other["wiki_config"]) != `{"a":2}` || string(b.Settings.Other["vlm_config"]) != `{"b":1}` {
		t.Fatalf("%+v %v", b, err)
	}
	// What is in it is treated as it was; a request may name another way.
	a := aFile(id)
	a.Process = json.RawMessage(`{"chunking_config":{"chunk_size":64},"graph_enabled":true}`)
	added, err := o.AddDocument(ctx, ada, a)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := o.Document(ctx, "acme", added.Document); err != nil || d.State.Recipe.Chunking.Size != 64 || d.State.Recipe.Embedding != "e" {
		t.Fatalf("%+v %v", d.State.Recipe, err)
	}
	a.Process, a.FileName = json.RawMessage(`{"chunking_config":7}`), "b.md"
	if _, err := o.AddDocument(ctx, ada, a); err == nil {
		t.Fatal("taken")
	}
	a.Process, a.Tags = nil, []string{"nope"}
	if _, err := o.AddDocument(ctx, ada, a); !errors.Is(err, knowledge.ErrNoTag) {
		t.Fatal(err)
	}
}
