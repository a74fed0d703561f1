package cli

import (
	"errors"
	"fmt"
	"time"

	"refold/infra/app"
)

// cleanLeast is how long content must have been unused on a record that others
// use meanwhile: they may be about to record a fact that names it.
const cleanLeast = time.Hour

// Clean removes stored content that nothing names.
type Clean struct {
	Older time.Duration `help:"How long content must have been unused; on PostgreSQL at least 1h." default:"24h" placeholder:"TIME"`
	Count bool          `help:"Only say what would be removed."`
}

// Help gives examples.
func (Clean) Help() string {
	return `Removes images, files and long tool results that nothing names any more: those of
sessions that were deleted or emptied, and what was stored for a request that
was refused or cut off. A server does the same by itself, once an hour. The facts
stay on the record.

Examples:
  refold clean --count
  refold clean --older 0s
  refold clean --store postgres://refold@db/refold`
}

// Run cleans.
func (c Clean) Run(e *env) error {
	if c.Older < 0 || c.Older < cleanLeast && e.config.Store != "" {
		return usage("--older must be at least %s on PostgreSQL, where other processes may be about to use what they have stored, and never less than 0", cleanLeast)
	}
	if found, running := app.FindServer(e.ctx, e.config.Data); running && e.config.Store == "" {
		return fmt.Errorf("the server on %s has the record open and cleans it by itself, once an hour; stop it first to clean at once", found.Addr)
	}
	db, err := app.OpenDatabase(e.ctx, e.config, false)
	if err != nil {
		return err
	}
	// 0 is the default of the configuration; nothing is younger than a nanosecond.
	e.config.CollectGrace = max(c.Older, 1)
	done, err := app.Clean(e.ctx, e.config, db, c.Count)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	switch {
	case e.cli.JSON:
		e.line(map[string]any{"checked": done.Checked, "unused": done.Unused, "removed": done.Removed, "bytes": done.Bytes})
	case c.Count:
		fmt.Fprintf(e.out, "%d of %d stored contents are unused, %d bytes.\n", done.Unused, done.Checked, done.Bytes)
	default:
		fmt.Fprintf(e.out, "%d of %d stored contents were unused and are removed, %d bytes.\n", done.Removed, done.Checked, done.Bytes)
	}
	return nil
}
