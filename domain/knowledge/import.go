package knowledge

import (
	"fmt"
	"slices"
	"time"

	"refold/domain"
	"refold/domain/event"
)

// ImportCategory is the category of the streams of imports of FAQ entries; the
// stream's id is the import's.
const ImportCategory = "faq_import"

// MaxImport is how many rows an import has at most.
const MaxImport = 10_000

// Modes of an import.
const (
	ImportAppend  = "append"  // entries are added; one whose question is there is merged with it
	ImportReplace = "replace" // and then those that were there before are deleted
)

// ImportEvent is a fact about an import.
type ImportEvent interface{ importEvent() }

// ImportRequested opens the stream. Rows is the list, as JSON of []ImportRow. With
// Dry nothing is changed; what would be is reported.
type ImportRequested struct {
	Import string    `json:"import"`
	Base   string    `json:"base"`
	Mode   string    `json:"mode"`
	Rows   Blob      `json:"rows"`
	Total  int       `json:"total"`
	Dry    bool      `json:"dry_run,omitempty"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"`
}

// ImportStarted claims the import for a process.
type ImportStarted struct {
	Attempt  int       `json:"attempt"`
	Owner    string    `json:"owner"`
	Deadline time.Time `json:"deadline"`
	At       time.Time `json:"at"`
}

// ImportProgressed says how far it is. Notes is what became of the rows since the
// last time, as JSON of []ImportNote. Before, of the first one, is the list of
// entries that a replacement deletes, as JSON of []int64. Released gives the claim
// back.
type ImportProgressed struct {
	Tally
	Notes    Blob      `json:"notes,omitzero"`
	Before   Blob      `json:"before,omitzero"`
	Released bool      `json:"released,omitempty"`
	At       time.Time `json:"at"`
}

// Tally counts rows by what became of them.
type Tally struct {
	Done    int `json:"done"` // rows that were looked at
	Added   int `json:"added,omitempty"`
	Merged  int `json:"merged,omitempty"`
	Skipped int `json:"skipped,omitempty"` // had nothing new
	Failed  int `json:"failed,omitempty"`
	Deleted int `json:"deleted,omitempty"` // entries that were replaced
}

// ImportCompleted ends an import. Report is what became of each row, as JSON of
// []ImportNote.
type ImportCompleted struct {
	Tally
	Report Blob      `json:"report,omitzero"`
	At     time.Time `json:"at"`
}

// ImportFailed ends an import that could not be done.
type ImportFailed struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

func (ImportRequested) importEvent()  {}
func (ImportStarted) importEvent()    {}
func (ImportProgressed) importEvent() {}
func (ImportCompleted) importEvent()  {}
func (ImportFailed) importEvent()     {}

// ImportRow is an entry as an import names it. Number, if not 0, is the entry
// that it replaces. Tag is a name, which is made if the base does not have it.
type ImportRow struct {
	Number      int64    `json:"number,omitempty"`
	Question    string   `json:"question"`
	Similar     []string `json:"similar,omitempty"`
	Negative    []string `json:"negative,omitempty"`
	Answers     []string `json:"answers"`
	Strategy    string   `json:"strategy,omitempty"`
	Recommended bool     `json:"recommended,omitempty"`
	Disabled    bool     `json:"disabled,omitempty"`
	Tag         string   `json:"tag,omitempty"`
	Otherwise   string   `json:"otherwise,omitempty"` // tag of an entry that is new and has no Tag
}

// FAQ is the entry of a row.
func (r ImportRow) FAQ() FAQ {
	return FAQ{ID: r.Number, Question: r.Question, Similar: r.Similar, Negative: r.Negative, Answers: r.Answers, Strategy: r.Strategy, Recommended: r.Recommended}
}

// ImportNote says what became of a row. Number is the entry, 0 if there is none.
type ImportNote struct {
	Row      int    `json:"row"`     // from 0
	Outcome  string `json:"outcome"` // added, merged, skipped, failed
	Number   int64  `json:"number,omitempty"`
	Question string `json:"question"`
	Reason   string `json:"reason,omitempty"` // of a failure
}

