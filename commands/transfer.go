package commands

import (
	"context"
	"encoding/json"
	"errors"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/knowledge"
)

// RequestTransfer asks for documents of a base to be copied or moved to another
// one, which is done in the background, and gives the id of the transfer. The list
// of documents is stored already.
func (c *Commands) RequestTransfer(ctx context.Context, by Caller, t knowledge.TransferRequested) (string, event.Position, error) {
	if t.Transfer == "" {
		t.Transfer = c.idFor(by, "transfer")
	}
	t.By, t.At = by.Principal, c.Now().UTC()
	pos, err := c.onTransfer(ctx, by, t.Transfer, t.Source, "RequestTransfer", knowledge.RequestTransfer{TransferRequested: t})
	return t.Transfer, pos, err
}

// Transfer gives a transfer; knowledge.ErrNoTransfer if there is none.
func (c *Commands) Transfer(ctx context.Context, tenant, id string) (knowledge.Transfer, error) {
	var t knowledge.Transfer
	recs, err := c.Transfers.Load(ctx, tenant, id, 0)
	for _, rec := range recs {
		t = knowledge.EvolveTransfer(t, rec.Event)
	}
	if err == nil && t.Requested == nil {
		err = knowledge.ErrNoTransfer
	}
	return t, err
}

// ClaimTransfer claims a transfer; knowledge.ErrNotDue if it is over, or somebody
// else's.
func (c *Commands) ClaimTransfer(ctx context.Context, by Caller, id string, claim knowledge.ClaimTransfer) error {
	_, err := c.onTransfer(ctx, by, id, "", "ClaimTransfer", claim)
	return err
}

// RecordTransfer reports about a transfer that the process has claimed.
func (c *Commands) RecordTransfer(ctx context.Context, by Caller, id string, r knowledge.RecordTransfer) error {
	_, err := c.onTransfer(ctx, by, id, "", "RecordTransfer", r)
	return err
}

func (c *Commands) onTransfer(ctx context.Context, by Caller, id, base, command string, cmd knowledge.TransferCommand) (event.Position, error) {
	for try := 1; ; try++ {
		recs, err := c.Transfers.Load(ctx, by.Tenant, id, 0)
		if err != nil {
			return "", err
		}
		if pos, done := executed(recs, by, command); done {
			return pos, nil
		}
		var t knowledge.Transfer
		for _, rec := range recs {
			t = knowledge.EvolveTransfer(t, rec.Event)
		}
		if t.Requested != nil {
			base = t.Requested.Source
		}
		events, err := knowledge.DecideTransfer(t, cmd)
		if err != nil || len(events) == 0 {
			return "", err
		}
		recs, err = c.Transfers.Append(ctx, by.Tenant, id, event.Exactly(int64(len(recs))), c.envelope(by, base, command), facts(c.NewID, events)...)
		if errors.Is(err, event.ErrConflict) && try < maxTries {
			continue
		}
		if err != nil {
			return "", err
		}
		return recs[len(recs)-1].Position, nil
	}
}

// Copied is the copy of a document. Same says that the target had it before: the
// same file, or the same address.
type Copied struct {
	Document string
	Same     bool
}

// CopyDocument makes a document of another base out of one, whose content is kept
// meanwhile; tags are those of the target. With keep it is cut as the original was.
// by.Reservation names the copying: the same again gives the same copy.
func (c *Commands) CopyDocument(ctx context.Context, by Caller, s knowledge.State, target string, tags []string, keep bool) (Copied, error) {
	if f := s.FAQ; f != nil {
		entry := AddEntry{FAQ: *f, Disabled: s.Disabled}
		entry.ID = 0
		if len(tags) > 0 {
			entry.Tag = tags[0]
		}
		added, err := c.AddEntry(ctx, by, target, entry)
		return Copied{Document: added.Document}, err
	}
	a := AddDocument{Base: target, Origin: s.Origin(), Title: s.Title, Description: s.Description, FileName: s.FileName, FileType: s.FileType, URL: s.Added.URL,
		Channel: s.Added.Channel, Folder: s.Folder, Tags: tags, Metadata: s.Added.Metadata, Content: s.Content, Draft: s.Draft, Disabled: s.Disabled}
	if keep {
		process, err := json.Marshal(map[string]any{"chunking_config": s.Recipe.Chunking})
		if err != nil {
			return Copied{}, err
		}
		a.Process = process
	}
	added, err := c.AddDocument(ctx, by, a)
	if rej, ok := domain.AsRejection(err); ok && (errors.Is(err, knowledge.ErrDuplicateFile) || errors.Is(err, knowledge.ErrDuplicateURL)) {
		id, _ := rej.Details["knowledge_id"].(string)
		return Copied{Document: id, Same: true}, nil
	}
	if err == nil && len(s.Custom) > 0 {
		_, err = c.ChangeDocument(ctx, by, added.Document, DocumentChange{Custom: &s.Custom})
	}
	return Copied{Document: added.Document}, err
}

// Did tells whether a request, by its reservation, has done something to the
// document.
func (d *Document) Did(by Caller, command string) bool {
	_, done := d.executed[by.Reservation+" "+command]
	return done && by.Reservation != ""
}
