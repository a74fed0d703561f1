package api

import (
	"context"
	"net/http"
	"time"

	"refold/domain/event"
	"refold/projections"
)

// viewWait bounds how long a read waits for its view to catch up.
const viewWait = 3 * time.Second

// fresh waits until a view holds everything that was in the log when the
// request came, what this process has written, and what ?after= names, so that
// nobody reads older than what they wrote.
func (a *API) fresh(r *http.Request, p projections.Projection) error {
	ctx, cancel := context.WithTimeout(r.Context(), viewWait)
	defer cancel()
	head, err := a.Store.Head(ctx)
	if err != nil {
		return err
	}
	if a.Written != nil {
		head = max(head, a.Written())
	}
	after := event.Position(r.URL.Query().Get("after"))
	// Where several processes write, another's newest fact may lie ahead of what
	// this one can see yet.
	if len(after) > 100 || after > head && a.Sole {
		return invalid("after is no position of this log")
	}
	return a.Engine.Await(ctx, p, max(head, after))
}

// one gives one document, or nil.
func one[T any](ctx context.Context, a *API, p projections.Projection, tenant, id string) (*T, error) {
	if id == "" || len(id) > event.MaxIDLen {
		return nil, nil
	}
	docs, err := a.Documents.Get(ctx, projections.Key{Collection: p.ID(), Tenant: tenant, ID: id})
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	rows, err := documents[T](docs)
	if err != nil {
		return nil, err
	}
	return &rows[0], nil
}

func positionHeader(w http.ResponseWriter, pos event.Position) {
	if pos != "" {
		w.Header().Set("X-Refold-Position", string(pos))
	}
}
