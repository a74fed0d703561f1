package projections_test

import (
	"errors"
	"slices"
	"testing"

	"refold/domain"
	"refold/domain/key"
	"refold/domain/tenant"
	"refold/infra/memory"
	"refold/projections"
)

// installation adds keys and tenants to the log.
func (b *book) installation() {
	write[key.Event](b, key.Codec, key.Category, domain.SystemTenant, "2", key.KeyCreated{Key: 1, Tenant: "2", Lookup: "l1", Salt: "s", Hash: "h", Grant: key.Grant{Name: "a", FullAccess: true}, At: at(60)},
		key.KeyCreated{Key: 2, Tenant: "2", Lookup: "l2", Salt: "s", Hash: "h", Grant: key.Grant{Name: "b", FullAccess: true}, At: at(61)},
		key.KeyUpdated{Key: 1, Lookup: "l1", Grant: key.Grant{Name: "a2", Capabilities: []string{"chat"}}, At: at(62)})
	write[key.Event](b, key.Codec, key.Category, domain.SystemTenant, key.UseID("l1", at(63)), key.KeyUsed{Key: 1, Lookup: "l1", At: at(63)})
	write[key.Event](b, key.Codec, key.Category, domain.SystemTenant, "2", key.KeyRevoked{Key: 2, Lookup: "l2", At: at(64)})
	write[key.Event](b, key.Codec, key.Category, domain.SystemTenant, key.UseID("l2", at(65)), key.KeyUsed{Key: 2, Lookup: "l2", At: at(65)})
	write[tenant.Event](b, tenant.Codec, tenant.Category, domain.SystemTenant, tenant.ListID, tenant.TenantCreated{Tenant: 2, Name: "Acme", At: at(66)}, tenant.TenantCreated{Tenant: 3, Name: "Bell", At: at(67)})
}

func TestKeys(t *testing.T) {
	b := newBook(t)
	b.installation()
	d := &memory.Documents{}
	b.project(d, projections.Keys, projections.Tenants)
	want := `keys@1 l1 {"number":1,"tenant":"2"}
{
  "number": 1,
  "tenant": "2",
  "lookup": "l1",
  "salt": "s",
  "hash": "h",
  "grant": {
    "name": "a2",
    "full_access": false,
    "capabilities": [
      "chat"
    ]
  },
  "created_at": "2026-03-04T05:07:07Z",
  "used_at": "2026-03-04T05:07:10Z"
}
`
	if got := documents(t, d, projections.Keys); got != want {
		t.Fatalf("want:\n%s\ngot:\n%s", want, got)
	}
	var names []string
	each := func(name string) error { names = append(names, name); return nil }
	if err := projections.EachTenant(t.Context(), d, each); err != nil || !slices.Equal(names, []string{"1", "2", "3"}) {
		t.Fatal(names, err)
	}
	stop := errors.New("stop")
	if err := projections.EachTenant(t.Context(), d, func(string) error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
}
