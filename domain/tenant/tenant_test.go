package tenant_test

import (
	"strings"
	"testing"
	"time"

	"refold/domain"
	"refold/domain/tenant"
	"refold/tests/scenario"
)

var (
	t0      = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	acme    = tenant.TenantCreated{Tenant: 2, Name: "Acme", By: "u", At: t0}
	decider = scenario.Decider[tenant.State, tenant.Command, tenant.Event]{Decide: tenant.Decide, Evolve: tenant.Evolve}
)

func create(name, description string) tenant.Create {
	return tenant.Create{TenantCreated: tenant.TenantCreated{Name: name, Description: description, By: "u", At: t0}}
}

func TestCreate(t *testing.T) {
	decider.Given(t).When(create(" Acme ", "")).Then(acme)
	next := acme
	next.Tenant, next.Name = 3, "Other"
	decider.Given(t, acme).When(create("Other", "")).Then(next)
	for _, taken := range []string{"Acme", tenant.DefaultName} {
		decider.Given(t, acme).When(create(taken, "")).Refused(tenant.ErrExists)
	}
	for code, c := range map[string]tenant.Create{
		"name_required":   create("  ", ""),
		"bad_name":        create(strings.Repeat("n", 129), ""),
		"bad_description": create("n", strings.Repeat("d", 513)),
	} {
		rej, ok := domain.AsRejection(decider.Given(t).When(c).Err())
		if !ok || rej.Code != code {
			t.Errorf("%s: %v", code, rej)
		}
	}
	var past []tenant.Event
	for i := range int64(tenant.MaxTenants - 1) {
		past = append(past, tenant.TenantCreated{Tenant: i + 2})
	}
	decider.Given(t, past...).When(create("more", "")).Refused(tenant.ErrTooMany)
}

func TestNumber(t *testing.T) {
	for name, want := range map[string]int64{"1": 1, "42": 42, "": 0, "0": 0, "-1": 0, "01": 0, "+1": 0, "system": 0, "99999999999999999999": 0} {
		if got := tenant.Number(name); got != want {
			t.Errorf("%q: %d", name, got)
		}
	}
	if tenant.Name(7) != "7" {
		t.Error("name")
	}
}

func TestWire(t *testing.T) { scenario.Fixtures(t, tenant.Codec) }
