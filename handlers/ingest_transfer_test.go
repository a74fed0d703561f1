package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"refold/commands"
	"refold/domain/knowledge"
	"refold/domain/request"
	"refold/tests/scenario"
)

// depot is a base with documents of every origin, one of them edited by a person,
// and an empty one that fits.
type depot struct {
	*ingesting
	target string
	ids    []string // a file, an address, a typed text, a draft
}

func newDepot(t *testing.T) *depot {
	d := &depot{ingesting: newIngesting(t)}
	var err error
	if d.target, _, err = d.CreateBase(t.Context(), d.caller(), commands.NewBase{Name: "Archive"}); err != nil {
		t.Fatal(err)
	}
	tag, _, err := d.CreateTag(t.Context(), d.caller(), d.base, "Law", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	d.ids = []string{
		d.add(commands.AddDocument{Origin: knowledge.OriginFile, FileName: "a.md", Folder: "old", Tags: []string{tag.ID}, Content: d.put("# Bears\n\nBears hibernate in winter.")}),
		d.add(commands.AddDocument{Origin: knowledge.OriginURL, URL: "https://example.test/x"}),
		d.add(commands.AddDocument{Origin: knowledge.OriginManual, Title: "Note", Content: d.put("Owls wait."), Disabled: true}),
		d.add(commands.AddDocument{Origin: knowledge.OriginManual, Title: "Draft", Content: d.put("Not yet."), Draft: true}),
	}
	d.entry("Why?", "Because.")
	custom := json.RawMessage(`{"a":1}`)
	if _, err := d.ChangeDocument(t.Context(), d.caller(), d.ids[0], commands.DocumentChange{Custom: &custom}); err != nil {
		t.Fatal(err)
	}
	p := d.start("w0")
	d.settled(d.ids...)
	edited := "Bears sleep."
	if _, _, err := d.EditChunk(t.Context(), d.caller(), d.indexed(d.ids[0])[0].Chunk, commands.ChunkEdit{Content: &edited}); err != nil {
		t.Fatal(err)
	}
	d.settled(d.ids...)
	d.stop(p)
	return d
}

// ask asks for a transfer.
func (d *depot) ask(t *testing.T, q knowledge.TransferRequested, ids ...string) {
	t.Helper()
	raw, err := json.Marshal(ids)
	if err != nil {
		t.Fatal(err)
	}
	q.Documents, q.Total = d.put(string(raw)), len(ids)
	if _, _, err := d.RequestTransfer(t.Context(), d.caller(), q); err != nil {
		t.Fatal(err)
	}
}

func (d *depot) transfer(id string) knowledge.Transfer {
	x, err := d.Transfer(context.Background(), tenant, id)
	if err != nil {
		d.t.Error(err)
	}
	return x
}

// ticking moves the time on whenever somebody waits for it.
func (d *depot) ticking(t *testing.T) {
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	go func() {
		for {
			d.clock.mu.Lock()
			added := d.clock.added
			d.clock.mu.Unlock()
			d.clock.advance(time.Second)
			select {
			case <-added:
			case <-ended:
				return
			}
		}
	}()
}

// copies are the ids that the copies have.
func (d *depot) copies(transfer string) []string {
	typed := func(id string) string { return request.DerivedID("transfer:"+transfer+":"+id, "document") }
	return []string{knowledge.FileID(d.target, d.doc(d.ids[0]).Content.Digest, "a.md", 0), knowledge.URLID(d.target, "https://example.test/x", 0), typed(d.ids[2]), typed(d.ids[3])}
}

func (d *depot) over(transfer string) func() bool {
	return func() bool {
		return d.transfer(transfer).Ended != nil && len(d.open(append(d.copies(transfer), d.ids...))) == 0
	}
}

// A move keeps all that people have said about a document, makes no vector again,
// and asks no address again.
func TestTransfer_Move(t *testing.T) {
	d := newDepot(t)
	d.ticking(t)
	d.fetch = func(string) (string, error) { t.Error("an address was asked again"); return "", nil }
	embedded := map[string]int{}
	for text, n := range d.embedded {
		embedded[text] = n
	}
	d.ask(t, knowledge.TransferRequested{Transfer: "m1", Source: d.base, Target: d.target, Mode: knowledge.TransferKeep, Move: true}, append([]string{"nothing"}, d.ids...)...)
	d.start("w1")
	d.await("the end", d.over("m1"))
	if x := d.transfer("m1"); x.Ended.Code != "" || x.Done != 5 || x.Failed != 1 || x.Problem == "" {
		t.Fatalf("%+v", x.Ended)
	}
	for i, id := range d.copies("m1") {
		s, old := d.doc(id), d.doc(d.ids[i])
		if !old.Deleted || !s.Live() || s.Base() != d.target || s.Title != old.Title || s.Folder != old.Folder || s.Disabled != old.Disabled || s.Draft != old.Draft ||
			string(s.Custom) != string(old.Custom) || s.FileName != old.FileName || s.Content != old.Content || len(s.Tags) != len(old.Tags) {
			t.Errorf("%d became %+v", i, s)
		}
	}
	found := d.indexed(d.copies("m1")[0])
	if len(found) != 1 || found[0].Content != "Bears sleep." || found[0].Edition != 1 || len(d.indexed(d.ids[0])) != 0 {
		t.Errorf("%+v", found)
	}
	b, _, err := d.LookBase(t.Context(), tenant, d.target)
	if _, tagged := b.TagNamed("Law"); err != nil || !tagged {
		t.Errorf("tags %+v, %v", b.Tags, err)
	}
	for text, n := range d.embedded {
		if embedded[text] != n {
			t.Errorf("%q was embedded %d times", text, n)
		}
	}
}

// A copy leaves the original, what the target has is not there twice, and a target
// that goes ends it.
func TestTransfer_Copy(t *testing.T) {
	d := newDepot(t)
	d.ticking(t)
	d.start("w1")
	for n, id := range []string{"c1", "c2"} {
		d.ask(t, knowledge.TransferRequested{Transfer: id, Source: d.base, Target: d.target, Mode: knowledge.TransferReparse}, d.ids[:2]...)
		d.await("the end", func() bool { return d.transfer(id).Ended != nil && len(d.open(d.copies(id)[:2])) == 0 })
		if x := d.transfer(id); x.Ended.Code != "" || x.Failed != 0 || x.Done != 2 {
			t.Fatalf("%d: %+v", n, x.Ended)
		}
	}
	if got := d.search("bears", d.target); len(got) != 2 {
		t.Errorf("found %v", got)
	}
	// It is cut anew, so what a person has edited is not in it.
	if got := d.indexed(d.copies("c1")[0]); len(got) != 1 || !strings.Contains(got[0].Content, "Bears hibernate") || got[0].Edition != 0 {
		t.Errorf("read again: %+v", got)
	}
	faq, _, err := d.CreateBase(t.Context(), d.caller(), commands.NewBase{Name: "More", Kind: knowledge.KindFAQ})
	if err != nil {
		t.Fatal(err)
	}
	entry := d.entry("How?", "So.")
	for _, id := range []string{"c3", "c4"} {
		d.ask(t, knowledge.TransferRequested{Transfer: id, Source: d.faq, Target: faq, Mode: knowledge.TransferKeep}, entry.Document)
		d.await("the end", func() bool { return d.transfer(id).Ended != nil })
	}
	n := 0
	if err := d.each(t.Context(), tenant, faq, func(s knowledge.State) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("%d entries, %v", n, err)
	}
	// One that the target answers already is not moved over it.
	d.ask(t, knowledge.TransferRequested{Transfer: "c5", Source: d.faq, Target: faq, Mode: knowledge.TransferKeep, Move: true}, entry.Document)
	d.await("the end", func() bool { return d.transfer("c5").Ended != nil })
	if x := d.transfer("c5"); x.Failed != 1 || !d.doc(entry.Document).Live() {
		t.Errorf("%+v", x.Ended)
	}
	if _, err := d.DeleteBase(t.Context(), d.caller(), faq); err != nil {
		t.Fatal(err)
	}
	d.ask(t, knowledge.TransferRequested{Transfer: "c6", Source: d.faq, Target: faq, Mode: knowledge.TransferKeep}, entry.Document)
	d.await("the end", func() bool { return d.transfer("c6").Ended != nil })
	if x := d.transfer("c6"); x.Ended.Code != "knowledge_base_not_found" {
		t.Errorf("%+v", x.Ended)
	}
}

// However often processes die, each document is in one base in the end, whole.
func TestTransfer_CrashAfterEveryAppend(t *testing.T) {
	ask := func(d *depot) {
		d.ticking(d.t)
		d.ask(d.t, knowledge.TransferRequested{Transfer: "m1", Source: d.base, Target: d.target, Mode: knowledge.TransferKeep, Move: true}, d.ids...)
	}
	record := func(d *depot) (out []string) {
		for i, id := range d.copies("m1") {
			s, counts := d.doc(id), map[string]int{}
			for _, e := range d.facts(id) { // what people see of a document is said once
				switch e.(type) {
				case knowledge.DocumentAdded, knowledge.DocumentChanged, knowledge.ChunkEdited, knowledge.Indexed:
					counts[fmt.Sprintf("%T", e)]++
				}
			}
			out = append(out, fmt.Sprintf("%q in %s, custom %s, disabled %v, draft %v, tags %v, content %v: %v", s.Title, s.Folder, s.Custom, s.Disabled, s.Draft, s.Tags, s.Content, counts),
				scenario.Text(d.indexed(id)), fmt.Sprint("original deleted: ", d.doc(d.ids[i]).Deleted))
		}
		return out
	}
	unbroken := newDepot(t)
	ask(unbroken)
	unbroken.life("w1", 1<<30, false, unbroken.over("m1"))
	want := record(unbroken)
	for _, silent := range []bool{false, true} {
		for k := 1; ; k++ {
			died := false
			t.Run(fmt.Sprintf("silent=%v/k=%d", silent, k), func(t *testing.T) {
				d := newDepot(t)
				ask(d)
				for life := 1; ; life++ {
					at := map[bool]int{true: k, false: 1 << 30}[life <= 2]
					dead := d.life(fmt.Sprint("w", life), at, silent, d.over("m1"))
					died = died || dead
					if d.over("m1")() {
						break
					}
					if !dead {
						t.Fatal("neither dead nor over")
					}
				}
				if x := d.transfer("m1"); x.Ended.Code != "" || x.Failed != 0 || x.Done != len(d.ids) {
					t.Fatalf("%+v", x.Ended)
				}
				if diff := scenario.Diff(want, record(d)); diff != "" {
					t.Fatalf("the record differs from that of an unbroken process (- wanted, + got):\n%s", diff)
				}
			})
			if !died || t.Failed() {
				break
			}
		}
	}
}
