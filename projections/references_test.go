package projections_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/run"
	"refold/domain/session"
	"refold/infra/memory"
	"refold/projections"
)

func attached(id, digest string) session.AttachmentAdded {
	return session.AttachmentAdded{Media: domain.Media{ID: id, Name: id, Digest: digest}, Status: session.AttachmentReady, At: at(3)}
}

func media(digests ...string) (out []domain.Media) {
	for _, d := range digests {
		out = append(out, domain.Media{Digest: d})
	}
	return out
}

// inUse gives those of the digests that are in use, by all that the book holds.
func (b *book) inUse(d projections.Documents, tenant string, digests ...string) string {
	b.t.Helper()
	b.project(d, projections.References)
	var out []string
	for _, digest := range digests {
		yes, err := projections.InUse(context.Background(), d, projections.References, tenant, digest)
		if err != nil {
			b.t.Fatal(err)
		}
		if yes {
			out = append(out, digest)
		}
	}
	return strings.Join(out, " ")
}

func TestReferences(t *testing.T) {
	b, d := newBook(t), &memory.Documents{}
	all := []string{"image", "file", "queued", "result", "late", "a1", "a2"}
	want := func(when, want string) {
		t.Helper()
		if got := b.inUse(d, "acme", all...); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	asked := posted
	asked.Images, asked.Files = media("image"), media("file", "a1")
	waiting := posted
	waiting.Message, waiting.Run, waiting.Files = "m2", "r2", media("queued")
	b.session("s1", created, attached("x", "a1"), attached("y", "a2"), attached("z", "a2"), session.AttachmentAdded{Status: session.AttachmentFailed},
		asked, session.MessageQueued{MessagePosted: waiting})
	start := began()
	start.Files = media("file", "a1")
	b.run("r1", start, run.ToolCompleted{Call: "c1", Success: true, Result: "result"}, run.ToolCompleted{Call: "c2", Result: "late", Late: true})
	want("in use", "image file queued result a1 a2")
	b.session("s1", session.AttachmentRemoved{Attachment: "x"}, session.AttachmentRemoved{Attachment: "y"})
	want("a message has a1, another attachment is a2", "image file queued result a1 a2")
	b.session("s1", session.MessageDeleted{Message: "m1", Run: "r1"}, session.RunDiscarded{Run: "r1"}, session.QueuedMessageWithdrawn{Message: "m2"})
	want("hidden only", "image file queued result a1 a2")
	b.session("s1", session.MessagesCleared{})
	want("emptied", "a2")
	b.session("s1", asked)
	want("asked again", "image file a1 a2")
	b.session("s1", session.AttachmentRemoved{Attachment: "z"}, session.AttachmentRemoved{Attachment: "z"}, session.AttachmentRemoved{Attachment: "none"})
	want("taken off the list", "image file a1")
	b.session("s2", session.SessionCreated{Session: "s2"}, attached("w", "image"))
	b.session("s1", session.SessionDeleted{})
	want("another session has it", "image")
	if got := b.inUse(d, "other", all...); got != "" {
		t.Errorf("another tenant has %q", got)
	}
	b.session("s2", session.SessionDeleted{})
	want("all gone", "")
	if left := documents(t, d, projections.References); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
	for _, c := range []string{".held", ".attached"} {
		page, err := d.Find(t.Context(), projections.Query{Collection: projections.References.ID() + c, Tenant: "acme"})
		if err != nil || len(page.Documents) > 0 {
			t.Errorf("left in %s: %v, %v", c, page.Documents, err)
		}
	}
}

// An import holds what it works with until it is over, its report as long as the
// base is there, also if it ends after that.
func TestReferences_OfImports(t *testing.T) {
	b, d := newBook(t), &memory.Documents{}
	blob := func(name string) knowledge.Blob { return knowledge.Blob{Digest: name, Size: 1} }
	imports := func(id string, facts ...knowledge.ImportEvent) {
		write(b, knowledge.ImportCodec, knowledge.ImportCategory, "acme", id, facts...)
	}
	all := []string{"rows", "notes", "before", "report", "rows2", "rows3", "report3"}
	want := func(when, want string) {
		t.Helper()
		if got := b.inUse(d, "acme", all...); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	imports("i1", knowledge.ImportRequested{Import: "i1", Base: "s1", Rows: blob("rows")}, knowledge.ImportStarted{}, knowledge.ImportProgressed{Notes: blob("notes"), Before: blob("before")})
	imports("i2", knowledge.ImportRequested{Import: "i2", Base: "s1", Rows: blob("rows2")})
	imports("i3", knowledge.ImportRequested{Import: "i3", Base: "s1", Rows: blob("rows3")})
	want("at work", "rows notes before rows2 rows3")
	imports("i1", knowledge.ImportCompleted{Report: blob("report")})
	imports("i2", knowledge.ImportFailed{})
	want("over", "report rows3")
	b.base("s1", knowledge.BaseDeleted{}) // as facts of the book are about s1
	want("the base is gone", "")
	imports("i3", knowledge.ImportCompleted{Report: blob("report3")})
	want("and the last one ends", "")
}

// A transfer holds its list until it is over.
func TestReferences_OfTransfers(t *testing.T) {
	b, d := newBook(t), &memory.Documents{}
	write[knowledge.TransferEvent](b, knowledge.TransferCodec, knowledge.TransferCategory, "acme", "t1", knowledge.TransferRequested{Transfer: "t1", Documents: knowledge.Blob{Digest: "list"}}, knowledge.TransferProgressed{Done: 1})
	if got := b.inUse(d, "acme", "list"); got != "list" {
		t.Errorf("in use: %q", got)
	}
	write[knowledge.TransferEvent](b, knowledge.TransferCodec, knowledge.TransferCategory, "acme", "t1", knowledge.TransferEnded{Done: 1})
	if got := b.inUse(d, "acme", "list"); got != "" {
		t.Errorf("in use: %q", got)
	}
}

// What this build does not understand keeps what it names.
func TestReferences_OfUnknownKinds(t *testing.T) {
	b, d := newBook(t), &memory.Documents{}
	digest := "sha256:" + strings.Repeat("0f", 32)
	late := event.New{ID: "x", Type: "PictureHung", Schema: 1, Data: fmt.Appendf(nil, `{"wall":{"picture":%q}}`, digest)}
	if _, err := b.store.Append(t.Context(), event.Stream{Tenant: "acme", Category: "gallery", ID: "g"}, event.NoStream(), late); err != nil {
		t.Fatal(err)
	}
	orphan := began()
	orphan.Files = media("orphan")
	log := event.Log[run.Event]{Store: b.store, Codec: run.Codec, Category: run.Category}
	if _, err := log.Append(t.Context(), "acme", "lost", event.NoStream(), event.Envelope{}, event.Fact[run.Event]{ID: "y", Event: orphan}); err != nil {
		t.Fatal(err)
	}
	if got := b.inUse(d, "acme", digest, "orphan"); got != digest+" orphan" {
		t.Errorf("in use: %q", got)
	}
}
