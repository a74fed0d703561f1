package knowledge_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"refold/domain/knowledge"
	"refold/tests/scenario"
)

var documents = scenario.Decider[knowledge.State, knowledge.Command, knowledge.Event]{Decide: knowledge.Decide, Evolve: knowledge.Evolve}

type story = scenario.Case[knowledge.State, knowledge.Command, knowledge.Event]

func given(t *testing.T, facts ...knowledge.Event) *story { return documents.Given(t, facts...) }

var recipe = knowledge.Recipe{Parser: "1", Chunker: "1", Chunking: knowledge.Chunking{Size: 512, Overlap: 80}, Vector: true, Vectors: "m"}

func file() knowledge.DocumentAdded {
	return knowledge.DocumentAdded{Document: "d1", Base: "b1", Origin: knowledge.OriginFile, Title: "A", FileName: "a.md", FileType: "md",
		Content: knowledge.Blob{Digest: "sha256:aa", Size: 3}, Recipe: recipe, At: t0}
}

func page() knowledge.DocumentAdded {
	e := file()
	e.Origin, e.URL, e.Content, e.FileName, e.Title = knowledge.OriginURL, "https://example.test/", knowledge.Blob{}, "", ""
	return e
}

func typed(draft bool) knowledge.DocumentAdded {
	e := file()
	e.Origin, e.FileName, e.Draft = knowledge.OriginManual, "", draft
	return e
}

func entry() knowledge.DocumentAdded {
	e := file()
	f := knowledge.FAQ{ID: 7, Question: "Why?", Answers: []string{"Because."}, Strategy: "all"}
	e.Origin, e.FileName, e.FAQ, e.Title = knowledge.OriginFAQ, "", &f, "Why?"
	e.Content = knowledge.Blob{Digest: knowledge.Digest("Why?\nBecause."), Size: 13}
	return e
}

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

func moment(seconds int) knowledge.Moment { return knowledge.Moment{Now: at(seconds), Self: "w1"} }

func claim(stage string, attempt, seconds int) knowledge.Claim {
	return knowledge.Claim{Moment: moment(seconds), Stage: stage, Attempt: attempt, Deadline: at(seconds + 60)}
}

// result is what a stage gives.
func result(s knowledge.State, stage string) knowledge.Event {
	r := s.Revision
	switch stage {
	case knowledge.StageFetch:
		return knowledge.Fetched{Revision: r, Content: knowledge.Blob{Digest: "sha256:bb", Size: 9}, FileName: "x.html", FileType: "html", Title: "X", At: t0}
	case knowledge.StageParse:
		return knowledge.Parsed{Revision: r, Text: knowledge.Blob{Digest: "sha256:cc", Size: 9}, Runes: 9, At: t0}
	case knowledge.StageChunk:
		return knowledge.Chunked{Revision: r, Slices: knowledge.Blob{Digest: "sha256:dd", Size: 9}, Chunks: 2, Searched: 2, At: t0}
	case knowledge.StageEmbed:
		return knowledge.Embedded{Revision: r, Model: "m", Vectors: 2, At: t0}
	case knowledge.StageIndex:
		return knowledge.Indexed{Revision: r, Chunks: 2, Change: s.Changes, At: t0}
	case knowledge.StageSync:
		return knowledge.Synced{Change: s.Changes, At: t0}
	}
	return knowledge.DocumentRemoved{At: t0}
}

// stages does these stages one after another.
func stages(t *testing.T, c *story, names ...string) *story {
	t.Helper()
	for _, name := range names {
		due(t, c, 0, knowledge.Do{Stage: name, Attempt: 1})
		c.When(claim(name, 1, 0)).Kinds("StageStarted")
		due(t, c, 0)
		c.When(knowledge.Record{Claim: c.State().Claims, Event: result(c.State(), name), Now: t0})
		if c.Err() != nil {
			t.Fatal(name, c.Err())
		}
	}
	return c
}

func due(t *testing.T, c *story, seconds int, want ...knowledge.Effect) {
	t.Helper()
	got := knowledge.Due(c.State(), moment(seconds))
	if len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
		t.Fatalf("due is %+v, want %+v", got, want)
	}
}

