package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"refold/domain"
	"refold/infra/app"
	"refold/projections"
)

// Rebuild rebuilds read models.
type Rebuild struct {
	Name []string `arg:"" optional:"" help:"Read models (see the list in the error of a wrong name); none = all."`
}

// Help gives examples.
func (Rebuild) Help() string {
	return `Folds the whole log again. Without a running server the result is compared with
what was there: they are equal, or exit code 5 says that they were not. A running
server builds a copy beside the read model that is read, and switches to it.

Examples:
  refold rebuild
  refold rebuild history toollog`
}

// Run rebuilds.
func (r Rebuild) Run(e *env) error {
	var chosen []projections.Projection
	known := map[string]projections.Projection{}
	var names []string
	for _, p := range projections.All() {
		known[p.Name], known[p.ID()] = p, p
		names = append(names, p.Name)
	}
	for _, n := range r.Name {
		p, ok := known[n]
		if !ok {
			return usage("there is no read model %q; there are %s", n, strings.Join(names, ", "))
		}
		chosen = append(chosen, p)
	}
	if len(chosen) == 0 {
		chosen = projections.All()
	}
	if found, running := app.FindServer(e.ctx, e.config.Data); running {
		return e.renew(&client{base: "http://" + found.Addr, key: found.LocalKey, tenant: e.cli.Tenant}, chosen)
	}
	db, err := app.OpenDatabase(e.ctx, e.config, false)
	if err != nil {
		return err
	}
	err = e.rebuild(db, chosen)
	return errors.Join(err, db.Close())
}

// renew lets the running server rebuild read models while they are read, one
// after another, and shows how far it is.
func (e *env) renew(c *client, chosen []projections.Projection) error {
	return e.each(chosen, func(p projections.Projection) error {
		if err := c.call(e.ctx, http.MethodPost, "/api/v1/views/"+p.Name+"/rebuild", nil, nil); err != nil {
			return err
		}
		events := int64(0)
		for building := true; building; {
			var views []struct {
				Name, Broken string
				Building     bool
				Events       int64
			}
			if err := c.call(e.ctx, http.MethodGet, "/api/v1/views", nil, &views); err != nil {
				return err
			}
			building = false
			for _, v := range views {
				if v.Name == p.Name && v.Building {
					building, events = true, v.Events
				}
				if v.Name == p.Name && v.Broken != "" {
					return errors.New(v.Broken)
				}
			}
			if building && terminal(e.err) {
				fmt.Fprintf(e.err, "\r%s: %d events", p.Name, events)
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-e.ctx.Done():
				return e.ctx.Err()
			}
		}
		if terminal(e.err) {
			fmt.Fprint(e.err, "\r\033[K")
		}
		if e.cli.JSON {
			e.line(map[string]any{"read_model": p.ID(), "rebuilt": true})
			return nil
		}
		fmt.Fprintf(e.out, "%-10s rebuilt while it was read\n", p.Name)
		return nil
	})
}

// each rebuilds read models one after another, goes on after one that can't be,
// and names all of those at the end.
func (e *env) each(chosen []projections.Projection, rebuild func(projections.Projection) error) error {
	var broken []string
	var all []error
	for _, p := range chosen {
		err := rebuild(p)
		if err != nil && e.ctx.Err() != nil {
			return err
		}
		if err != nil {
			broken, all = append(broken, p.Name), append(all, fmt.Errorf("%s: %w", p.Name, err))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d read models could not be rebuilt (%s):\n%w", len(all), len(chosen), strings.Join(broken, ", "), errors.Join(all...))
}

func (e *env) rebuild(db app.Database, chosen []projections.Projection) error {
	engine := &projections.Engine{Store: db.Events(), Documents: db.Documents(), Log: e.config.Log, List: projections.All()}
	if err := engine.CatchUp(e.ctx, projections.Tenants); err != nil {
		return err
	}
	tenants := []string{domain.SystemTenant}
	err := projections.EachTenant(e.ctx, engine.Reading(), func(name string) error {
		tenants = append(tenants, name)
		return nil
	})
	if err != nil {
		return err
	}
	return e.each(chosen, func(p projections.Projection) error {
		// The old view may lag behind the log: it is brought up to date first, so
		// that the two can be compared. One that is broken can't be.
		lag := engine.CatchUp(e.ctx, p)
		before, err := projections.Digest(e.ctx, engine.Reading(), p, tenants...)
		if err != nil {
			return err
		}
		events := 0
		err = engine.Rebuild(e.ctx, p, func(n int) {
			events = n
			if terminal(e.err) {
				fmt.Fprintf(e.err, "\r%s: %d events", p.Name, n)
			}
		})
		if terminal(e.err) {
			fmt.Fprint(e.err, "\r\033[K")
		}
		if err != nil {
			return err
		}
		after, err := projections.Digest(e.ctx, engine.Reading(), p, tenants...)
		if err != nil {
			return err
		}
		equal := lag == nil && before == after
		if !equal {
			e.exit = ExitUnequal
		}
		if e.cli.JSON {
			e.line(map[string]any{"read_model": p.ID(), "events": events, "documents": after.Documents, "equal": equal, "digest": after.Sum})
			return nil
		}
		verdict := "equal to the old one"
		if !equal {
			verdict = "DIFFERENT from the old one"
		}
		fmt.Fprintf(e.out, "%-10s %d documents from %d events, %s\n", p.Name, after.Documents, events, verdict)
		return nil
	})
}

// Migrate brings the schema up to date.
type Migrate struct{}

// Help gives examples.
func (Migrate) Help() string {
	return `Every command that writes does this by itself; run it alone to see that a new
version can open the record. A server must not be running.

Examples:
  refold migrate
  refold migrate --data /var/lib/refold --json`
}

// Run migrates.
func (Migrate) Run(e *env) error {
	if err := os.MkdirAll(e.config.Data, 0o700); err != nil {
		return fmt.Errorf("data directory %s: %w", e.config.Data, err)
	}
	from, to, err := app.MigrateDatabase(e.ctx, e.config)
	if err != nil {
		return err
	}
	switch {
	case e.cli.JSON:
		e.line(map[string]any{"from": from, "to": to})
	case from == to:
		fmt.Fprintf(e.out, "The schema is up to date (version %d).\n", to)
	default:
		fmt.Fprintf(e.out, "The schema went from version %d to %d.\n", from, to)
	}
	return nil
}
