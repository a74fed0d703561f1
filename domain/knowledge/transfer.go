package knowledge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"refold/domain"
	"refold/domain/event"
)

// TransferCategory is the category of the streams of transfers: documents that are
// copied or moved from one base to another. The stream's id is the transfer's.
const TransferCategory = "transfer"

// MaxMove is how many documents a request moves at most, and MaxCopy how many a
// base may hold that is copied.
const (
	MaxMove = 1000
	MaxCopy = 200_000
)

// TransferTime is how long a process may hold a transfer without a report.
const TransferTime = time.Hour

// Modes of a transfer.
const (
	TransferKeep    = "reuse_vectors" // pieces are cut as they are, so their vectors are there, and edits are kept
	TransferReparse = "reparse"       // documents are treated as the target treats new ones
)

// TransferEvent is a fact about a transfer.
type TransferEvent interface{ transferEvent() }

// TransferRequested opens the stream. Documents is the list of their ids, as JSON
// of []string. With Move the originals are deleted.
type TransferRequested struct {
	Transfer  string    `json:"transfer"`
	Source    string    `json:"source"`
	Target    string    `json:"target"`
	Documents Blob      `json:"documents"`
	Total     int       `json:"total"`
	Mode      string    `json:"mode"`
	Move      bool      `json:"move,omitempty"`
	By        string    `json:"by,omitempty"`
	At        time.Time `json:"at"`
}

// TransferStarted claims the transfer for a process.
type TransferStarted struct {
	Attempt  int       `json:"attempt"`
	Owner    string    `json:"owner"`
	Deadline time.Time `json:"deadline"`
	At       time.Time `json:"at"`
}

// TransferProgressed says how far it is. Problem is why the newest document that
// could not be taken over was not. Released gives the claim back.
type TransferProgressed struct {
	Done     int       `json:"done"` // documents that were looked at
	Failed   int       `json:"failed,omitempty"`
	Problem  string    `json:"problem,omitempty"`
	Released bool      `json:"released,omitempty"`
	At       time.Time `json:"at"`
}

// TransferEnded ends a transfer. Code is "" if every document was looked at, else
// why it could not go on.
type TransferEnded struct {
	Done    int       `json:"done"`
	Failed  int       `json:"failed,omitempty"`
	Problem string    `json:"problem,omitempty"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at"`
}

func (TransferRequested) transferEvent()  {}
func (TransferStarted) transferEvent()    {}
func (TransferProgressed) transferEvent() {}
func (TransferEnded) transferEvent()      {}

// Transfer is the fold of a transfer's events.
type Transfer struct {
	Requested *TransferRequested
	Claim     *TransferStarted
	Attempts  int
	Done      int
	Failed    int
	Problem   string
	Ended     *TransferEnded
	UpdatedAt time.Time
}

// Due tells whether it is to be claimed at a moment.
func (t Transfer) Due(m Moment) bool {
	return t.Requested != nil && t.Ended == nil && (t.Claim == nil || m.gone(t.Claim.Owner, t.Claim.Deadline))
}

// TransferCommand is a request to a transfer, or a report about it.
type TransferCommand interface{ transferCommand() }

// RequestTransfer opens a transfer.
type RequestTransfer struct{ TransferRequested }

// ClaimTransfer asks for the transfer.
type ClaimTransfer struct {
	Moment
	Deadline time.Time
}

// RecordTransfer reports about the transfer that Owner has claimed:
// TransferProgressed or TransferEnded.
type RecordTransfer struct {
	Owner string
	Event TransferEvent
}

func (RequestTransfer) transferCommand() {}
func (ClaimTransfer) transferCommand()   {}
func (RecordTransfer) transferCommand()  {}