func TestStages_ByOrigin(t *testing.T) {
	for _, c := range []struct {
		added  knowledge.DocumentAdded
		stages string
	}{
		{file(), "parse chunk embed index"},
		{page(), "fetch parse chunk embed index"},
		{typed(false), "chunk embed index"},
		{typed(true), ""},
		{entry(), "embed index"},
	} {
		story := given(t).When(knowledge.Add{DocumentAdded: c.added}).Then(c.added)
		want := knowledge.StatusPending
		if c.added.Draft {
			want = knowledge.StatusDraft
		}
		if s := story.State(); s.Status() != want || s.Progress() != 0 {
			t.Fatal(c.added.Origin, s.Status(), s.Progress())
		}
		stages(t, story, strings.Fields(c.stages)...)
		due(t, story, 0)
		if s := story.State(); !c.added.Draft && (s.Status() != knowledge.StatusCompleted || s.Progress() != 100 || s.Open() || s.Indexed != 1) {
			t.Fatal(c.added.Origin, s.Status(), s.Progress())
		}
	}
	if s := stages(t, given(t, page()), "fetch").State(); s.Title != "X" || s.FileType != "html" || s.Status() != knowledge.StatusProcessing {
		t.Fatalf("%+v", s)
	}
}

func TestAdd_Refuses(t *testing.T) {
	for name, change := range map[string]func(*knowledge.DocumentAdded){
		"no content": func(e *knowledge.DocumentAdded) { e.Content = knowledge.Blob{} },
		"no name":    func(e *knowledge.DocumentAdded) { e.FileName = " " },
		"title":      func(e *knowledge.DocumentAdded) { e.Title = strings.Repeat("长", 501) },
		"climbing":   func(e *knowledge.DocumentAdded) { e.Folder = "a/../b" },
		"deep":       func(e *knowledge.DocumentAdded) { e.Folder = strings.Repeat("a/", 16) + "a" },
		"metadata":   func(e *knowledge.DocumentAdded) { e.Metadata = json.RawMessage(`[1]`) },
		"tags":       func(e *knowledge.DocumentAdded) { e.Tags = make([]string, 51) },
		"origin":     func(e *knowledge.DocumentAdded) { e.Origin = "ftp" },
		"url":        func(e *knowledge.DocumentAdded) { e.Origin, e.URL = knowledge.OriginURL, "file:///etc/passwd" },
		"entry":      func(e *knowledge.DocumentAdded) { e.Origin = knowledge.OriginFAQ },
		"big": func(e *knowledge.DocumentAdded) {
			e.Origin, e.Content.Size = knowledge.OriginManual, knowledge.MaxManualBytes+1
		},
	} {
		e := file()
		change(&e)
		if got, err := knowledge.Decide(knowledge.State{}, knowledge.Add{DocumentAdded: e}); err == nil {
			t.Errorf("%s: taken as %+v", name, got)
		}
	}
	given(t, file()).When(knowledge.Add{DocumentAdded: file()}).Refused(knowledge.ErrDocumentExists)
}

func TestClaims_AreGrantedOnlyIfDue(t *testing.T) {
	c := given(t, file())
	for _, bad := range []knowledge.Claim{claim("chunk", 1, 0), claim("parse", 2, 0), claim("sync", 1, 0), claim("remove", 1, 0), {}} {
		c.When(bad).Refused(knowledge.ErrNotDue)
	}
	late := claim("parse", 1, 0)
	late.Deadline = t0
	if c.When(late).Err() == nil {
		t.Fatal("a claim without time was granted")
	}
	c.When(claim("parse", 1, 0)).Then(knowledge.StageStarted{Number: 1, Revision: 1, Stage: "parse", Attempt: 1, Owner: "w1", Deadline: at(60), At: t0})
	c.When(claim("parse", 1, 0)).Refused(knowledge.ErrNotDue)
	if next := knowledge.NextWake(c.State(), t0); next != at(60) {
		t.Fatal(next)
	}
}

