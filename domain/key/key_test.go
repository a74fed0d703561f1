package key_test

import (
	"strings"
	"testing"
	"time"

	"refold/domain"
	"refold/domain/key"
	"refold/tests/scenario"
)

var (
	t0      = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	grant   = key.Grant{Name: "ci", Capabilities: []string{"chat"}}
	first   = key.KeyCreated{Key: 1, Tenant: "1", Lookup: "l1", Salt: "s", Hash: "h", Grant: grant, By: "u", At: t0}
	second  = key.KeyCreated{Key: 2, Tenant: "1", Lookup: "l2", Salt: "s", Hash: "h", Grant: grant, By: "u", At: t0}
	revoked = key.KeyRevoked{Key: 2, Lookup: "l2", By: "u", At: t0}
	decider = scenario.Decider[key.State, key.Command, key.Event]{Decide: key.Decide, Evolve: key.Evolve}
)

func create(g key.Grant) key.Create {
	return key.Create{KeyCreated: key.KeyCreated{Tenant: "1", Lookup: "l3", Salt: "s", Hash: "h", Grant: g, By: "u", At: t0}}
}

func TestCreate_NumbersAreNeverUsedTwice(t *testing.T) {
	want := create(grant).KeyCreated
	want.Key = 3
	decider.Given(t, first, second).When(create(grant)).Then(want)
	decider.Given(t, first, second, revoked).When(create(grant)).Then(want)
	full := decider.Given(t).When(create(key.Grant{Name: " all ", FullAccess: true, Capabilities: []string{"chat"}}))
	want.Key, want.Grant = 1, key.Grant{Name: "all", FullAccess: true}
	full.Then(want)
}

func TestCreate_Refusals(t *testing.T) {
	for code, g := range map[string]key.Grant{
		"name_required":         {Name: "  ", FullAccess: true},
		"bad_name":              {Name: "a\nb", FullAccess: true},
		"capabilities_required": {Name: "a"},
		"unknown_capability":    {Name: "a", Capabilities: []string{"chat", "root"}},
		"expires_in_the_past":   {Name: "a", FullAccess: true, Expires: t0},
		"bad_base":              {Name: "a", Capabilities: []string{"chat"}, KnowledgeBases: []string{""}},
		"too_many_bases":        {Name: "a", Capabilities: []string{"chat"}, KnowledgeBases: make([]string, key.MaxBase+1)},
	} {
		rej, ok := domain.AsRejection(decider.Given(t).When(create(g)).Err())
		if !ok || rej.Code != code {
			t.Errorf("%s: %v", code, rej)
		}
	}
	past := make([]key.Event, key.MaxLive)
	for i := range past {
		past[i] = key.KeyCreated{Key: int64(i + 1), Grant: grant}
	}
	decider.Given(t, past...).When(create(grant)).Refused(key.ErrTooMany)
}

func TestUpdateAndRevoke(t *testing.T) {
	change := key.KeyUpdated{Key: 2, Grant: key.Grant{Name: "x", Capabilities: []string{"read_agents", "chat", "chat"}}, By: "u", At: t0}
	want := change
	want.Lookup, want.Grant.Capabilities = "l2", []string{"chat", "read_agents"}
	s := decider.Given(t, first, second).When(key.Update{KeyUpdated: change}).Then(want).State()
	if k, _ := s.Key(2); !k.Grant.Holds("read_agents") || k.Grant.Holds("ingest") {
		t.Fatalf("%+v", k)
	}
	decider.Given(t, first, second).When(key.Revoke{KeyRevoked: key.KeyRevoked{Key: 2, By: "u", At: t0}}).Then(revoked)
	for _, c := range []key.Command{key.Update{KeyUpdated: change}, key.Revoke{KeyRevoked: revoked}} {
		decider.Given(t, first, second, revoked).When(c).Refused(key.ErrNotFound)
		decider.Given(t).When(c).Refused(key.ErrNotFound)
	}
}

func TestGrant(t *testing.T) {
	g := key.Grant{FullAccess: true, Expires: t0}
	if !g.Holds("anything") || g.Expired(t0.Add(-1)) || !g.Expired(t0) || (key.Grant{}).Expired(t0) {
		t.Fatal(g)
	}
}

func TestToken(t *testing.T) {
	var random [key.Random]byte
	for i := range random {
		random[i] = byte(i * 7)
	}
	token := key.Token(random)
	lookup, ok := key.LookupOf(token)
	if !ok || len(lookup) != 12 || !strings.HasPrefix(token, "sk-"+lookup) || len(token) != 47 {
		t.Fatalf("%q %q", token, lookup)
	}
	for _, bad := range []string{"", "sk-", token[1:], token + "A", token[:46] + "!", "pk-" + token[3:]} {
		if _, ok := key.LookupOf(bad); ok {
			t.Errorf("%q", bad)
		}
	}
	hash := key.Hash("salt", token)
	if !key.Proves(token, "salt", hash) || key.Proves(token, "other", hash) || key.Proves(token[:46]+"0", "salt", hash) || strings.Contains(hash, token) {
		t.Error("hash")
	}
	if key.Shown(lookup) != "sk-"+lookup+"..." || key.UseID("l", t0) != "use/l/2026030405" {
		t.Error("names")
	}
}

func TestWire(t *testing.T) { scenario.Fixtures(t, key.Codec) }
