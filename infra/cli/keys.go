package cli

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"refold/domain/key"
)

// Keys lists, makes and revokes API keys.
type Keys struct {
	List   KeysList   `cmd:"" default:"withargs" help:"List the API keys of a tenant."`
	Create KeysCreate `cmd:"" help:"Make an API key; its token is shown once."`
	Revoke KeysRevoke `cmd:"" help:"End an API key for good."`
}

// Help gives examples.
func (Keys) Help() string {
	return `Keys belong to a tenant (--tenant, 1 unless named) and open what they are given.
No key can make keys or answer approvals: that is for the operator.

Examples:
  refold keys
  refold keys create "build server" --can chat --can read_agents
  refold keys create admin --full --expires 720h --json | jq -r .token
  refold keys revoke 3`
}

// keyRow is an API key as the server shows it.
type keyRow struct {
	ID           int64      `json:"id"`
	Name         string     `json:"name"`
	APIKey       string     `json:"api_key"`
	FullAccess   bool       `json:"full_access"`
	Capabilities []string   `json:"capabilities"`
	LastUsedAt   *time.Time `json:"last_used_at,omitempty"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty"`
	CreatedAt    time.Time  `json:"created_at"`
	Token        string     `json:"token,omitempty"`
}

func (k keyRow) grants() string {
	if k.FullAccess {
		return "full access"
	}
	return strings.Join(k.Capabilities, ", ")
}

func (e *env) keysPath() string { return fmt.Sprintf("/api/v1/tenants/%d/api-keys", e.cli.Tenant) }

// KeysList lists keys.
type KeysList struct{}

// Help gives examples.
func (KeysList) Help() string {
	return `Examples:
  refold keys list
  refold keys list --tenant 2 --json | jq -r '.name + " " + .api_key'`
}

// Run lists them.
func (KeysList) Run(e *env) error {
	return e.withClient(func(c *client) error {
		var rows []keyRow
		if err := c.call(e.ctx, http.MethodGet, e.keysPath(), nil, &rows); err != nil {
			return err
		}
		for _, k := range rows {
			if e.cli.JSON {
				e.line(k)
				continue
			}
			fmt.Fprintf(e.out, "%d  %s  %s\n  %s\n  created %s, %s, %s\n", k.ID, k.APIKey, plainText(k.Name), k.grants(), k.CreatedAt.Format(time.RFC3339),
				moment("last used", k.LastUsedAt, "never used"), moment("expires", k.ExpiresAt, "never expires"))
		}
		if len(rows) == 0 && !e.cli.JSON {
			fmt.Fprintln(e.err, "There are no API keys. Make one with: refold keys create NAME --can chat")
		}
		return nil
	})
}

func moment(what string, at *time.Time, none string) string {
	if at == nil {
		return none
	}
	return what + " " + at.Format(time.RFC3339)
}

// KeysCreate makes a key.
type KeysCreate struct {
	Name    string        `arg:"" help:"What the key is for."`
	Can     []string      `help:"Capability (chat, message_history, read_agents, ...); repeatable." placeholder:"NAME"`
	Full    bool          `help:"Everything that a key may do at all."`
	Expires time.Duration `help:"End of the key, from now; 0 = never." placeholder:"720h"`
}

// Help gives examples.
func (KeysCreate) Help() string {
	return `The token is printed once and kept nowhere: whoever loses it makes another key.

Capabilities: ` + strings.Join(key.Capabilities(), ", ") + `

Examples:
  refold keys create "build server" --can chat --can message_history
  refold keys create admin --full --expires 720h --json | jq -r .token`
}

// Run makes it.
func (k KeysCreate) Run(e *env) error {
	if k.Expires < 0 {
		return usage("--expires must be a time from now, for example 720h")
	}
	body := map[string]any{"name": k.Name, "full_access": k.Full, "capabilities": k.Can}
	if k.Expires > 0 {
		body["expires_at_unix"] = time.Now().Add(k.Expires).Unix()
	}
	return e.withClient(func(c *client) error {
		var made keyRow
		if err := c.call(e.ctx, http.MethodPost, e.keysPath(), body, &made); err != nil {
			return err
		}
		if e.cli.JSON {
			e.line(made)
			return nil
		}
		fmt.Fprintln(e.out, made.Token)
		fmt.Fprintf(e.err, "Key %d of tenant %d: %s, %s. The token is shown this once.\n", made.ID, e.cli.Tenant, made.grants(), moment("expires", made.ExpiresAt, "never expires"))
		return nil
	})
}

// KeysRevoke ends a key.
type KeysRevoke struct {
	ID int64 `arg:"" help:"Number of the key."`
}

// Help gives examples.
func (KeysRevoke) Help() string {
	return `Examples:
  refold keys revoke 3
  refold keys revoke 3 --tenant 2`
}

// Run revokes it.
func (k KeysRevoke) Run(e *env) error {
	return e.withClient(func(c *client) error {
		if err := c.call(e.ctx, http.MethodDelete, fmt.Sprintf("%s/%d", e.keysPath(), k.ID), nil, nil); err != nil {
			return err
		}
		if e.cli.JSON {
			e.line(map[string]any{"id": k.ID, "revoked": true})
		} else {
			fmt.Fprintf(e.out, "Key %d is revoked.\n", k.ID)
		}
		return nil
	})
}