// A claim is void when its owner is gone, or at its deadline.
func TestClaims_OfOwnersThatAreGone(t *testing.T) {
	for name, m := range map[string]knowledge.Moment{
		"alone":    {Now: t0, Self: "w2", Sole: true},
		"gone":     {Now: t0, Self: "w2", Gone: []string{"w0", "w1"}},
		"deadline": {Now: at(60), Self: "w2"},
	} {
		c := given(t, file()).When(claim("parse", 1, 0))
		c.When(knowledge.RecordLost{Moment: knowledge.Moment{Now: t0, Self: "w2"}, Claim: 1}).Then()
		if got := knowledge.Due(c.State(), m); len(got) != 1 || got[0] != (knowledge.Recover{Claim: 1}) {
			t.Fatalf("%s: %+v", name, got)
		}
		c.When(knowledge.RecordLost{Moment: m, Claim: 1}).Then(knowledge.StageFailed{Revision: 1, Stage: "parse", Attempt: 1, Code: "lost",
			Message: "the process that worked on it is gone", Transient: true, RetryAt: m.Now, At: m.Now})
		c.When(knowledge.RecordLost{Moment: m, Claim: 1}).Then()
		// What the lost one reports after all is not news.
		c.When(knowledge.Record{Claim: 1, Event: result(c.State(), "parse"), Now: t0}).Then()
		due(t, c, 60, knowledge.Do{Stage: "parse", Attempt: 2})
	}
}

// What kills every process ends; a process that hands work back has no part in it.
func TestLost_NotForEver(t *testing.T) {
	c := given(t, file())
	now := 0
	for n := 1; c.State().Failed == nil; n++ {
		if n > 2*knowledge.MaxLost {
			t.Fatal("for ever")
		}
		if next := knowledge.NextWake(c.State(), at(now)); !next.IsZero() {
			now = int(next.Sub(t0).Seconds())
		}
		c.When(claim("parse", n, now))
		m := moment(now)
		if n%2 == 0 {
			m.Self, m.Gone = "w2", []string{"w1"}
		}
		c.When(knowledge.RecordLost{Moment: m, Claim: n}).Kinds("StageFailed")
	}
	if lost := len(scenario.All[knowledge.StageStarted](c.Facts())); lost != 2*knowledge.MaxLost {
		t.Fatal(lost)
	}
}

// What is quick is done and reported at once.
func TestRecord_SeveralStages(t *testing.T) {
	c := given(t, file()).When(claim("parse", 1, 0))
	s := c.State()
	for _, bad := range [][]knowledge.Event{{result(s, "embed")}, {result(s, "chunk"), result(s, "embed"), result(s, "index")}, {knowledge.Chunked{Revision: 2}}} {
		if c.When(knowledge.Record{Claim: 1, Event: result(s, "parse"), More: bad, Now: t0}).Err() == nil {
			t.Fatalf("%+v was taken", bad)
		}
	}
	c.When(knowledge.Record{Claim: 1, Event: result(s, "parse"), More: []knowledge.Event{result(s, "chunk"), result(s, "embed")}, Now: t0}).Kinds("Parsed", "Chunked", "Embedded")
	stages(t, c, "index")
	// Of an earlier revision nothing counts.
	d := given(t, typed(false)).When(claim("chunk", 1, 0), knowledge.Replace{ContentReplaced: knowledge.ContentReplaced{Content: knowledge.Blob{Digest: "sha256:ee", Size: 4}, Recipe: recipe}})
	d.When(knowledge.Record{Claim: 1, Event: knowledge.Chunked{Revision: 1}, More: []knowledge.Event{knowledge.Embedded{Revision: 1}}, Now: t0}).Kinds("StageFailed")
}