// Refusals of transfers.
var (
	ErrNoTransfer   = domain.Reject(domain.Missing, "task_not_found", "there is no such task")
	ErrSameBase     = domain.Reject(domain.Invalid, "same_knowledge_base", "source and target are the same knowledge base; name two")
	ErrOtherKind    = domain.Reject(domain.Invalid, "other_type", "the knowledge bases are of different types; see GET /api/v1/knowledge-bases/{id}/move-targets for what fits")
	ErrOtherVectors = domain.Reject(domain.Invalid, "other_embedding_model", "the knowledge bases have different embedding models; see GET /api/v1/knowledge-bases/{id}/move-targets for what fits")
	ErrTransferring = domain.Reject(domain.Conflict, "task_exists", "there is a task with this task_id; choose another one")
)

// Fits refuses a target that does not treat documents as the source does.
func (b Base) Fits(target Base) error {
	switch {
	case b.Created.Base == target.Created.Base:
		return ErrSameBase
	case b.Kind() != target.Kind():
		return ErrOtherKind
	case !strings.EqualFold(b.Settings.Embedding, target.Settings.Embedding):
		return ErrOtherVectors
	}
	return nil
}

// DecideTransfer says which events follow from a command; it may refuse.
func DecideTransfer(t Transfer, c TransferCommand) ([]TransferEvent, error) {
	switch c := c.(type) {
	case RequestTransfer:
		most := MaxCopy
		if c.Move {
			most = MaxMove
		}
		switch {
		case t.Requested != nil:
			return nil, ErrTransferring
		case !slices.Contains([]string{TransferKeep, TransferReparse}, c.Mode):
			return nil, invalid("bad_mode", `mode must be "reuse_vectors" or "reparse"`)
		case c.Source == c.Target:
			return nil, ErrSameBase
		case c.Total < 0 || c.Total > most || c.Move && c.Total == 0:
			return nil, invalid("bad_documents", "at most %d documents are taken over at once; take them in parts", most)
		case c.Documents.Digest == "":
			return nil, invalid("bad_documents", "the list of documents is missing")
		}
		return []TransferEvent{c.TransferRequested}, nil
	case ClaimTransfer:
		if !t.Due(c.Moment) {
			return nil, ErrNotDue
		}
		return []TransferEvent{TransferStarted{Attempt: t.Attempts + 1, Owner: c.Self, Deadline: c.Deadline, At: c.Now}}, nil
	case RecordTransfer:
		if t.Ended != nil || t.Claim == nil || t.Claim.Owner != c.Owner {
			return nil, nil
		}
		return []TransferEvent{c.Event}, nil
	}
	return nil, fmt.Errorf("knowledge: unknown command %T", c)
}

// EvolveTransfer folds one event. It never fails.
func EvolveTransfer(t Transfer, e TransferEvent) Transfer {
	switch e := e.(type) {
	case TransferRequested:
		if t.Requested == nil {
			t.Requested, t.UpdatedAt = &e, e.At
		}
	case TransferStarted:
		t.Claim, t.Attempts, t.UpdatedAt = &e, t.Attempts+1, e.At
	case TransferProgressed:
		t.Done, t.Failed, t.Problem, t.UpdatedAt = e.Done, e.Failed, e.Problem, e.At
		switch {
		case e.Released:
			t.Claim = nil
		case t.Claim != nil: // who reports is alive
			claim := *t.Claim
			claim.Deadline = e.At.Add(TransferTime)
			t.Claim = &claim
		}
	case TransferEnded:
		t.Done, t.Failed, t.Problem, t.Ended, t.UpdatedAt = e.Done, e.Failed, e.Problem, &e, e.At
	}
	return t
}

// TransferCodec pairs wire names and schema numbers of the facts of transfers with
// Go types and upcasters.
var TransferCodec = event.NewCodec(
	event.Of[TransferEvent, TransferRequested]("TransferRequested", 1),
	event.Of[TransferEvent, TransferStarted]("TransferStarted", 1),
	event.Of[TransferEvent, TransferProgressed]("TransferProgressed", 1),
	event.Of[TransferEvent, TransferEnded]("TransferEnded", 1),
)
