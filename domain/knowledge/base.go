package knowledge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"refold/domain"
)

// Limits of a base, in runes where not said otherwise.
const (
	MaxName        = 128
	MaxDescription = 4000
	MaxTags        = 2000 // of a base
	MaxTagName     = 128
	MaxColor       = 32 // bytes
)

// Kinds of bases.
const (
	KindDocument = "document" // the default
	KindFAQ      = "faq"
	KindWiki     = "wiki"
)

// BaseCategory is the category of the streams of bases; the stream's id is the
// base's, a UUID.
const BaseCategory = "knowledge_base"

// BaseEvent is a fact about a base.
type BaseEvent interface{ baseEvent() }

// BaseCreated opens the stream.
type BaseCreated struct {
	Base        string    `json:"base"`
	Name        string    `json:"name"`
	Kind        string    `json:"kind"`
	Description string    `json:"description,omitempty"`
	Settings    Settings  `json:"settings"`
	By          string    `json:"by,omitempty"`
	At          time.Time `json:"at"`
}

// BaseChanged replaces name, description and settings.
type BaseChanged struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Settings    Settings  `json:"settings"`
	By          string    `json:"by,omitempty"`
	At          time.Time `json:"at"`
}

// BasePinned puts the base at the top of one person's list.
type BasePinned struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// BaseUnpinned takes that back.
type BaseUnpinned struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
}

// BaseDeleted hides the base and all that it holds. Its documents are deleted,
// one by one, by whoever follows the log; BaseEmptied says that it is done.
type BaseDeleted struct {
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
}

// BaseEmptied says that a deleted base holds nothing any more, and that the index
// has forgotten it.
type BaseEmptied struct {
	Documents int       `json:"documents"` // that were deleted for it
	At        time.Time `json:"at"`
}

func (BaseCreated) baseEvent()  {}
func (BaseChanged) baseEvent()  {}
func (BasePinned) baseEvent()   {}
func (BaseUnpinned) baseEvent() {}
func (BaseDeleted) baseEvent()  {}
func (BaseEmptied) baseEvent()  {}

// Base is the fold of a base's events.
type Base struct {
	Created     *BaseCreated
	Name        string
	Description string
	Settings    Settings
	Pins        map[string]time.Time // by who has pinned it
	Tags        []Tag                // oldest first
	Deleted     bool
	Emptied     bool
}

// Live tells whether the base exists for its users.
func (b Base) Live() bool { return b.Created != nil && !b.Deleted }

// Kind is what kind of base it is, "" if it does not exist.
func (b Base) Kind() string {
	if b.Created == nil {
		return ""
	}
	return b.Created.Kind
}

// BaseCommand is a request to a base.
type BaseCommand interface{ baseCommand() }

// CreateBase opens a base.
type CreateBase struct{ BaseCreated }

// ChangeBase replaces name, description and settings.
type ChangeBase struct{ BaseChanged }

// PinBase turns the pin of By: on if it was off.
type PinBase struct {
	By  string
	Now time.Time
}

// DeleteBase hides the base.
type DeleteBase struct{ BaseDeleted }

// RecordEmptied reports that a deleted base is empty. It is recorded once, or,
// with Again, once more: something was added while the base was deleted.
type RecordEmptied struct {
	BaseEmptied
	Again bool
}

func (CreateBase) baseCommand()    {}
func (ChangeBase) baseCommand()    {}
func (PinBase) baseCommand()       {}
func (DeleteBase) baseCommand()    {}
func (RecordEmptied) baseCommand() {}

// Refusals of bases.
var (
	ErrNoBase     = domain.Reject(domain.Missing, "knowledge_base_not_found", "there is no such knowledge base; see GET /api/v1/knowledge-bases")
	ErrBaseExists = domain.Reject(domain.Conflict, "knowledge_base_exists", "a knowledge base with this id exists")
	ErrBadName    = domain.Reject(domain.Invalid, "bad_name", fmt.Sprintf("the name of a knowledge base has 1 to %d characters", MaxName))
	ErrBadKind    = domain.Reject(domain.Invalid, "bad_type", `the type of a knowledge base is "document", "faq" or "wiki"`)
)