func TestFailures(t *testing.T) {
	fail := knowledge.RecordFailure{Claim: 1, Code: "overloaded", Message: "busy", Transient: true, Now: t0}
	c := given(t, file()).When(claim("parse", 1, 0), fail).Kinds("StageStarted", "StageFailed")
	c.When(fail).Then()
	due(t, c, 1)
	if next := knowledge.NextWake(c.State(), t0); next != at(2) {
		t.Fatal(next)
	}
	due(t, c, 2, knowledge.Do{Stage: "parse", Attempt: 2})
	fail.Claim, fail.RetryAfter = 2, 30*time.Second
	c.When(claim("parse", 2, 2), fail)
	due(t, c, 29)
	due(t, c, 30, knowledge.Do{Stage: "parse", Attempt: 3})
	due(t, c, -3600, knowledge.Do{Stage: "parse", Attempt: 3}) // the clock was set back
	// One that got on does not count.
	fail.Claim, fail.Moved, fail.RetryAfter = 3, true, 0
	c.When(claim("parse", 3, 30), fail)
	fail.Moved = false
	for n := 4; n <= 5; n++ {
		fail.Claim = n
		c.When(claim("parse", n, 3600), fail)
		if (c.State().Failed != nil) != (n == 5) {
			t.Fatalf("%d: %+v", n, c.State().Failed)
		}
		if c.State().Failed == nil {
			due(t, c, 7200, knowledge.Do{Stage: "parse", Attempt: n + 1})
		}
	}
	if s := c.State(); s.Status() != knowledge.StatusFailed || s.Open() {
		t.Fatal(s.Status())
	}
	due(t, c, 1e6)

	c = given(t, file()).When(claim("parse", 1, 0), knowledge.RecordFailure{Claim: 1, Code: "encrypted", Message: "needs a password", Now: t0})
	if s := c.State(); s.Failed == nil || s.Trouble.Code != "encrypted" {
		t.Fatalf("%+v", s)
	}
	// Reading it again is tried from where it failed.
	c.When(knowledge.Reparse{ReparseRequested: knowledge.ReparseRequested{Recipe: recipe, At: t0}}).Kinds("ReparseRequested")
	due(t, c, 0, knowledge.Do{Stage: "parse", Attempt: 1})
	if s := c.State(); s.Status() != knowledge.StatusPending || s.Revision != 2 {
		t.Fatal(s.Status())
	}
}

func TestCancel_IsAFence(t *testing.T) {
	c := stages(t, given(t, file()), "parse").When(claim("chunk", 1, 0), knowledge.Cancel{By: "u", Now: t0})
	c.When(knowledge.Cancel{Now: t0}).Refused(knowledge.ErrNotProcessing)
	due(t, c, 0)
	// The result is true, and nothing follows from it.
	c.When(knowledge.Record{Claim: 2, Event: result(c.State(), "chunk"), Now: t0}).Kinds("Chunked")
	due(t, c, 1e6)
	c.When(claim("embed", 1, 0)).Refused(knowledge.ErrNotDue)
	if s := c.State(); s.Status() != knowledge.StatusCancelled || s.Open() {
		t.Fatal(s.Status())
	}
	// A failure is not a second end.
	d := given(t, file()).When(claim("parse", 1, 0), knowledge.Cancel{Now: t0}, knowledge.RecordFailure{Claim: 1, Code: "damaged", Now: t0})
	if s := d.State(); s.Failed != nil || s.Claim != nil || s.Status() != knowledge.StatusCancelled {
		t.Fatalf("%+v", s)
	}
	c.When(knowledge.Reparse{ReparseRequested: knowledge.ReparseRequested{Recipe: recipe, At: t0}}).Kinds("ReparseRequested")
	stages(t, c, "embed", "index")
	c.When(knowledge.Cancel{Now: t0}).Refused(knowledge.ErrNotProcessing)
	given(t, file()).When(knowledge.Cancel{Now: t0}).Kinds("IngestionCancelled")
	late := stages(t, given(t, file()), "parse", "chunk", "embed").When(claim("index", 1, 0))
	late.When(knowledge.Cancel{Now: t0}).Refused(knowledge.ErrNotProcessing)
	if s := late.State(); s.Status() != knowledge.StatusFinalizing {
		t.Fatal(s.Status())
	}
}

func TestReparse_OfTheSameIsFree(t *testing.T) {
	indexed := func() *story { return stages(t, given(t, file()), "parse", "chunk", "embed", "index") }
	again := func(change func(*knowledge.ReparseRequested)) knowledge.Reparse {
		e := knowledge.ReparseRequested{Recipe: recipe, At: t0}
		if change != nil {
			change(&e)
		}
		return knowledge.Reparse{ReparseRequested: e}
	}
	indexed().When(again(nil)).Then()
	given(t, file()).When(again(nil)).Then()
	for _, c := range []struct {
		change func(*knowledge.ReparseRequested)
		stages string
	}{
		{func(e *knowledge.ReparseRequested) { e.Recipe.Parser = "2" }, "parse chunk embed index"},
		{func(e *knowledge.ReparseRequested) { e.Recipe.Chunking.Size = 200 }, "chunk embed index"},
		{func(e *knowledge.ReparseRequested) { e.Recipe.Vectors = "m2" }, "embed index"},
		{func(e *knowledge.ReparseRequested) { e.Recipe.Vector = false }, "embed index"},
		{func(e *knowledge.ReparseRequested) { e.Force = true }, "parse chunk embed index"},
	} {
		story := indexed().When(again(c.change)).Kinds("ReparseRequested")
		stages(t, story, strings.Fields(c.stages)...)
		if s := story.State(); s.Indexed != 2 || s.Open() {
			t.Fatalf("%+v", s)
		}
	}
	// An address is asked again; if it gives the same, only the index is told.
	web := stages(t, given(t, page()), "fetch", "parse", "chunk", "embed", "index").When(again(nil)).Kinds("ReparseRequested")
	stages(t, web, "fetch", "index")
	// Edits of people go, so it is not the same.
	edited := indexed().When(knowledge.EditChunk{ChunkEdited: knowledge.ChunkEdited{Index: 1, Chunk: knowledge.ChunkID("d1", 1, 1), Content: "new"}}).Kinds("ChunkEdited")
	edited.When(again(nil)).Kinds("ReparseRequested")
	due(t, edited, 0, knowledge.Do{Stage: "index", Attempt: 1})
}

