// Package tenant is the list of tenants of an installation, one aggregate: it
// gives them their numbers and keeps names apart. Tenant 1 exists without an
// event. It imports the standard library, domain and domain/event. Start
// reading at Decide.
package tenant

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"refold/domain"
	"refold/domain/event"
)

// Limits of tenants.
const (
	MaxName        = 128    // runes
	MaxDescription = 512    // runes
	MaxTenants     = 10_000 // in one installation
)

// Category and ListID name the one stream, under domain.SystemTenant.
const (
	Category = "tenant"
	ListID   = "list"
)

// DefaultName is the name of tenant 1.
const DefaultName = "Default"

// Event is a fact about tenants.
type Event interface{ event() }

// TenantCreated adds a tenant.
type TenantCreated struct {
	Tenant      int64     `json:"tenant"`
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	By          string    `json:"by"`
	At          time.Time `json:"at"`
}

func (TenantCreated) event() {}

// Codec pairs wire names and schema numbers with Go types and upcasters.
var Codec = event.NewCodec(event.Of[Event, TenantCreated]("TenantCreated", 1))

// State is the fold of the list.
type State struct {
	Last  int64    // number of the newest tenant, 0 = only tenant 1
	Names []string // of those that were created
}

// Command is a request to the list.
type Command interface{ command() }

// Create adds a tenant; its number is given by the state.
type Create struct{ TenantCreated }

func (Create) command() {}

// Refusals.
var (
	ErrExists   = domain.Reject(domain.Conflict, "tenant_exists", "a tenant of this name exists; choose another name")
	ErrNotFound = domain.Reject(domain.Missing, "tenant_not_found", "there is no such tenant; see GET /api/v1/tenants")
	ErrTooMany  = domain.Reject(domain.Conflict, "too_many_tenants", fmt.Sprintf("there are %d tenants, and more are not taken", MaxTenants))
)

// Decide says which events follow from a command; it may refuse.
func Decide(s State, c Command) ([]Event, error) {
	create, ok := c.(Create)
	if !ok {
		return nil, fmt.Errorf("tenant: unknown command %T", c)
	}
	e := create.TenantCreated
	e.Name = strings.TrimSpace(e.Name)
	refuse := func(code, message string) error { return domain.Reject(domain.Invalid, code, message) }
	switch n := utf8.RuneCountInString(e.Name); {
	case n == 0:
		return nil, refuse("name_required", "name is required")
	case n > MaxName || !utf8.ValidString(e.Name) || strings.ContainsFunc(e.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, refuse("bad_name", fmt.Sprintf("name has at most %d characters on one line", MaxName))
	case utf8.RuneCountInString(e.Description) > MaxDescription || !utf8.ValidString(e.Description):
		return nil, refuse("bad_description", fmt.Sprintf("description has at most %d characters", MaxDescription))
	case e.Name == DefaultName || slices.Contains(s.Names, e.Name):
		return nil, ErrExists
	case len(s.Names)+1 >= MaxTenants:
		return nil, ErrTooMany
	}
	e.Tenant = max(s.Last, 1) + 1
	return []Event{e}, nil
}

// Evolve folds one event. It never fails.
func Evolve(s State, e Event) State {
	if e, ok := e.(TenantCreated); ok {
		s.Last = max(s.Last, e.Tenant)
		s.Names = append(s.Names, e.Name)
	}
	return s
}

// Name is a tenant's number as streams and documents carry it.
func Name(number int64) string { return strconv.FormatInt(number, 10) }

// Number reads what Name made; 0 for what is no tenant of users.
func Number(name string) int64 {
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || n < 1 || Name(n) != name {
		return 0
	}
	return n
}