// DecideBase says which events follow from a command; it may refuse.
func DecideBase(b Base, c BaseCommand) ([]BaseEvent, error) {
	if c, ok := c.(CreateBase); ok {
		return decideCreate(b, c)
	}
	if c, ok := c.(RecordEmptied); ok {
		if !b.Deleted || b.Emptied && !c.Again {
			return nil, nil
		}
		return []BaseEvent{c.BaseEmptied}, nil
	}
	if !b.Live() {
		return nil, ErrNoBase
	}
	switch c := c.(type) {
	case ChangeBase:
		e := c.BaseChanged
		var err error
		if e.Name, e.Description, e.Settings, err = plainBase(e.Name, b.Kind(), e.Description, e.Settings); err != nil {
			return nil, err
		}
		if e.Name == b.Name && e.Description == b.Description && equal(e.Settings, b.Settings) {
			return nil, nil
		}
		return []BaseEvent{e}, nil
	case PinBase:
		if _, on := b.Pins[c.By]; on {
			return []BaseEvent{BaseUnpinned{By: c.By, At: c.Now}}, nil
		}
		return []BaseEvent{BasePinned{By: c.By, At: c.Now}}, nil
	case DeleteBase:
		return []BaseEvent{c.BaseDeleted}, nil
	}
	return decideTag(b, c)
}

func decideCreate(b Base, c CreateBase) ([]BaseEvent, error) {
	if b.Created != nil {
		return nil, ErrBaseExists
	}
	e := c.BaseCreated
	if e.Kind == "" {
		e.Kind = KindDocument
	}
	if !slices.Contains([]string{KindDocument, KindFAQ, KindWiki}, e.Kind) {
		return nil, ErrBadKind
	}
	var err error
	if e.Name, e.Description, e.Settings, err = plainBase(e.Name, e.Kind, e.Description, e.Settings); err != nil {
		return nil, err
	}
	return []BaseEvent{e}, nil
}

func plainBase(name, kind, description string, s Settings) (string, string, Settings, error) {
	name = line(name)
	if n := runes(name); n == 0 || n > MaxName {
		return "", "", s, ErrBadName
	}
	if description = text(description); runes(description) > MaxDescription {
		return "", "", s, invalid("description_too_long", "the description has more than %d characters; shorten it", MaxDescription)
	}
	s, err := s.plain(kind)
	return name, description, s, err
}

// EvolveBase folds one event. It never fails.
func EvolveBase(b Base, e BaseEvent) Base {
	switch e := e.(type) {
	case BaseCreated:
		if b.Created == nil {
			b.Created, b.Name, b.Description, b.Settings = &e, e.Name, e.Description, e.Settings
		}
	case BaseChanged:
		b.Name, b.Description, b.Settings = e.Name, e.Description, e.Settings
	case BasePinned:
		pins := map[string]time.Time{e.By: e.At}
		for who, at := range b.Pins {
			if who != e.By {
				pins[who] = at
			}
		}
		b.Pins = pins
	case BaseUnpinned:
		pins := map[string]time.Time{}
		for who, at := range b.Pins {
			if who != e.By {
				pins[who] = at
			}
		}
		b.Pins = pins
	case BaseDeleted:
		b.Deleted = true
	case BaseEmptied:
		b.Emptied = true
	default:
		return evolveTag(b, e)
	}
	return b
}

func runes(s string) int { return utf8.RuneCountInString(s) }

// line makes text fit for one line: valid, without control characters, one space
// where there were several.
func line(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}

// text makes text valid and takes control characters out that are no white space.
func text(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "")))
}

// equal compares values as the record would hold them.
func equal(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && string(x) == string(y)
}