func TestReplace(t *testing.T) {
	text := knowledge.ContentReplaced{Content: knowledge.Blob{Digest: "sha256:ee", Size: 4}, Recipe: recipe, At: t0}
	given(t, file()).When(knowledge.Replace{ContentReplaced: text}).Refused(knowledge.ErrNotManual)
	c := given(t, typed(false)).When(claim("chunk", 1, 0))
	c.When(knowledge.Replace{ContentReplaced: text}).Kinds("ContentReplaced")
	due(t, c, 0) // who works on it must let go first
	c.When(knowledge.Record{Claim: 1, Event: knowledge.Chunked{Revision: 1, At: t0}, Now: t0}).Kinds("StageFailed")
	if s := c.State(); s.Chunked != nil || s.Failed != nil || s.Trouble != nil {
		t.Fatalf("%+v", s)
	}
	stages(t, c, "chunk", "embed", "index")
	c.When(knowledge.Replace{ContentReplaced: text}).Then()
	// A late Put is true: the index holds it.
	late := stages(t, given(t, typed(false)), "chunk", "embed").When(claim("index", 1, 0), knowledge.Replace{ContentReplaced: text})
	late.When(knowledge.Record{Claim: 3, Event: knowledge.Indexed{Revision: 1, Chunks: 2, At: t0}, Now: t0}).Kinds("Indexed")
	stages(t, late, "chunk", "embed", "index")
	if s := late.State(); s.Indexed != 2 || s.Status() != knowledge.StatusCompleted {
		t.Fatalf("%+v", s)
	}
	// A draft is taken out of the index.
	text.Draft = true
	c.When(knowledge.Replace{ContentReplaced: text}).Kinds("ContentReplaced")
	stages(t, c, "remove")
	due(t, c, 0)
	text.Draft = false
	c.When(knowledge.Replace{ContentReplaced: text}).Kinds("ContentReplaced")
	stages(t, c, "index")
}

func TestEntry_Replace(t *testing.T) {
	c := stages(t, given(t, entry()), "embed", "index")
	f := *entry().FAQ
	f.ID, f.Recommended = 0, true
	c.When(knowledge.Replace{ContentReplaced: knowledge.ContentReplaced{FAQ: &f, Recipe: recipe}}).Kinds("ContentReplaced")
	stages(t, c, "index") // the text is the same
	f.Question = "Why not?"
	c.When(knowledge.Replace{ContentReplaced: knowledge.ContentReplaced{FAQ: &f, Recipe: recipe}}).Kinds("ContentReplaced")
	stages(t, c, "embed", "index")
	if s := c.State(); s.FAQ.ID != 7 || s.Title != "Why not?" {
		t.Fatalf("%+v", s.FAQ)
	}
	f.Answers = []string{" \n"}
	if c.When(knowledge.Replace{ContentReplaced: knowledge.ContentReplaced{FAQ: &f, Recipe: recipe}}).Err() == nil {
		t.Fatal("an entry without answers was taken")
	}
}

