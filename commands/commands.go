package commands

import (
	"cmp"
	"container/list"
	"context"
	"time"

	"refold/domain/agent"
	"refold/domain/event"
	"refold/domain/key"
	"refold/domain/knowledge"
	"refold/domain/request"
	"refold/domain/run"
	"refold/domain/session"
	"refold/domain/tenant"
	"refold/domain/tool"
)

// maxTries bounds how often a request decides again after a lost race.
const maxTries = 20

// Catalog says which agents there are and which tools can be offered to them
// right now (existing, enabled, permitted, their dependencies at hand).
type Catalog interface {
	// Agent gives an agent by id; false if the tenant has none of that id.
	Agent(ctx context.Context, tenant, id string) (agent.Agent, bool, error)
	// Scope resolves the knowledge of a message: what the person chose (nil =
	// nothing), else what the agent is configured with. Strict refuses ids that the
	// tenant does not have; else they are left out.
	Scope(ctx context.Context, tenant string, a agent.Agent, chosen *session.Sources, workspace string, strict bool) (Scope, error)
	// Offer gives the definitions that the agent may be shown in a run with these
	// means. What can't work is not offered.
	Offer(ctx context.Context, tenant string, a agent.Agent, m Means) ([]tool.Definition, error)
}

// Scope is the knowledge of a run.
type Scope struct {
	tool.Scope
	Knowledge []run.Knowledge // the bases, for the prompt
	Pinned    []run.Pinned    // documents that the person named
}

// Means is what a run has to work with.
type Means struct {
	Workspace string // directory, "" = none
	Scope     Scope
	Web       bool
}

// Commands executes commands on a log. Its fields are set once.
type Commands struct {
	Sessions  event.Log[session.Event]
	Runs      event.Log[run.Event]
	Deltas    event.Log[run.Delta]
	Keys      event.Log[key.Event]
	Tenants   event.Log[tenant.Event]
	Requests  event.Log[request.Event]
	Bases     event.Log[knowledge.BaseEvent]
	Documents event.Log[knowledge.Event]
	Imports   event.Log[knowledge.ImportEvent]
	Transfers event.Log[knowledge.TransferEvent]
	Catalog   Catalog
	Now       func() time.Time
	NewID     func() string
	// Images tells whether a model, by its configured name, can be shown images,
	// itself or by descriptions; nil = none can.
	Images func(model string) error
	// Vectors tells what the vectors of an embedding model are called, by the name
	// that a base configures ("" = the default one); "" if there is no such model.
	// nil = there is none.
	Vectors func(tenant, model string) string
	// Models refuses a model, by its configured name, that can't be asked; nil =
	// none is refused.
	Models func(model string) error

	known *known // sessions that were used last
}

// New makes Commands over a store with the real clock unless now is set.
func New(store event.Store, catalog Catalog, now func() time.Time, newID func() string) *Commands {
	return &Commands{
		Sessions:  event.Log[session.Event]{Store: store, Codec: session.Codec, Category: session.Category},
		Runs:      event.Log[run.Event]{Store: store, Codec: run.Codec, Category: run.Category},
		Deltas:    event.Log[run.Delta]{Store: store, Codec: run.DeltaCodec, Category: event.CategoryDelta},
		Keys:      event.Log[key.Event]{Store: store, Codec: key.Codec, Category: key.Category},
		Tenants:   event.Log[tenant.Event]{Store: store, Codec: tenant.Codec, Category: tenant.Category},
		Requests:  event.Log[request.Event]{Store: store, Codec: request.Codec, Category: request.Category},
		Bases:     event.Log[knowledge.BaseEvent]{Store: store, Codec: knowledge.BaseCodec, Category: knowledge.BaseCategory},
		Documents: event.Log[knowledge.Event]{Store: store, Codec: knowledge.Codec, Category: knowledge.Category},
		Imports:   event.Log[knowledge.ImportEvent]{Store: store, Codec: knowledge.ImportCodec, Category: knowledge.ImportCategory},
		Transfers: event.Log[knowledge.TransferEvent]{Store: store, Codec: knowledge.TransferCodec, Category: knowledge.TransferCategory},
		Catalog:   catalog, Now: now, NewID: newID,
		known: &known{byName: map[event.Stream]*list.Element{}},
	}
}

// Caller is who asks, for the record.
type Caller struct {
	Tenant    string
	Principal string
	Request   string // request id
	Trace     string // W3C trace id, "" if there is none
	// Reservation is that of an idempotent request, "" for any other. What such a
	// request mints derives from it, and what follows from it names it, so that
	// doing it again gives the first answer.
	Reservation string
	// Versions, if not nil, are those of the session for which the request holds;
	// at any other it is refused with ErrChanged.
	Versions []int64
}

func (c *Commands) envelope(by Caller, sessionID, command string) event.Envelope {
	return event.Envelope{Time: c.Now().UTC(), Meta: event.Metadata{Correlation: sessionID, Command: command,
		Actor: by.Principal, Trace: cmp.Or(by.Trace, by.Request), Causation: by.Reservation}}
}

func facts[E any](newID func() string, events []E) []event.Fact[E] {
	out := make([]event.Fact[E], len(events))
	for i, e := range events {
		out[i] = event.Fact[E]{ID: newID(), Event: e}
	}
	return out
}
