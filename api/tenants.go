package api

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"refold/domain"
	"refold/domain/event"
	tenants "refold/domain/tenant"
	"refold/projections"
)

// tenantJSON is a tenant on the wire.
type tenantJSON struct {
	ID          int64      `json:"id"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Status      string     `json:"status"`
	Engines     body       `json:"retriever_engines"`
	Business    string     `json:"business"`
	Quota       int64      `json:"storage_quota"` // bytes
	Used        int64      `json:"storage_used"`
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	DeletedAt   *time.Time `json:"deleted_at"`
}

func wireTenant(t projections.TenantEntry) tenantJSON {
	return tenantJSON{ID: t.Number, Name: t.Name, Description: t.Description, Status: "active", Engines: body{"engines": []any{}},
		Quota: 10 << 30, CreatedAt: t.CreatedAt, UpdatedAt: t.CreatedAt}
}

// loadTenant gives a tenant that exists. Tenant 1 is as old as the record.
func (a *API) loadTenant(r *http.Request, name string) (projections.TenantEntry, error) {
	if name == domain.DefaultTenant {
		out := projections.TenantEntry{Number: tenants.Number(name), Name: tenants.DefaultName, CreatedAt: a.Commands.Now().UTC()}
		first, _, err := a.Store.Scan(r.Context(), "", event.Filter{}, 1)
		if len(first) > 0 {
			out.CreatedAt = first[0].Time
		}
		return out, err
	}
	t, err := one[projections.TenantEntry](r.Context(), a, projections.Tenants, domain.SystemTenant, name)
	if err != nil || t == nil {
		return projections.TenantEntry{}, orElse(err, tenants.ErrNotFound)
	}
	return *t, nil
}

func orElse(err, missing error) error {
	if err != nil {
		return err
	}
	return missing
}

// currentTenant lists the tenant of the request, which is all that it sees.
func (a *API) currentTenant(w http.ResponseWriter, r *http.Request) {
	t, err := a.loadTenant(r, tenant(r))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	respond(w, http.StatusOK, ok(body{"items": []tenantJSON{wireTenant(t)}}))
}

// listTenants lists all tenants, for the operator.
func (a *API) listTenants(w http.ResponseWriter, r *http.Request) {
	_, size, cursor, err := paging(r)
	if err == nil {
		err = a.fresh(r, projections.Tenants)
	}
	var first projections.TenantEntry
	if err == nil {
		first, err = a.loadTenant(r, domain.DefaultTenant)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	found, err := a.Documents.Find(r.Context(), projections.Query{Collection: projections.Tenants.ID(), Tenant: domain.SystemTenant,
		OrderBy: []projections.Order{{Field: "number"}}, Limit: size, Cursor: cursor, CountTotal: true})
	var rows []projections.TenantEntry
	if err == nil {
		rows, err = documents[projections.TenantEntry](found.Documents)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	items := []tenantJSON{}
	if cursor == "" {
		items = append(items, wireTenant(first)) // beside the page, for it has no document
	}
	for _, t := range rows {
		items = append(items, wireTenant(t))
	}
	data := body{"items": items, "total": found.Total + 1}
	if found.Next != "" {
		data["next_cursor"] = found.Next
	}
	respond(w, http.StatusOK, ok(data))
}

func (a *API) createTenant(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	err := decode(w, r, maxBody, &b)
	var number int64
	if err == nil {
		var pos event.Position
		number, pos, err = a.Commands.CreateTenant(r.Context(), caller(r), b.Name, b.Description)
		positionHeader(w, pos)
	}
	if err == nil {
		err = a.fresh(r, projections.Tenants)
	}
	var t projections.TenantEntry
	if err == nil {
		t, err = a.loadTenant(r, tenants.Name(number))
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	respond(w, http.StatusCreated, ok(wireTenant(t)))
}

// inPath checks that the tenant in the path is the request's own.
func inPath(r *http.Request) error {
	if chi.URLParam(r, "tenant") != tenant(r) {
		return domain.Reject(domain.Forbidden, "another_tenant", "the path names another tenant than the request's; an operator chooses with "+TenantHeader)
	}
	return nil
}

func (a *API) getTenant(w http.ResponseWriter, r *http.Request) {
	err := inPath(r)
	var t projections.TenantEntry
	if err == nil {
		t, err = a.loadTenant(r, tenant(r))
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	respond(w, http.StatusOK, ok(wireTenant(t)))
}
