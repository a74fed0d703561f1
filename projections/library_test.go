package projections_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/infra/memory"
	"refold/projections"
)

func blob(n byte, size int64) knowledge.Blob {
	return knowledge.Blob{Digest: "sha256:" + strings.Repeat(fmt.Sprintf("%02x", n), 32), Size: size}
}

func (b *book) base(id string, facts ...knowledge.BaseEvent) {
	write(b, knowledge.BaseCodec, knowledge.BaseCategory, "acme", id, facts...)
}

func (b *book) document(id string, facts ...knowledge.Event) {
	write(b, knowledge.Codec, knowledge.Category, "acme", id, facts...)
}

func started(number, revision int, stage string, second int) knowledge.StageStarted {
	return knowledge.StageStarted{Number: number, Revision: revision, Stage: stage, Attempt: 1, Owner: "w1", Deadline: at(900), At: at(second)}
}

// library adds bases with documents in every state.
func (b *book) library() {
	settings := knowledge.Settings{Chunking: knowledge.Chunking{Size: 512, Overlap: 80}, Strategy: knowledge.DefaultStrategy}
	b.base("b1", knowledge.BaseCreated{Base: "b1", Name: "Guides", Kind: knowledge.KindDocument, Settings: settings, By: "u", At: at(1)},
		knowledge.TagCreated{Tag: "t1", Number: 7, Name: "News", At: at(2)}, knowledge.TagCreated{Tag: "t2", Number: 8, Name: "Law", At: at(2)},
		knowledge.BasePinned{By: "u", At: at(3)}, knowledge.TagChanged{Tag: "t2", Name: "Laws", Color: "red", At: at(4)})
	faq := settings
	faq.FAQ = &knowledge.FAQMode{Index: knowledge.QuestionAnswer, Question: knowledge.Combined}
	b.base("b2", knowledge.BaseCreated{Base: "b2", Name: "Questions", Kind: knowledge.KindFAQ, Settings: faq, At: at(5)})
	b.base("b3", knowledge.BaseCreated{Base: "b3", Name: "Gone", Kind: knowledge.KindDocument, Settings: settings, At: at(5)}, knowledge.BaseDeleted{At: at(6)})
	recipe := knowledge.Recipe{Parser: "1", Chunker: "1", Chunking: settings.Chunking, Vector: true, Vectors: "m"}
	file := knowledge.DocumentAdded{Base: "b1", Origin: knowledge.OriginFile, Title: "A", FileName: "A.md", FileType: "md", Content: blob(1, 10), Recipe: recipe, By: "u", At: at(10)}
	as := func(id string, change func(*knowledge.DocumentAdded)) knowledge.DocumentAdded {
		e := file
		e.Document = id
		if change != nil {
			change(&e)
		}
		return e
	}
	b.document("done", as("done", func(e *knowledge.DocumentAdded) { e.Tags, e.Folder = []string{"t1", "t2"}, "a/b" }),
		started(1, 1, "parse", 11), knowledge.Parsed{Revision: 1, Text: blob(2, 20), Runes: 20, At: at(12)},
		started(2, 1, "chunk", 12), knowledge.Chunked{Revision: 1, Slices: blob(3, 30), Chunks: 4, Searched: 3, Tokens: 99, At: at(13)},
		started(3, 1, "embed", 13), knowledge.Embedded{Revision: 1, Model: "m", Vectors: 3, At: at(14)},
		started(4, 1, "index", 14), knowledge.Indexed{Revision: 1, Chunks: 4, At: at(15)},
		knowledge.DocumentTagged{Tags: []string{"t2"}, At: at(16)}, started(5, 1, "sync", 16), knowledge.Synced{Change: 1, At: at(17)})
	b.document("failed", as("failed", nil), started(1, 1, "parse", 11),
		knowledge.StageFailed{Revision: 1, Stage: "parse", Attempt: 1, Code: "encrypted", Message: "needs a password", At: at(12)})
	b.document("waiting", as("waiting", func(e *knowledge.DocumentAdded) {
		e.Origin, e.URL, e.Title = knowledge.OriginURL, "https://example.test/", ""
	}), started(1, 1, "fetch", 11),
		knowledge.Fetched{Revision: 1, Content: blob(4, 40), FileName: "x.html", FileType: "html", Title: "X", At: at(12)}, started(2, 1, "parse", 12),
		knowledge.StageFailed{Revision: 1, Stage: "parse", Attempt: 1, Code: "lost", Message: "gone", Transient: true, RetryAt: at(12), At: at(12)})
	b.document("cancelled", as("cancelled", nil), knowledge.IngestionCancelled{Revision: 1, At: at(13)})
	b.document("draft", as("draft", func(e *knowledge.DocumentAdded) { e.Origin, e.Draft = knowledge.OriginManual, true }))
	b.document("pending", as("pending", nil), knowledge.DocumentChanged{Title: "P", Folder: "a", Disabled: true, Custom: json.RawMessage(`{"k":1}`), At: at(14)})
	b.document("leaving", as("leaving", nil), started(1, 1, "index", 11), knowledge.Indexed{Revision: 1, Chunks: 1, At: at(12)}, knowledge.DocumentDeleted{At: at(13)})
	b.document("left", as("left", nil), started(1, 1, "index", 11), knowledge.Indexed{Revision: 1, Chunks: 1, At: at(12)}, knowledge.DocumentDeleted{At: at(13)},
		started(2, 1, "remove", 13), knowledge.DocumentRemoved{At: at(14)})
	entry := knowledge.FAQ{ID: 77, Question: "Why?", Similar: []string{"How come?"}, Answers: []string{"Because."}, Strategy: "all"}
	b.document("entry", as("entry", func(e *knowledge.DocumentAdded) {
		e.Base, e.Origin, e.FAQ, e.Title, e.FileName, e.FileType, e.Recipe.FAQ = "b2", knowledge.OriginFAQ, &entry, "Why?", "", "", knowledge.QuestionAnswer
	}), started(1, 1, "embed", 11), knowledge.Embedded{Revision: 1, Skipped: knowledge.SkippedNoModel, At: at(12)}, started(2, 1, "index", 12), knowledge.Indexed{Revision: 1, Chunks: 1, At: at(13)},
		knowledge.DocumentChanged{Title: "Why?", Disabled: true, At: at(14)})
	write(b, knowledge.ImportCodec, knowledge.ImportCategory, "acme", "i1", []knowledge.ImportEvent{
		knowledge.ImportRequested{Import: "i1", Base: "b2", Mode: knowledge.ImportAppend, Rows: blob(5, 50), Total: 3, At: at(20)},
		knowledge.ImportStarted{Attempt: 1, Owner: "w1", Deadline: at(900), At: at(21)}, knowledge.ImportProgressed{Tally: knowledge.Tally{Done: 2, Added: 2}, At: at(22)}}...)
	write(b, knowledge.ImportCodec, knowledge.ImportCategory, "acme", "i2", []knowledge.ImportEvent{
		knowledge.ImportRequested{Import: "i2", Base: "b2", Mode: knowledge.ImportAppend, Rows: blob(5, 50), Total: 3, At: at(20)},
		knowledge.ImportStarted{Attempt: 1, Owner: "w1", Deadline: at(900), At: at(21)}, knowledge.ImportFailed{Code: "base_gone", Message: "gone", At: at(22)}}...)
	for _, id := range []string{"t1", "t2"} {
		write[knowledge.TransferEvent](b, knowledge.TransferCodec, knowledge.TransferCategory, "acme", id,
			knowledge.TransferRequested{Transfer: id, Source: "b1", Target: "b2", Documents: blob(6, 60), Total: 1, Mode: knowledge.TransferKeep, At: at(23)},
			knowledge.TransferStarted{Attempt: 1, Owner: "w1", Deadline: at(900), At: at(24)})
	}
	write[knowledge.TransferEvent](b, knowledge.TransferCodec, knowledge.TransferCategory, "acme", "t2", knowledge.TransferEnded{Done: 1, At: at(25)})
}

