package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"refold/domain/run"
	"refold/projections"
)

// values are what the fields of read models can be, where that is a closed list.
var values = map[string][]string{
	"toollog.outcome":  {"requested", "running", "waiting", "unknown", "success", "failed"},
	"runs.status":      {"posted", "running", "waiting", "completed", "failed", "stopped"},
	"approvals.status": {"pending", "approved", "rejected", "timed_out", "canceled"},
}

// filtered answers a page of a read model whose index fields may be given as
// query parameters; from and to bound "at".
func filtered[T any](a *API, w http.ResponseWriter, r *http.Request, p projections.Projection, fields ...string) {
	q, page, err := query(r, p.ID(), projections.Order{Field: "at", Desc: true})
	if err == nil {
		err = a.fresh(r, p)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	for _, f := range fields {
		if v := r.URL.Query().Get(f); v != "" {
			if known := values[p.Name+"."+f]; known != nil && !slices.Contains(known, v) {
				a.fail(w, r, invalid(f+" must be one of "+strings.Join(known, ", ")))
				return
			}
			q.Where = append(q.Where, projections.Where{Field: f, Op: "=", Value: v})
		}
	}
	for name, op := range map[string]string{"from": ">=", "to": "<"} {
		t, err := moment(r, name)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		if !t.IsZero() {
			q.Where = append(q.Where, projections.Where{Field: "at", Op: op, Value: t.UnixMicro()})
		}
	}
	found, err := a.Documents.Find(r.Context(), q)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	rows, err := documents[T](found.Documents)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	list(w, rows, page, q, found)
}

// listTools is the tool log: filters tool, outcome, session, run, from, to.
func (a *API) listTools(w http.ResponseWriter, r *http.Request) {
	filtered[projections.ToolEntry](a, w, r, projections.ToolLog, "tool", "outcome", "session", "run")
}

// listRuns lists runs: filters status, session, from, to.
func (a *API) listRuns(w http.ResponseWriter, r *http.Request) {
	filtered[projections.RunEntry](a, w, r, projections.Runs, "status", "session")
}

func (a *API) getRun(w http.ResponseWriter, r *http.Request) {
	err := a.fresh(r, projections.Runs)
	var row *projections.RunEntry
	if err == nil {
		row, err = one[projections.RunEntry](r.Context(), a, projections.Runs, tenant(r), chi.URLParam(r, "run"))
	}
	if err == nil && row == nil {
		err = run.ErrNotStarted
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	out := struct {
		*projections.RunEntry
		WaitsFor string `json:"waits_for,omitempty"`
	}{RunEntry: row}
	if a.Waits != nil && row.Open() {
		out.WaitsFor = a.Waits(tenant(r), row.ID)
	}
	respond(w, http.StatusOK, ok(out))
}
