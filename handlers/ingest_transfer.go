package handlers

import (
	"context"
	"errors"
	"time"

	"refold/commands"
	"refold/domain"
	"refold/domain/knowledge"
)

const (
	transferStep = 50                     // documents between two reports
	transferLook = 500 * time.Millisecond // until a copy is looked at again that is on its way
)

// transfer is a transfer that this process has claimed.
type transfer struct {
	stage  // for its blobs
	id     string
	t      knowledge.Transfer
	source knowledge.Base
	target knowledge.Base
	held   map[string]bool // questions of the target
	dirty  bool            // something is not reported yet
}

// moveTransfer copies or moves documents, one by one. What becomes of one follows
// from the transfer and the document, so one that is done again changes nothing: an
// original is deleted only when its copy, with all that people have said about it,
// is on the record.
func (g *Ingest) moveTransfer(ctx context.Context, j *job) (time.Time, error) {
	tenant, id := j.owed.Stream.Tenant, j.owed.Stream.ID
	t, err := g.Commands.Transfer(ctx, tenant, id)
	if err != nil || t.Ended != nil {
		return time.Time{}, err
	}
	m, by := g.moment(), g.by(tenant)
	if t.Claim == nil || t.Claim.Owner != g.Self {
		if !t.Due(m) {
			return t.Claim.Deadline, nil
		}
		err := g.Commands.ClaimTransfer(ctx, by, id, knowledge.ClaimTransfer{Moment: m, Deadline: m.Now.Add(knowledge.TransferTime)})
		if errors.Is(err, knowledge.ErrNotDue) {
			return m.Now.Add(knowledge.TransferTime), nil
		}
		if err != nil {
			return time.Time{}, err
		}
		if t, err = g.Commands.Transfer(ctx, tenant, id); err != nil {
			return time.Time{}, err
		}
	}
	x := &transfer{stage: stage{g: g, tenant: tenant, log: g.log(j.owed)}, id: id, t: t}
	next, err := x.run(ctx)
	if err == nil && !next.IsZero() {
		return next, x.report(ctx, false)
	}
	end := knowledge.TransferEnded{}
	if err != nil {
		refusal, refused := domain.AsRejection(err)
		switch {
		case errors.Is(err, errHandBack):
			return time.Time{}, x.report(ctx, true)
		case refused:
			end.Code, end.Message = refusal.Code, refusal.Message
		case errors.Is(err, ErrNoBlob):
			end.Code, end.Message = "content_missing", "the list of documents is not there any more; ask again"
		default:
			return time.Time{}, err
		}
	}
	end.Done, end.Failed, end.Problem, end.At = x.t.Done, x.t.Failed, x.t.Problem, x.now()
	return time.Time{}, g.Commands.RecordTransfer(ctx, by, id, knowledge.RecordTransfer{Owner: g.Self, Event: end})
}

// report records how far it is, if that is new.
func (x *transfer) report(ctx context.Context, released bool) error {
	if !x.dirty && !released {
		return nil
	}
	e := knowledge.TransferProgressed{Done: x.t.Done, Failed: x.t.Failed, Problem: x.t.Problem, Released: released, At: x.now()}
	err := x.g.Commands.RecordTransfer(ctx, x.g.by(x.tenant), x.id, knowledge.RecordTransfer{Owner: x.g.Self, Event: e})
	if err == nil {
		x.dirty = false
	}
	return err
}

// run takes over document after document. next is when to go on, if one of them is
// still on its way.
func (x *transfer) run(ctx context.Context) (next time.Time, err error) {
	if x.t.Attempts > knowledge.MaxClaims {
		return next, domain.Reject(domain.Conflict, knowledge.CodeLost, "every process that worked on it died")
	}
	var ids []string
	if err := x.getJSON(ctx, x.t.Requested.Documents, &ids); err != nil {
		return next, err
	}
	if err := x.look(ctx); err != nil {
		return next, err
	}
	for x.t.Done < len(ids) {
		if x.g.isEnding() {
			return next, errHandBack
		}
		problem, wait, err := x.one(ctx, ids[x.t.Done])
		if err != nil || wait {
			return x.now().Add(transferLook), err
		}
		x.t.Done++
		x.dirty = true
		if problem != "" {
			x.t.Failed++
			x.t.Problem = shorten(line(problem), 300)
		}
		if x.t.Done%transferStep == 0 {
			if err := x.report(ctx, false); err != nil {
				return next, err
			}
		}
	}
	return next, nil
}

// look reads both bases, and the questions that the target has.
func (x *transfer) look(ctx context.Context) (err error) {
	q := x.t.Requested
	if x.source, _, err = x.g.Commands.LookBase(ctx, x.tenant, q.Source); err != nil {
		return err
	}
	if x.target, err = x.g.Commands.Base(ctx, x.tenant, q.Target); err != nil || x.target.Kind() != knowledge.KindFAQ {
		return err
	}
	head, err := x.g.Store.Head(ctx)
	if err != nil {
		return err
	}
	x.held = map[string]bool{}
	return x.g.Holdings.Entries(ctx, x.tenant, q.Target, head, func(e HeldEntry) error {
		x.held[knowledge.SameQuestion(e.Question)] = true
		return nil
	})
}

