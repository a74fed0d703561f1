package commands

import (
	"context"
	"errors"

	"refold/domain"
	"refold/domain/event"
	"refold/domain/tenant"
)

// CreateTenant adds a tenant and gives its number.
func (c *Commands) CreateTenant(ctx context.Context, by Caller, name, description string) (int64, event.Position, error) {
	cmd := tenant.Create{TenantCreated: tenant.TenantCreated{Name: name, Description: description, By: by.Principal, At: c.Now().UTC()}}
	for try := 1; ; try++ {
		recs, err := c.Tenants.Load(ctx, domain.SystemTenant, tenant.ListID, 0)
		if err != nil {
			return 0, "", err
		}
		var s tenant.State
		for _, rec := range recs {
			if by.Reservation != "" && rec.Meta.Causation == by.Reservation {
				return rec.Event.(tenant.TenantCreated).Tenant, rec.Position, nil
			}
			s = tenant.Evolve(s, rec.Event)
		}
		events, err := tenant.Decide(s, cmd)
		if err != nil {
			return 0, "", err
		}
		recs, err = c.Tenants.Append(ctx, domain.SystemTenant, tenant.ListID, event.Exactly(int64(len(recs))), c.envelope(by, "", "CreateTenant"), facts(c.NewID, events)...)
		if errors.Is(err, event.ErrConflict) && try < maxTries {
			continue
		}
		if err != nil {
			return 0, "", err
		}
		return recs[0].Event.(tenant.TenantCreated).Tenant, recs[0].Position, nil
	}
}
