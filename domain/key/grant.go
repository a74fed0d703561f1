package key

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"refold/domain"
)

// Capabilities that a key can hold.
const (
	Chat           = "chat"
	MessageHistory = "message_history"
	ReadAgents     = "read_agents"
	ManageAgents   = "manage_agents"
	ManageModels   = "manage_models"
	Retrieve       = "retrieve"
	Ingest         = "ingest"
	ManageKBs      = "manage_kbs"
	ManageSettings = "manage_tenant_settings"
)

// Capabilities lists all names that a grant may hold, those of parts that this
// build has no routes for among them, so that keys move between installations.
func Capabilities() []string {
	return []string{Retrieve, Chat, ReadAgents, Ingest, ManageKBs, ManageAgents, MessageHistory, ManageModels, "manage_mcp_services",
		"manage_datasources", "manage_channels", "manage_vector_stores", "manage_storage_backends", "manage_web_search", "run_evaluations",
		"manage_members", "manage_spaces", ManageSettings}
}

// Holds tells whether the grant opens a route that asks for a capability.
func (g Grant) Holds(capability string) bool {
	return g.FullAccess || slices.Contains(g.Capabilities, capability)
}

// Expired tells whether the key is past its end.
func (g Grant) Expired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

func (g Grant) check(now time.Time) error {
	refuse := func(code, message string) error { return domain.Reject(domain.Invalid, code, message) }
	switch n := utf8.RuneCountInString(strings.TrimSpace(g.Name)); {
	case n == 0:
		return refuse("name_required", "name is required: what the key is for")
	case n > MaxName || !utf8.ValidString(g.Name):
		return refuse("bad_name", fmt.Sprintf("name has at most %d characters of valid UTF-8", MaxName))
	case strings.ContainsFunc(g.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuse("bad_name", "name has a control character; use one line of text")
	}
	if !g.FullAccess && len(g.Capabilities) == 0 {
		return refuse("capabilities_required", "capabilities is required unless full_access is true; there are "+strings.Join(Capabilities(), ", "))
	}
	for _, c := range g.Capabilities {
		if !slices.Contains(Capabilities(), c) {
			return refuse("unknown_capability", fmt.Sprintf("there is no capability %.64q; there are %s", c, strings.Join(Capabilities(), ", ")))
		}
	}
	if len(g.KnowledgeBases) > MaxBase {
		return refuse("too_many_bases", fmt.Sprintf("a key names at most %d knowledge bases", MaxBase))
	}
	for _, b := range g.KnowledgeBases {
		if b == "" || len(b) > 64 {
			return refuse("bad_base", "the id of a knowledge base has 1 to 64 bytes")
		}
	}
	if g.Expired(now) {
		return refuse("expires_in_the_past", "expires_at_unix lies in the past; give a later second, or leave it out for a key without end")
	}
	return nil
}

// plain is the grant as it is recorded: trimmed, sorted, without repetitions.
func (g Grant) plain() Grant {
	g.Name = strings.TrimSpace(g.Name)
	if g.FullAccess {
		g.Capabilities, g.KnowledgeBases = nil, nil
		return g
	}
	g.Capabilities = slices.Clone(g.Capabilities)
	slices.Sort(g.Capabilities)
	g.Capabilities = slices.Compact(g.Capabilities)
	return g
}
