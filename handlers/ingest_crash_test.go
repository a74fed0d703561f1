package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"refold/commands"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/handlers"
	"refold/tests/scenario"
)

// stocked is a set of documents that nobody has worked on.
func stocked(t *testing.T) (*ingesting, []string) {
	l := newIngesting(t)
	ids := []string{
		l.file("a.md", "# Bears\n\nBears hibernate in winter.\n\n# Whales\n\nWhales sing."),
		l.file("b.csv", "city,n\n北京,1\n"),
		l.add(commands.AddDocument{Origin: knowledge.OriginURL, URL: "https://example.test/x"}),
		l.add(commands.AddDocument{Origin: knowledge.OriginManual, Title: "Note", Content: l.put("Owls wait.")}),
		l.entry("Why?", "Because.").Document,
		l.file("gone.md", "Dodos are gone."),
	}
	title := "Beasts"
	if _, err := l.ChangeDocument(t.Context(), l.caller(), ids[0], commands.DocumentChange{Title: &title}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.DeleteDocument(t.Context(), l.caller(), ids[5]); err != nil {
		t.Fatal(err)
	}
	return l, ids
}

// open lists the documents that are not settled.
func (l *ingesting) open(ids []string) (out []string) {
	for _, id := range ids {
		if l.doc(id).Open() {
			out = append(out, id)
		}
	}
	return out
}

// life runs a process until it dies with its kth append, or nothing is owed.
func (l *ingesting) life(self string, k int, silent bool, over func() bool) (died bool) {
	l.t.Helper()
	m := &mortal{Store: l.store, silent: silent, left: k, died: make(chan struct{})}
	p := l.start(self, func(g *handlers.Ingest) {
		g.Store, g.Commands = m, l.commands(m, self+"-")
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			head, err := l.store.Head(ctx)
			if err != nil || over() || l.store.Wait(ctx, head) != nil {
				return
			}
		}
	}()
	select {
	case <-m.died:
	case <-done:
	}
	l.stop(p)
	if !m.dead() && !over() {
		l.t.Fatalf("it does not end\n%s", p.log)
	}
	return m.dead()
}

// essenceOf is the record of a document without what a crash may change.
func essenceOf(facts []knowledge.Event) []string {
	var out []string
	for _, e := range facts {
		switch v := e.(type) {
		case knowledge.StageStarted, knowledge.StageFailed:
			continue
		case knowledge.Embedded: // what a lost attempt has made is kept
			v.Kept, v.Vectors = 0, v.Vectors+v.Kept
			e = v
		}
		b, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		out = append(out, fmt.Sprintf("%T %s", e, b))
	}
	return out
}

func TestIngestCrash_AfterEveryAppend(t *testing.T) {
	unbroken, ids := stocked(t)
	unbroken.life("w1", 1<<30, false, func() bool { return len(unbroken.open(ids)) == 0 })
	var want []string
	for _, id := range ids {
		want = append(want, essenceOf(unbroken.facts(id))...)
		want = append(want, scenario.Text(unbroken.indexed(id)))
	}
	if len(want) < 30 {
		t.Fatalf("the reference has %d lines", len(want))
	}
	lost := 0
	for _, silent := range []bool{false, true} {
		for k := 1; ; k++ {
			died := false
			t.Run(fmt.Sprintf("silent=%v/k=%d", silent, k), func(t *testing.T) {
				l, ids := stocked(t)
				deaths := 0
				for life := 1; ; life++ {
					// The first two lives die at the kth append, then one is spared.
					at := map[bool]int{true: k, false: 1 << 30}[life <= 2]
					dead := l.life(fmt.Sprint("w", life), at, silent, func() bool { return len(l.open(ids)) == 0 })
					if died = died || dead; dead {
						deaths++
					}
					if len(l.open(ids)) == 0 {
						break
					}
					if !dead {
						t.Fatal("neither dead nor over")
					}
				}
				var got []string
				for _, id := range ids {
					facts := l.facts(id)
					got = append(got, essenceOf(facts)...)
					got = append(got, scenario.Text(l.indexed(id)))
					for _, e := range scenario.All[knowledge.StageFailed](facts) {
						if e.Code == knowledge.CodeLost {
							lost++
						}
					}
				}
				if d := scenario.Diff(want, got); d != "" {
					t.Fatalf("the record differs from that of an unbroken process (- wanted, + got):\n%s", d)
				}
				// A crash loses a batch at most: what was embedded before is kept.
				for text, n := range l.embedded {
					if n > 1+deaths {
						t.Fatalf("%q was embedded %d times", text, n)
					}
				}
			})
			if !died || t.Failed() {
				break
			}
		}
	}
	if lost == 0 {
		t.Fatal("no process died in the middle of a stage")
	}
}

func (l *ingesting) rows(rows ...knowledge.ImportRow) knowledge.Blob {
	l.t.Helper()
	b, err := json.Marshal(rows)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.put(string(b))
}

func (l *ingesting) report(im knowledge.Import) (out []string) {
	l.t.Helper()
	f, _, err := l.blobs.Open(context.Background(), tenant, im.Completed.Report.Digest)
	if err != nil {
		l.t.Fatal(err)
	}
	var notes []knowledge.ImportNote
	if err := json.NewDecoder(f).Decode(&notes); err != nil {
		l.t.Fatal(err)
	}
	for _, n := range notes {
		out = append(out, fmt.Sprintf("%d %s %s", n.Row, n.Outcome, n.Question))
	}
	return out
}

func (l *ingesting) imported(id string) knowledge.Import {
	im, err := l.Import(context.Background(), tenant, id)
	if err != nil {
		l.t.Fatal(err)
	}
	return im
}

func (l *ingesting) questions() (out []string) {
	l.t.Helper()
	if err := l.Entries(context.Background(), tenant, l.faq, "", func(e handlers.HeldEntry) error {
		s := l.doc(knowledge.EntryID(l.faq, e.Number))
		out = append(out, fmt.Sprintf("%s %d %v %v", e.Question, len(s.Tags), s.FAQ.Answers, s.Disabled))
		return nil
	}); err != nil {
		l.t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func (l *ingesting) bring(mode string, dry bool, rows ...knowledge.ImportRow) string {
	l.t.Helper()
	id, _, err := l.ImportEntries(l.t.Context(), l.caller(), commands.ImportEntries{Base: l.faq, Mode: mode, Rows: l.rows(rows...), Total: len(rows), Dry: dry})
	if err != nil {
		l.t.Fatal(err)
	}
	return id
}

func row(question, tag string, answers ...string) knowledge.ImportRow {
	return knowledge.ImportRow{Question: question, Tag: tag, Answers: answers}
}

func TestImport(t *testing.T) {
	l := newIngesting(t)
	old := l.entry("Old?", "o")
	l.start("w1")
	ended := func(id string) knowledge.Import {
		l.await("the import", func() bool { return l.imported(id).Over() })
		if im := l.imported(id); im.Completed == nil {
			t.Fatalf("%+v", im.Failed)
		}
		return l.imported(id)
	}
	off := row("Off?", "", "x")
	off.Disabled = true
	rows := []knowledge.ImportRow{row("New?", "T", "n"), row("", "", "x"), row("old", "t", "p"), row("Old?", "", "p"), off, row("new", "", "n")}
	dry := ended(l.bring(knowledge.ImportReplace, true, rows...))
	if dry.Tally != (knowledge.Tally{Done: 6, Added: 3, Merged: 2, Failed: 1, Deleted: 1}) || !slices.Equal(l.questions(), []string{"Old? 0 [o] false"}) {
		t.Fatalf("%+v %v", dry.Tally, l.questions())
	}
	im := ended(l.bring(knowledge.ImportAppend, false, rows...))
	if got, want := l.report(im), []string{"0 added New?", "1 failed ", "2 merged old", "3 skipped Old?", "4 added Off?", "5 skipped new"}; !slices.Equal(got, want) {
		t.Fatal(got)
	}
	if got, want := l.questions(), []string{"New? 1 [n] false", "Off? 0 [x] true", "Old? 1 [o p] false"}; !slices.Equal(got, want) {
		t.Fatal(got)
	}
	indexed := func(n int, words string) {
		t.Helper()
		l.await("the index", func() bool {
			for _, o := range l.owed() {
				if o.Stream.Category == knowledge.Category && l.doc(o.Stream.ID).Open() {
					return false
				}
			}
			return true
		})
		if got := l.search(words, l.faq); len(got) != n {
			t.Fatal(words, got)
		}
	}
	indexed(1, "new")
	indexed(1, "p")
	// What is replaced goes, but an entry that a row names stays, as the row says.
	named := row("Old one?", "", "q")
	named.Number = old.Number
	im = ended(l.bring(knowledge.ImportReplace, false, row("New?", "", "m"), named))
	if got, want := l.questions(), []string{"New? 0 [m] false", "Old one? 1 [q] false"}; !slices.Equal(got, want) || im.Tally.Deleted != 2 {
		t.Fatal(got, im.Tally)
	}
	if _, _, err := l.ImportEntries(t.Context(), l.caller(), commands.ImportEntries{Base: l.base, Mode: "append", Rows: l.put("[]"), Total: 1}); err == nil {
		t.Fatal("a base of documents takes entries")
	}
}

func TestImportCrash_AfterEveryAppend(t *testing.T) {
	var rows []knowledge.ImportRow
	for n := range 4 {
		rows = append(rows, row(fmt.Sprintf("Question %d?", n), "T", "a"))
	}
	rows = append(rows, row("question 1", "", "b"), row("Named?", "", "c"))
	begin := func(t *testing.T) (*ingesting, string) {
		l := newIngesting(t)
		l.entry("Old?", "o")
		rows[5].Number = l.entry("Name me?", "o").Number
		return l, l.bring(knowledge.ImportReplace, false, rows...)
	}
	want := []string{"Named? 0 [c] false", "Question 0? 1 [a] false", "Question 1? 1 [a b] false", "Question 2? 1 [a] false", "Question 3? 1 [a] false"}
	for _, silent := range []bool{false, true} {
		for k := 1; ; k++ {
			died := false
			t.Run(fmt.Sprintf("silent=%v/k=%d", silent, k), func(t *testing.T) {
				l, id := begin(t)
				for life := 1; !l.imported(id).Over(); life++ {
					at := map[bool]int{true: k, false: 1 << 30}[life <= 2]
					died = l.life(fmt.Sprint("w", life), at, silent, func() bool { return l.imported(id).Over() }) || died
				}
				im := l.imported(id)
				if im.Completed == nil || im.Tally.Done != 6 || im.Tally.Failed != 0 || im.Tally.Deleted != 1 {
					t.Fatalf("%+v %+v", im.Tally, im.Failed)
				}
				if got := l.questions(); !slices.Equal(got, want) {
					t.Fatalf("%s", strings.Join(got, "\n"))
				}
				if b, err := l.Base(t.Context(), tenant, l.faq); err != nil || len(b.Tags) != 1 {
					t.Fatal(b.Tags, err)
				}
			})
			if !died || t.Failed() {
				break
			}
		}
	}
}

// shaky is a store whose every nth append is written, and yet fails for whoever
// asked.
type shaky struct {
	event.Store
	mu   sync.Mutex
	n    int
	left int
}

func (s *shaky) Append(ctx context.Context, stream event.Stream, e event.Expect, events ...event.New) (event.Appended, error) {
	a, err := s.Store.Append(ctx, stream, e, events...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; err == nil && s.left <= 0 {
		s.left = s.n
		return event.Appended{}, fmt.Errorf("%w: it hung up", event.ErrUnavailable)
	}
	return a, err
}

func TestIngest_ShakyStore(t *testing.T) {
	for n := 1; n <= 4; n++ {
		l, ids := stocked(t)
		s := &shaky{Store: l.store, n: n + 1, left: n}
		l.start("w1", func(g *handlers.Ingest) { g.Store, g.Commands = s, l.commands(s, "w1-") })
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.await("all", func() bool { return len(l.open(ids)) == 0 })
		}()
		l.pump(done)
		for _, id := range ids {
			if ends := len(scenario.All[knowledge.Indexed](l.facts(id))); l.doc(id).Live() && (ends != 1 || len(l.indexed(id)) == 0) {
				t.Fatalf("n=%d: indexed %d times\n%s", n, ends, scenario.Text(l.facts(id)))
			}
		}
	}
}
