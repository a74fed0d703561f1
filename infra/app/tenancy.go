package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"refold/api"
	"refold/domain"
	"refold/domain/event"
	"refold/domain/tenant"
	"refold/projections"
)

// everywhere calls fn with the documents of every tenant that a query finds,
// once the read models of the list of tenants and of what is asked for have
// reached a position. q.Collection and q.Tenant are filled in.
func (a *App) everywhere(ctx context.Context, head event.Position, p projections.Projection, q projections.Query, fn func(projections.Document) error) error {
	for _, need := range []projections.Projection{projections.Tenants, p} {
		if err := a.Engine.Await(ctx, need, head); err != nil {
			return err
		}
	}
	documents := a.Engine.Reading()
	if q.Limit = 1000; q.Collection != "" {
		q.Collection = "." + q.Collection
	}
	q.Collection = p.ID() + q.Collection
	return projections.EachTenant(ctx, documents, func(name string) error {
		q.Tenant, q.Cursor = name, ""
		for {
			page, err := documents.Find(ctx, q)
			if err != nil {
				return err
			}
			for _, d := range page.Documents {
				if err := fn(d); err != nil {
					return err
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return nil
			}
		}
	})
}

// splitRoot reads "DIR", which is for tenant 1, or "N=DIR".
func splitRoot(root string) (name, dir string) {
	if n, rest, ok := strings.Cut(root, "="); ok && tenant.Number(n) != 0 {
		return n, rest
	}
	return domain.DefaultTenant, root
}

// AbsRoot makes the folder of a root absolute.
func AbsRoot(root string) (string, error) {
	name, dir := splitRoot(root)
	abs, err := filepath.Abs(dir)
	return name + "=" + abs, err
}

// rootsByTenant checks the roots.
func (c *Config) rootsByTenant() (map[string][]string, error) {
	out := map[string][]string{}
	for _, root := range c.Roots {
		name, dir := splitRoot(root)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("root %q is no folder that can be read", root)
		}
		out[name] = append(out[name], dir)
	}
	return out, nil
}

// DefaultRate and DefaultChatRate are requests a second that one key may make
// unless told otherwise.
const (
	DefaultRate     = 100
	DefaultChatRate = 20
)

// limits reads the rates. Who needs no key is counted only if a rate was asked
// for.
func (c *Config) limits() (api.Limits, error) {
	out := api.Limits{Rate: DefaultRate, Chat: DefaultChatRate, Open: c.Rate != "" || c.ChatRate != ""}
	for text, to := range map[*string]*float64{&c.Rate: &out.Rate, &c.ChatRate: &out.Chat} {
		if *text == "" {
			continue
		}
		v, err := parseRate(*text)
		if err != nil {
			return out, err
		}
		*to = v
	}
	return out, nil
}

// parseRate reads "20/s", "600/m", "1000/h" or "off" (0, no limit), and gives
// requests a second.
func parseRate(text string) (float64, error) {
	if text == "off" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(text, "/")
	seconds := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || seconds == 0 || !(n > 0 && n <= 1e6) {
		return 0, fmt.Errorf("rate %q: want a number with /s, /m or /h, for example 20/s, or off", text)
	}
	return n / seconds, nil
}