func TestChange_TellsTheIndex(t *testing.T) {
	change := func(title string, disabled bool) knowledge.Change {
		return knowledge.Change{DocumentChanged: knowledge.DocumentChanged{Title: title, Disabled: disabled, Folder: "a/ b /", At: t0}}
	}
	c := given(t, file()).When(change("B", false)).Then(knowledge.DocumentChanged{Title: "B", Folder: "a/b", At: t0})
	stages(t, c, "parse", "chunk", "embed", "index")
	due(t, c, 0) // what the index was told has the change
	c.When(change("B", false)).Then()
	c.When(change("B", true)).Kinds("DocumentChanged")
	c.When(knowledge.SetTags{DocumentTagged: knowledge.DocumentTagged{Tags: []string{"t"}}}).Kinds("DocumentTagged")
	c.When(claim("sync", 1, 0)).Kinds("StageStarted")
	c.When(change("C", true)).Kinds("DocumentChanged")
	c.When(knowledge.Record{Claim: 5, Event: knowledge.Synced{Change: 3, At: t0}, Now: t0}).Kinds("Synced")
	// It is never given up, and the document stays completed.
	for n := 1; n < 9; n++ {
		c.When(claim("sync", n, 1000*n), knowledge.RecordFailure{Claim: 5 + n, Code: "unavailable", Now: at(1000 * n)}).Kinds("StageStarted", "StageFailed")
		if s := c.State(); s.Status() != knowledge.StatusCompleted || !s.Open() {
			t.Fatalf("%+v", s)
		}
	}
	c.When(claim("sync", 9, 1e6), knowledge.Record{Claim: 14, Event: knowledge.Synced{Change: 4, At: t0}, Now: t0})
	due(t, c, 1e7)
}

func TestEditChunk(t *testing.T) {
	id := knowledge.ChunkID("d1", 1, 1)
	edit := func(content string, expect *int) knowledge.EditChunk {
		return knowledge.EditChunk{ChunkEdited: knowledge.ChunkEdited{Index: 1, Chunk: id, Content: content, By: "u", At: t0}, Expect: expect}
	}
	given(t, file()).When(edit("x", nil)).Refused(knowledge.ErrNotIndexed)
	c := stages(t, given(t, file()), "parse", "chunk", "embed", "index")
	zero, one := 0, 1
	c.When(edit("new", &one)).Refused(knowledge.ErrEdition)
	c.When(edit("new", &zero)).Then(knowledge.ChunkEdited{Revision: 1, Index: 1, Chunk: id, Edition: 1, Content: "new", By: "u", At: t0})
	c.When(edit("new", nil)).Then()
	if got := c.State().Unsynced(); len(got) != 1 {
		t.Fatal(got)
	}
	stages(t, c, "sync")
	if got := c.State().Unsynced(); len(got) != 0 {
		t.Fatal(got)
	}
	bad := edit("y", nil)
	bad.Index = 0
	c.When(bad).Refused(knowledge.ErrNoSuchChunk)
	c.When(edit(" ", nil))
	if c.Err() == nil {
		t.Fatal("an empty chunk was taken")
	}
	chunks := c.State().ChunksOf([]knowledge.Slice{{Kind: knowledge.Text, Parent: -1, Content: "a"}, {Kind: knowledge.Text, Parent: 0, Content: "b"}})
	if chunks[0].Content != "a" || chunks[1].Content != "new" || chunks[1].Edition != 1 || chunks[1].Parent != chunks[0].ID || chunks[1].ID != id || chunks[1].Digest != knowledge.Digest("new") {
		t.Fatalf("%+v", chunks)
	}
	gone := edit("", nil)
	gone.Deleted = true
	c.When(gone).Kinds("ChunkEdited")
	c.When(edit("back", nil)).Refused(knowledge.ErrNoSuchChunk)
	if err := given(t, entry()).When(edit("x", nil)).Err(); err == nil {
		t.Fatal("the chunk of an entry was edited")
	}
}

