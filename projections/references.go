package projections

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"refold/domain"
	"refold/domain/key"
	"refold/domain/knowledge"
	"refold/domain/request"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tenant"
)

// Reference says that a holder names content in the blob store: a session, by
// its messages, runs and attachments, or another stream.
type Reference struct {
	Digest string   `json:"digest"`
	Holder string   `json:"holder"`
	Used   bool     `json:"used,omitempty"`   // by a message or a run
	Listed []string `json:"listed,omitempty"` // attachments of the session that are it
}

// References are what content is in use for. A reference ends when its session is
// deleted, and that of messages and runs when the conversation is emptied; an
// attachment that no message has named ends with its removal. What a document of
// a knowledge base names ends when it is deleted; of an import of FAQ entries, all
// but its report ends with the import, and that with the base; of a transfer, its
// list with the transfer. Streams of
// categories that this build does not know by name hold all that looks like a
// digest in their facts, for ever: what is not understood is not thrown away.
// Index: digest.
var References = Projection{Name: "references", Version: 2, Fold: foldReferences, Exact: true}

// heldCollection lists the digests of each holder; attachedCollection has the
// digests of the attachments of each session, importsCollection the holders that
// are imports of each base.
const (
	heldCollection     = "held"
	attachedCollection = "attached"
	importsCollection  = "imports" // of each base: lists of holders
)

// attachments are the listed attachments of a session that have content.
type attachments struct {
	Digests map[string]string `json:"digests"` // by id
}

var digestPattern = regexp.MustCompile("sha256:[0-9a-f]{64}")

func foldReferences(v *View, f Fact) {
	in := f.Stream.Tenant
	switch f.Stream.Category {
	case session.Category:
		foldSessionReferences(v, in, f.Stream.ID, f.Event)
	case run.Category:
		holder := sessionOf(f)
		if holder == "" {
			holder = holderOf(f)
		}
		switch e := f.Event.(type) {
		case run.RunStarted:
			use(v, in, holder, e.Images, e.Files)
		case run.ToolCompleted:
			if !e.Late { // nobody reads a late result, and its session may be gone
				hold(v, in, holder, e.Result, func(r *Reference) { r.Used = true })
			}
		}
	case key.Category, tenant.Category, request.Category:
	case knowledge.BaseCategory:
		if _, deleted := f.Event.(knowledge.BaseDeleted); deleted {
			for _, holder := range takeItems(v, importsCollection, in, f.Stream.ID) {
				letGo(v, in, holder)
			}
			Put(v, importsCollection, in, goneID(f.Stream.ID), &struct{}{}, nil)
		}
	case knowledge.ImportCategory:
		foldImportReferences(v, f)
	case knowledge.TransferCategory:
		switch e := f.Event.(type) {
		case knowledge.TransferRequested:
			hold(v, in, holderOf(f), e.Documents.Digest, func(r *Reference) { r.Used = true })
		case knowledge.TransferEnded:
			letGo(v, in, holderOf(f))
		}
	case knowledge.Category:
		if _, deleted := f.Event.(knowledge.DocumentDeleted); deleted {
			letGo(v, in, holderOf(f))
			return
		}
		fallthrough
	default:
		for _, digest := range digestPattern.FindAllString(string(f.Data), -1) {
			hold(v, in, holderOf(f), digest, func(r *Reference) { r.Used = true })
		}
	}
}

// holderOf names a stream that holds content by itself; no session has such an id.
func holderOf(f Fact) string { return " " + f.Stream.Category + "/" + f.Stream.ID }

// letGo ends all that a holder has.
func letGo(v *View, in, holder string) {
	for _, digest := range takeItems(v, heldCollection, in, holder) {
		Remove(v, "", in, referenceID(digest, holder))
	}
}

