package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"

	"refold/domain"
	"refold/projections"
)

// viewJSON is a read model and how it stands.
type viewJSON struct {
	Name     string `json:"name"`
	ID       string `json:"id"` // of the copy that is read
	Building bool   `json:"building"`
	Events   int64  `json:"events,omitempty"` // folded so far into the copy that is being built
	Broken   string `json:"broken,omitempty"`
}

// listViews lists the read models.
func (a *API) listViews(w http.ResponseWriter, r *http.Request) {
	building, broken := a.Engine.Building(), a.Engine.Broken()
	out := []viewJSON{}
	for _, p := range a.Engine.List {
		read, err := a.Engine.Resolve(r.Context(), p)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		v := viewJSON{Name: p.Name, ID: read.ID()}
		v.Events, v.Building = building[p.Base()]
		if err := broken[p.Base()]; err != nil {
			v.Broken = stopped(p.Name, err)
		}
		out = append(out, v)
	}
	respond(w, http.StatusOK, ok(out))
}

var errRenewing = domain.Reject(domain.Conflict, "rebuild_in_progress", "this read model is being rebuilt already; see GET /api/v1/views")

// rebuildView builds a read model anew beside the one that is read, and switches.
func (a *API) rebuildView(w http.ResponseWriter, r *http.Request) {
	for _, p := range a.Engine.List {
		if p.Name != chi.URLParam(r, "view") {
			continue
		}
		// The work is the server's: it goes on when the caller has left.
		_, err := a.Engine.Renew(context.WithoutCancel(r.Context()), p)
		if errors.Is(err, projections.ErrRenewing) {
			err = errRenewing
		}
		if err != nil {
			a.fail(w, r, err)
			return
		}
		respond(w, http.StatusAccepted, body{"success": true, "message": "Rebuild started; see GET /api/v1/views"})
		return
	}
	a.fail(w, r, notFound("there is no such read model; see GET /api/v1/views"))
}