func everything(t *testing.T, d projections.Documents, collections ...string) string {
	t.Helper()
	var out strings.Builder
	for _, c := range collections {
		page, err := d.Find(context.Background(), projections.Query{Collection: c, Tenant: "acme", Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range page.Documents {
			var body bytes.Buffer
			if err := json.Indent(&body, doc.Body, "", "  "); err != nil {
				t.Fatal(err)
			}
			index, err := json.Marshal(doc.Index)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s %s %s\n%s\n", doc.Collection, doc.ID, index, body.String())
		}
	}
	return out.String()
}

func TestLibrary(t *testing.T) {
	b := newBook(t)
	b.library()
	d := &memory.Documents{}
	list := []projections.Projection{projections.Bases, projections.Library, projections.FAQEntries, projections.Imports, projections.Transfers}
	b.project(d, list...)
	var collections []string
	for _, p := range list {
		collections = append(collections, p.ID(), p.ID()+"."+projections.OwingCollection, p.ID()+"."+projections.FolderCollection)
	}
	golden(t, "library.golden", nil, everything(t, d, collections...))
}

// What is added to a base that is deleted and empty is owed, until it is emptied
// again.
func TestBases_LateAddition(t *testing.T) {
	b, d := newBook(t), &memory.Documents{}
	owing := func() string {
		t.Helper()
		b.project(d, projections.Bases)
		return everything(t, d, projections.Bases.ID()+"."+projections.OwingCollection)
	}
	b.base("b1", knowledge.BaseCreated{Base: "b1", Name: "B", Kind: knowledge.KindDocument})
	b.document("early", knowledge.DocumentAdded{Document: "early", Base: "b1"})
	if got := owing(); got != "" {
		t.Fatal(got)
	}
	b.base("b1", knowledge.BaseDeleted{}, knowledge.BaseEmptied{})
	if got := owing(); got != "" {
		t.Fatal(got)
	}
	b.document("late", knowledge.DocumentAdded{Document: "late", Base: "b1"})
	if got := owing(); !strings.Contains(got, `"id": "b1"`) {
		t.Fatal(got)
	}
	b.document("late", knowledge.DocumentDeleted{})
	b.base("b1", knowledge.BaseEmptied{Documents: 1})
	if got := owing(); got != "" {
		t.Fatal(got)
	}
}

func TestSpans(t *testing.T) {
	b := newBook(t)
	b.library()
	recs, err := event.Log[knowledge.Event]{Store: b.store, Codec: knowledge.Codec, Category: knowledge.Category}.Load(t.Context(), "acme", "done", 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range projections.Spans(recs) {
		out = append(out, fmt.Sprintf("%d %s %s %v", s.Claim, s.Stage, s.Status, s.EndedAt.Sub(s.BegunAt)))
	}
	if got, want := strings.Join(out, ", "), "1 parse done 1s, 2 chunk done 1s, 3 embed done 1s, 4 index done 1s, 5 sync done 1s"; got != want {
		t.Fatal(got)
	}
	if recs, err = (event.Log[knowledge.Event]{Store: b.store, Codec: knowledge.Codec, Category: knowledge.Category}).Load(t.Context(), "acme", "waiting", 0); err != nil {
		t.Fatal(err)
	}
	if s := projections.Spans(recs)[1]; s.Status != "lost" || s.Code != "lost" || s.RetryAt != at(12) {
		t.Fatalf("%+v", s)
	}
}

// What a document names is held until it is deleted.
func TestReferences_OfDocuments(t *testing.T) {
	b := newBook(t)
	b.library()
	d := &memory.Documents{}
	b.project(d, projections.References)
	for n, want := range map[byte]bool{2: true, 3: true, 4: true, 5: true} {
		if in, err := projections.InUse(t.Context(), d, projections.References, "acme", blob(n, 0).Digest); err != nil || in != want {
			t.Fatal(n, in, err)
		}
	}
	b.document("done", knowledge.DocumentDeleted{At: at(30)})
	b.project(d, projections.References)
	for n, want := range map[byte]bool{1: true, 2: false, 3: false, 4: true} { // others have the same file
		if in, err := projections.InUse(t.Context(), d, projections.References, "acme", blob(n, 0).Digest); err != nil || in != want {
			t.Fatal(n, in, err)
		}
	}
}

// The read model says of a document what its aggregate says, whatever happens.
func TestCourse_IsThatOfTheAggregate(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	b := newBook(t)
	states := map[string]knowledge.State{}
	for n := range 60 {
		id := fmt.Sprint("d", n)
		var s knowledge.State
		now := t0
		send := func(c knowledge.Command) {
			events, next, err := knowledge.DecideAll(s, c)
			if err == nil {
				s = next
				b.document(id, events...)
			}
		}
		recipe := knowledge.Recipe{Parser: "1", Chunker: "1", Vector: true, Vectors: "m"}
		send(knowledge.Add{DocumentAdded: knowledge.DocumentAdded{Document: id, Base: "b1", Origin: knowledge.OriginManual, Title: "T", Content: blob(1, 1), Recipe: recipe, Draft: n%5 == 0, At: now}})
		for range r.Intn(60) {
			m := knowledge.Moment{Now: now, Self: "w1", Sole: r.Intn(9) == 0}
			if c := s.Claim; c != nil && r.Intn(4) > 0 {
				if r.Intn(5) == 0 {
					send(knowledge.RecordFailure{Claim: c.Number, Code: "x", Message: "m", Transient: r.Intn(2) == 0, Now: now})
					continue
				}
				rev := c.Revision
				send(knowledge.Record{Claim: c.Number, Now: now, Event: map[string]knowledge.Event{
					knowledge.StageChunk: knowledge.Chunked{Revision: rev, At: now}, knowledge.StageEmbed: knowledge.Embedded{Revision: rev, Model: "m", At: now},
					knowledge.StageIndex: knowledge.Indexed{Revision: rev, Chunks: 3, Change: s.Changes, At: now}, knowledge.StageSync: knowledge.Synced{Change: s.Changes, At: now},
					knowledge.StageRemove: knowledge.DocumentRemoved{At: now}}[c.Stage]})
				continue
			}
			switch r.Intn(12) {
			default:
				for _, e := range knowledge.Due(s, m) {
					switch e := e.(type) {
					case knowledge.Do:
						send(knowledge.Claim{Moment: m, Stage: e.Stage, Attempt: e.Attempt, Deadline: now.Add(time.Minute)})
					case knowledge.Recover:
						send(knowledge.RecordLost{Moment: m, Claim: e.Claim})
					}
				}
			case 6:
				now = now.Add(time.Minute)
			case 7:
				send(knowledge.Cancel{Now: now})
			case 8:
				send(knowledge.Replace{ContentReplaced: knowledge.ContentReplaced{Content: blob(byte(r.Intn(3)), 1), Draft: r.Intn(3) == 0, Recipe: recipe, At: now}})
			case 9:
				send(knowledge.Reparse{ReparseRequested: knowledge.ReparseRequested{Recipe: recipe, Force: r.Intn(2) == 0, At: now}})
			case 10:
				send(knowledge.Change{DocumentChanged: knowledge.DocumentChanged{Title: fmt.Sprint(r.Intn(3)), At: now}})
			case 11:
				if r.Intn(6) == 0 {
					send(knowledge.Delete{DocumentDeleted: knowledge.DocumentDeleted{At: now}})
				}
			}
		}
		states[id] = s
	}
	d := &memory.Documents{}
	b.base("b1", knowledge.BaseCreated{Base: "b1", Name: "B", At: t0})
	b.project(d, projections.Library, projections.Bases)
	kinds := map[string]int{}
	for id, s := range states {
		docs, err := d.Get(t.Context(), projections.Key{Collection: projections.Library.ID(), Tenant: "acme", ID: id})
		if err != nil || (len(docs) == 1) != s.Live() {
			t.Fatal(id, len(docs), err)
		}
		owing, err := d.Get(t.Context(), projections.Key{Collection: projections.Library.ID() + "." + projections.OwingCollection, Tenant: "acme", ID: id})
		if err != nil || s.Claim == nil && (len(owing) == 1) != s.Open() {
			t.Fatalf("%s: owed %d, %+v", id, len(owing), s)
		}
		kinds[s.Status()]++
		if !s.Live() {
			continue
		}
		var e projections.DocumentEntry
		if err := json.Unmarshal(docs[0].Body, &e); err != nil {
			t.Fatal(err)
		}
		if e.Status() != s.Status() || e.Chunks != s.Chunks || e.Indexed != s.Indexed || e.Title != s.Title || docs[0].Index["status"] != s.Status() {
			t.Fatalf("%s: %s, want %s\n%+v\n%+v", id, e.Status(), s.Status(), e, s)
		}
		if s.Status() == knowledge.StatusCompleted && e.Progress(e.Origin) != 100 {
			t.Fatal(e.Progress(e.Origin))
		}
	}
	if len(kinds) < 7 {
		t.Fatal(kinds)
	}
}