// foldImportReferences holds the content of an import until it is over, and its
// report as long as its base is there.
func foldImportReferences(v *View, f Fact) {
	in, holder := f.Stream.Tenant, holderOf(f)
	used := func(blobs ...knowledge.Blob) {
		for _, b := range blobs {
			hold(v, in, holder, b.Digest, func(r *Reference) { r.Used = true })
		}
	}
	switch e := f.Event.(type) {
	case knowledge.ImportRequested:
		used(e.Rows)
		if Get[struct{}](v, importsCollection, in, goneID(e.Base)) == nil {
			addItem(v, importsCollection, in, e.Base, holder)
		}
	case knowledge.ImportProgressed:
		used(e.Notes, e.Before)
	case knowledge.ImportCompleted:
		letGo(v, in, holder)
		// Facts about the base are in the correlation.
		if Get[struct{}](v, importsCollection, in, goneID(f.Meta.Correlation)) == nil {
			used(e.Report)
		}
	case knowledge.ImportFailed:
		letGo(v, in, holder)
	}
}

// goneID marks a base that was deleted: an import may end after it.
func goneID(base string) string { return "gone:" + base }

func foldSessionReferences(v *View, in, id string, e any) {
	switch e := e.(type) {
	case session.MessagePosted:
		use(v, in, id, e.Images, e.Files)
	case session.MessageQueued:
		use(v, in, id, e.Images, e.Files)
	case session.AttachmentAdded:
		if e.Digest == "" {
			return
		}
		list := Get[attachments](v, attachedCollection, in, id)
		if list == nil {
			list = &attachments{Digests: map[string]string{}}
		}
		list.Digests[e.ID] = e.Digest
		Put(v, attachedCollection, in, id, list, nil)
		hold(v, in, id, e.Digest, func(r *Reference) { r.Listed = append(r.Listed, e.ID) })
	case session.AttachmentRemoved:
		list := Get[attachments](v, attachedCollection, in, id)
		if list == nil || list.Digests[e.Attachment] == "" {
			return
		}
		digest := list.Digests[e.Attachment]
		delete(list.Digests, e.Attachment)
		Put(v, attachedCollection, in, id, list, nil)
		hold(v, in, id, digest, func(r *Reference) {
			r.Listed = slices.DeleteFunc(r.Listed, func(a string) bool { return a == e.Attachment })
		})
	case session.MessagesCleared:
		for _, digest := range takeItems(v, heldCollection, in, id) {
			r := Get[Reference](v, "", in, referenceID(digest, id))
			if r == nil {
				continue // was let go, and listed before
			}
			Remove(v, "", in, referenceID(digest, id))
			if listed := r.Listed; len(listed) > 0 {
				hold(v, in, id, digest, func(r *Reference) { r.Listed = listed })
			}
		}
	case session.SessionDeleted:
		for _, digest := range takeItems(v, heldCollection, in, id) {
			Remove(v, "", in, referenceID(digest, id))
		}
		Remove(v, attachedCollection, in, id)
	}
}

func use(v *View, in, holder string, media ...[]domain.Media) {
	for _, list := range media {
		for _, m := range list {
			hold(v, in, holder, m.Digest, func(r *Reference) { r.Used = true })
		}
	}
}

func referenceID(digest, holder string) string { return digest + " " + holder }

// hold changes what a holder has content for; without anything left it lets go.
func hold(v *View, in, holder, digest string, change func(*Reference)) {
	if digest == "" {
		return
	}
	id := referenceID(digest, holder)
	r := Get[Reference](v, "", in, id)
	if r == nil {
		r = &Reference{Digest: digest, Holder: holder}
		addItem(v, heldCollection, in, holder, digest)
	}
	if change(r); !r.Used && len(r.Listed) == 0 {
		Remove(v, "", in, id)
		return
	}
	Put(v, "", in, id, r, map[string]any{"digest": digest})
}

// InUse tells whether a copy of References knows anything that refers to content.
func InUse(ctx context.Context, d Documents, references Projection, tenant, digest string) (bool, error) {
	page, err := d.Find(ctx, Query{Collection: references.ID(), Tenant: tenant, Where: []Where{{Field: "digest", Op: "=", Value: digest}}, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("references of %s: %w", digest, err)
	}
	return len(page.Documents) > 0, nil
}