// Import is the fold of an import's events.
type Import struct {
	Requested *ImportRequested
	Claim     *ImportStarted
	Attempts  int
	Tally     Tally
	Before    Blob
	Notes     []Blob
	Completed *ImportCompleted
	Failed    *ImportFailed
	UpdatedAt time.Time
}

// Over tells whether the import has ended.
func (i Import) Over() bool { return i.Completed != nil || i.Failed != nil }

// Due tells whether it is to be claimed at a moment.
func (i Import) Due(m Moment) bool {
	return i.Requested != nil && !i.Over() && (i.Claim == nil || m.gone(i.Claim.Owner, i.Claim.Deadline))
}

// ImportCommand is a request to an import, or a report about it.
type ImportCommand interface{ importCommand() }

// RequestImport opens an import.
type RequestImport struct{ ImportRequested }

// ClaimImport asks for the import.
type ClaimImport struct {
	Moment
	Deadline time.Time
}

// RecordImport reports about the import that Owner has claimed: ImportProgressed,
// ImportCompleted or ImportFailed.
type RecordImport struct {
	Owner string
	Event ImportEvent
}

func (RequestImport) importCommand() {}
func (ClaimImport) importCommand()   {}
func (RecordImport) importCommand()  {}

// MaxClaims is how many processes may begin an import and not end it.
const MaxClaims = 20

// ErrNoImport says that there is no such import.
var ErrNoImport = domain.Reject(domain.Missing, "import_not_found", "there is no such import")

// DecideImport says which events follow from a command; it may refuse.
func DecideImport(i Import, c ImportCommand) ([]ImportEvent, error) {
	switch c := c.(type) {
	case RequestImport:
		switch {
		case i.Requested != nil:
			return nil, domain.Reject(domain.Conflict, "import_exists", "there is an import with this task id; choose another one")
		case !slices.Contains([]string{ImportAppend, ImportReplace}, c.Mode):
			return nil, invalid("bad_mode", `mode must be "append" or "replace"`)
		case c.Total < 1 || c.Total > MaxImport:
			return nil, invalid("bad_entries", "an import has 1 to %d entries; split it", MaxImport)
		case c.Rows.Digest == "":
			return nil, invalid("bad_entries", "the entries are missing")
		}
		return []ImportEvent{c.ImportRequested}, nil
	case ClaimImport:
		if !i.Due(c.Moment) {
			return nil, ErrNotDue
		}
		return []ImportEvent{ImportStarted{Attempt: i.Attempts + 1, Owner: c.Self, Deadline: c.Deadline, At: c.Now}}, nil
	case RecordImport:
		if i.Over() || i.Claim == nil || i.Claim.Owner != c.Owner {
			return nil, nil
		}
		return []ImportEvent{c.Event}, nil
	}
	return nil, fmt.Errorf("knowledge: unknown command %T", c)
}

// EvolveImport folds one event. It never fails.
func EvolveImport(i Import, e ImportEvent) Import {
	switch e := e.(type) {
	case ImportRequested:
		if i.Requested == nil {
			i.Requested, i.UpdatedAt = &e, e.At
		}
	case ImportStarted:
		i.Claim, i.Attempts, i.UpdatedAt = &e, i.Attempts+1, e.At
	case ImportProgressed:
		i.Tally, i.UpdatedAt = e.Tally, e.At
		if e.Before.Digest != "" {
			i.Before = e.Before
		}
		if e.Notes.Digest != "" {
			i.Notes = append(slices.Clip(i.Notes), e.Notes)
		}
		if e.Released {
			i.Claim = nil
		}
	case ImportCompleted:
		i.Completed, i.Tally, i.UpdatedAt = &e, e.Tally, e.At
	case ImportFailed:
		i.Failed, i.UpdatedAt = &e, e.At
	}
	return i
}

// ImportCodec pairs wire names and schema numbers of the facts of imports with Go
// types and upcasters.
var ImportCodec = event.NewCodec(
	event.Of[ImportEvent, ImportRequested]("ImportRequested", 1),
	event.Of[ImportEvent, ImportStarted]("ImportStarted", 1),
	event.Of[ImportEvent, ImportProgressed]("ImportProgressed", 1),
	event.Of[ImportEvent, ImportCompleted]("ImportCompleted", 1),
	event.Of[ImportEvent, ImportFailed]("ImportFailed", 1),
)
