package projections

import (
	"context"
	"fmt"
	"time"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/tenant"
)

// TenantEntry is a tenant that was created; tenant 1 has no document.
type TenantEntry struct {
	Number      int64     `json:"number"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"created_at"`
}

// Tenants is the list of tenants; the documents belong to domain.SystemTenant,
// their id is the tenant's name in streams. Index: number.
var Tenants = Projection{Name: "tenants", Version: 1, Filter: event.Filter{Categories: []string{tenant.Category}}, Fold: foldTenant}

func foldTenant(v *View, f Fact) {
	if e, ok := f.Event.(tenant.TenantCreated); ok {
		t := &TenantEntry{Number: e.Tenant, Name: e.Name, Description: e.Description, CreatedAt: e.At}
		Put(v, "", domain.SystemTenant, tenant.Name(e.Tenant), t, map[string]any{"number": e.Tenant})
	}
}

// EachTenant calls fn with every tenant of users that the list has, tenant 1
// first, until fn fails. The list must have caught up.
func EachTenant(ctx context.Context, d Documents, fn func(name string) error) error {
	if err := fn(domain.DefaultTenant); err != nil {
		return err
	}
	for cursor := ""; ; {
		page, err := d.Find(ctx, Query{Collection: Tenants.ID(), Tenant: domain.SystemTenant, OrderBy: []Order{{Field: "number"}}, Limit: 1000, Cursor: cursor})
		if err != nil {
			return fmt.Errorf("list the tenants: %w", err)
		}
		for _, doc := range page.Documents {
			if err := fn(doc.ID); err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}
