package app

import (
	"testing"

	"refold/commands"
	"refold/domain/agent"
	"refold/domain/knowledge"
)

// TestScope_KnowsTheNewestBase: every base of the tenant is in the scope of a
// message that names none, also one that no view has folded yet.
func TestScope_KnowsTheNewestBase(t *testing.T) {
	a, err := Open(t.Context(), Config{Data: t.TempDir(), Temperature: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	g, _ := agent.Builtin(agent.SmartReasoning)
	for n := 1; n <= 5; n++ {
		id, _, err := a.Commands.CreateBase(t.Context(), commands.Caller{Tenant: "1", Principal: "test"}, commands.NewBase{Name: "New", Kind: knowledge.KindDocument})
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.Commands.Catalog.Scope(t.Context(), "1", g, nil, "", false)
		if err != nil || len(s.Targets) != n || s.Targets[0].Base != id {
			t.Fatalf("after %d bases: %+v, %v", n, s.Targets, err)
		}
	}
}