// by is who has asked for the transfer; what is done again is done once.
func (x *transfer) by(part string) commands.Caller {
	by := x.g.by(x.tenant)
	if x.t.Requested.By != "" {
		by.Principal = x.t.Requested.By
	}
	by.Reservation = "transfer:" + x.id + part
	return by
}

// one takes over one document. problem says why it stays where it is; wait that it
// is on its way.
func (x *transfer) one(ctx context.Context, id string) (problem string, wait bool, err error) {
	q, by := x.t.Requested, x.by(":"+id)
	d, err := x.g.Commands.OpenDocument(ctx, x.tenant, id)
	switch {
	case err != nil:
		return "", false, err
	case d.Did(by, "DeleteDocument"): // before a crash
		return "", false, nil
	case !d.State.Live() || d.State.Base() != q.Source:
		return "a document is not in the source any more", false, nil
	}
	if problem, wait, err = x.copy(ctx, by, d.State); problem != "" || wait || err != nil {
		return problem, wait, err
	}
	if !q.Move {
		return "", false, nil
	}
	_, err = x.g.Commands.DeleteDocument(ctx, by, id)
	if errors.Is(err, knowledge.ErrNoDocument) { // somebody else has
		err = nil
	}
	return "", false, err
}

// copy makes the copy, and gives it what people have edited in the original.
func (x *transfer) copy(ctx context.Context, by commands.Caller, s knowledge.State) (problem string, wait bool, err error) {
	keep, q := x.t.Requested.Mode == knowledge.TransferKeep, x.t.Requested
	if s.FAQ != nil && x.held[knowledge.SameQuestion(s.FAQ.Question)] {
		d, err := x.g.Commands.OpenDocument(ctx, x.tenant, knowledge.EntryID(q.Target, commands.EntryNumber(by)))
		if err != nil || d.Did(by, "AddEntry") || !q.Move {
			return "", false, err // it is there, by an earlier attempt or by itself
		}
		return "the target has an entry that asks: " + s.FAQ.Question, false, nil
	}
	if s.FAQ == nil && s.Content.Digest != "" && x.g.Keep != nil {
		n, err := x.g.Keep(ctx, x.tenant, s.Content.Digest)
		if err != nil {
			return "", false, err
		}
		if n == 0 {
			return "the content of " + s.Title + " is not there any more", false, nil
		}
	}
	tags, err := x.tags(ctx, s.Tags)
	if err != nil {
		return "", false, err
	}
	made, err := x.g.Commands.CopyDocument(ctx, by, s, q.Target, tags, keep)
	if refusal, refused := domain.AsRejection(err); refused && !errors.Is(err, knowledge.ErrNoBase) {
		return s.Title + ": " + refusal.Message, false, nil
	}
	if err != nil || !keep || len(s.Edits) == 0 {
		return "", false, err
	}
	if made.Same {
		return "the target has " + s.Title + " already, without what people have edited in this one", false, nil
	}
	d, err := x.g.Commands.OpenDocument(ctx, x.tenant, made.Document)
	switch {
	case err != nil:
		return "", false, err
	case !d.State.Live(): // a person has deleted the copy
		return "", false, nil
	case !d.State.Settled():
		return "", true, nil
	case d.State.Indexed != d.State.Revision || d.State.Chunks != s.Chunks || s.Indexed != s.Revision:
		return s.Title + " is cut in another way now, so what people have edited in it can't be kept", false, nil
	}
	for _, e := range s.Edits {
		_, err := d.Do(ctx, by, "KeepEdit "+e.Chunk, func(c knowledge.State) ([]knowledge.Command, error) {
			return []knowledge.Command{knowledge.EditChunk{ChunkEdited: knowledge.ChunkEdited{Index: e.Index, Chunk: knowledge.ChunkID(d.ID, c.Revision, e.Index),
				Content: e.Content, Disabled: e.Disabled, Deleted: e.Deleted, By: e.By, At: x.now()}}}, nil
		})
		if err != nil && !errors.Is(err, knowledge.ErrNoSuchChunk) { // or somebody has deleted it there
			return "", false, err
		}
	}
	return "", false, nil
}

// tags gives the tags of the target that are called as those of the source.
func (x *transfer) tags(ctx context.Context, ids []string) ([]string, error) {
	var out []string
	for _, id := range ids {
		tag, ok := x.source.Tag(id)
		if !ok {
			continue // it was deleted
		}
		t, ok := x.target.TagNamed(tag.Name)
		if !ok {
			var err error
			if t, _, err = x.g.Commands.EnsureTag(ctx, x.by(""), x.t.Requested.Target, tag.Name); err != nil {
				return nil, err
			}
			if x.target, err = x.g.Commands.Base(ctx, x.tenant, x.t.Requested.Target); err != nil {
				return nil, err
			}
		}
		out = append(out, t.ID)
	}
	return out, nil
}