func TestDelete_IsAFence(t *testing.T) {
	gone := knowledge.Delete{DocumentDeleted: knowledge.DocumentDeleted{At: t0}}
	c := given(t, file()).When(gone).Kinds("DocumentDeleted")
	due(t, c, 1e6)
	c = stages(t, given(t, file()), "parse", "chunk", "embed").When(claim("index", 1, 0), gone)
	due(t, c, 0)
	// Its process died after it had told the index, maybe.
	c.When(knowledge.RecordLost{Moment: knowledge.Moment{Now: t0, Self: "w2", Sole: true}, Claim: 4}).Kinds("StageFailed")
	stages(t, c, "remove")
	due(t, c, 1e6)
	for _, cmd := range []knowledge.Command{gone, knowledge.Change{}, knowledge.SetTags{}, knowledge.Reparse{}, knowledge.Replace{}, knowledge.Cancel{}, knowledge.EditChunk{}} {
		c.When(cmd).Refused(knowledge.ErrNoDocument)
	}
	c.When(claim("parse", 1, 0)).Refused(knowledge.ErrNotDue)
	// A result that comes late names no content; what the index was told stays true.
	late := given(t, file()).When(claim("parse", 1, 0), gone)
	late.When(knowledge.Record{Claim: 1, Event: knowledge.Parsed{Revision: 1, Text: knowledge.Blob{Digest: "sha256:late"}, At: t0}, Now: t0}).Kinds("StageFailed")
	late = stages(t, given(t, file()), "parse", "chunk", "embed").When(claim("index", 1, 0), gone)
	late.When(knowledge.Record{Claim: 4, Event: knowledge.Indexed{Revision: 1, Chunks: 1, At: t0}, Now: t0}).Kinds("Indexed")
}

func TestPlainURL(t *testing.T) {
	for in, want := range map[string]string{
		"HTTP://Example.TEST:80":            "http://example.test/",
		" https://example.test/A?b=c#frag ": "https://example.test/A?b=c",
		"https://example.test:8443/x":       "https://example.test:8443/x",
		"http://[2001:DB8::1]/":             "http://[2001:db8::1]/",
		"https://u:p@example.test/":         "",
		"ftp://example.test/":               "",
		"example.test":                      "",
		"http://":                           "",
		"http://a\x00b/":                    "",
		"mailto:a@example.test":             "",
	} {
		got, err := knowledge.PlainURL(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	if _, err := knowledge.PlainURL("http://a/" + strings.Repeat("x", 2048)); err == nil {
		t.Fatal("taken")
	}
}

func TestEntries_HaveLimits(t *testing.T) {
	ok := knowledge.FAQ{Question: " Why? ", Similar: []string{"why", "How?", "how? "}, Answers: []string{"a"}}
	if err := ok.Check(); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]knowledge.FAQ{
		"no question": {Answers: []string{"a"}},
		"no answer":   {Question: "q"},
		"long":        {Question: strings.Repeat("长", 1001), Answers: []string{"a"}},
		"answer":      {Question: "q", Answers: []string{strings.Repeat("长", 20_001)}},
		"strategy":    {Question: "q", Answers: []string{"a"}, Strategy: "none"},
		"number":      {ID: 1 << 53, Question: "q", Answers: []string{"a"}},
	} {
		if f.Check() == nil {
			t.Error(name)
		}
	}
	added := entry()
	ok.ID = 7
	added.FAQ = &ok
	s := given(t).When(knowledge.Add{DocumentAdded: added}).State()
	if s.Title != "Why?" || len(s.FAQ.Similar) != 1 || !slices.Equal(s.FAQ.Units(knowledge.Recipe{FAQ: knowledge.QuestionOnly}), []string{"Why?\nHow?"}) ||
		!slices.Equal(s.FAQ.Units(knowledge.Recipe{}), []string{"Why?\nHow?\na"}) || !slices.Equal(s.FAQ.Units(knowledge.Recipe{Separate: true}), []string{"Why?\na", "How?"}) ||
		!slices.Equal(s.FAQ.Asked(), []string{"why", "how"}) {
		t.Fatalf("%+v", s.FAQ)
	}
}

func TestIDs(t *testing.T) {
	seen := map[string]bool{}
	for _, id := range []string{knowledge.ChunkID("d", 1, 1), knowledge.ChunkID("d", 1, 2), knowledge.ChunkID("d", 2, 1), knowledge.ChunkID("d1", 1, 1),
		knowledge.FileID("b", "x", "n", 0), knowledge.FileID("b", "x", "n", 1), knowledge.FileID("b", "xn", "", 0), knowledge.URLID("b", "x", 0), knowledge.EntryID("b", 1)} {
		if len(id) != 36 || id[14] != '8' || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
}

func TestErrors_AreRejections(t *testing.T) {
	if !errors.Is(knowledge.ErrDuplicateFile.With(map[string]any{"knowledge_id": "x"}), knowledge.ErrDuplicateFile) {
		t.Fatal("lost its code")
	}
}
