package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Tenants lists and makes tenants.
type Tenants struct {
	List   TenantsList   `cmd:"" default:"withargs" help:"List the tenants."`
	Create TenantsCreate `cmd:"" help:"Make a tenant."`
}

// Help gives examples.
func (Tenants) Help() string {
	return `Every session, run, document and key belongs to one tenant, and a request sees
its own tenant only. Tenant 1 is there from the start.

Examples:
  refold tenants
  refold tenants create Acme
  refold keys create "for Acme" --can chat --tenant 2`
}

// tenantRow is a tenant as the server shows it.
type tenantRow struct {
	ID          int64     `json:"id"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"created_at"`
}

// TenantsList lists tenants.
type TenantsList struct{}

// Help gives examples.
func (TenantsList) Help() string {
	return `Examples:
  refold tenants list
  refold tenants list --json | jq -r .name`
}

// Run lists them.
func (TenantsList) Run(e *env) error {
	return e.withClient(func(c *client) error {
		for cursor := ""; ; {
			var page struct {
				Items []tenantRow `json:"items"`
				Next  string      `json:"next_cursor"`
			}
			if err := c.call(e.ctx, http.MethodGet, "/api/v1/tenants/all?page_size=1000&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
				return err
			}
			for _, t := range page.Items {
				e.tenant(t)
			}
			if cursor = page.Next; cursor == "" {
				return nil
			}
		}
	})
}

func (e *env) tenant(t tenantRow) {
	if e.cli.JSON {
		e.line(t)
		return
	}
	fmt.Fprintf(e.out, "%d  %s\n", t.ID, plainText(t.Name))
}

// TenantsCreate makes a tenant.
type TenantsCreate struct {
	Name        string `arg:"" help:"Name, unlike that of any other tenant."`
	Description string `help:"What it is for." placeholder:"TEXT"`
}

// Help gives examples.
func (TenantsCreate) Help() string {
	return `Examples:
  refold tenants create Acme
  refold tenants create Acme --description "The anvil people" --json | jq .id`
}

// Run makes it.
func (t TenantsCreate) Run(e *env) error {
	return e.withClient(func(c *client) error {
		var made tenantRow
		if err := c.call(e.ctx, http.MethodPost, "/api/v1/tenants", map[string]string{"name": t.Name, "description": t.Description}, &made); err != nil {
			return err
		}
		e.tenant(made)
		return nil
	})
}
