package handlers

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// Content names stored content as Contents lists it. ID and Seen are the store's
// own; Seen changes whenever somebody puts it or finds it in use.
type Content struct {
	Tenant, Digest string
	Size           int64 // bytes
	ID, Seen       int64
}

// Contents is the blob store as the collector sees it. Ages are by the store's
// own clock.
type Contents interface {
	// Old gives at most limit contents that nobody has put or kept for at least
	// age, those of the longest time first, after the place of another one (zero =
	// from the start). What a clock that jumped has stamped with a time to come is
	// old, too.
	Old(ctx context.Context, age time.Duration, after Content, limit int) ([]Content, error)
	// Keep says that contents are in use, or are about to be, and gives how many of
	// them are there.
	Keep(ctx context.Context, tenant string, digests ...string) (int, error)
	// Remove deletes contents for good, but those that somebody has put or kept
	// since they were listed, and gives how many and how much.
	Remove(ctx context.Context, contents ...Content) (int, int64, error)
}

// Defaults of a Collector.
const (
	CollectGrace = 24 * time.Hour
	CollectEvery = time.Hour
)

const (
	collectPage = 500
	collectMost = 20_000 // contents that one pass looks at
)

// Collector removes content that no fact of a living session names: of deleted
// and emptied sessions, of requests that were refused, of processes that died
// between storing it and recording it.
//
// Nothing that is in use is removed. Whoever records a fact that names content
// has put or kept it less than Grace before. A pass lists what nobody has put or
// kept for Grace, then waits for the view of references to reach the present end
// of the log, asks it about each, and removes only what is still as it was
// listed; the store decides between that and a Put of the same content. So a
// fact that the view does not know yet belongs to content that is not listed, or
// was kept since. Because a clock can jump, content must be found unused in two
// passes, and the time between those is measured by no clock that can be set.
// What is in use is noted as seen, so each content is looked at once in Grace.
//
// Several processes may collect at the same time. Fields are set before Run.
type Collector struct {
	Contents Contents
	// InUse brings the view of references up to the present end of the log, and
	// tells which of the contents it then has a reference of. What it can't be sure
	// of is an error.
	InUse func(ctx context.Context, contents []Content) ([]bool, error)
	Clock Clock
	Log   *slog.Logger
	Grace time.Duration // 0 = CollectGrace
	Every time.Duration // 0 = CollectEvery

	condemned map[[2]string]int64 // found unused by the pass before, as seen
}

// Collected is what a pass has done.
type Collected struct {
	Checked int   // contents looked at
	Unused  int   // that nothing names
	Removed int   // of those, the ones that are gone now
	Bytes   int64 // that they took; of the unused ones if nothing was to be removed
}

// Run makes a pass now and then until ctx ends.
func (c *Collector) Run(ctx context.Context) {
	every := c.Every
	if every <= 0 {
		every = CollectEvery
	}
	for c.sleep(ctx, every) {
		done, err := c.Pass(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.Log.Warn("collect unused content; the next pass goes on", "error", err)
		case done.Removed > 0:
			c.Log.Info("unused content was removed", "removed", done.Removed, "bytes", done.Bytes)
		}
	}
}

// Pass removes what is unused, and was so in the pass before.
func (c *Collector) Pass(ctx context.Context) (Collected, error) {
	before, now := c.condemned, map[[2]string]int64{}
	done, err := c.walk(ctx, func(unused []Content) (ripe []Content) {
		for _, u := range unused {
			k := [2]string{u.Tenant, u.Digest}
			if seen, twice := before[k]; twice && seen == u.Seen {
				ripe = append(ripe, u)
			}
			now[k] = u.Seen
		}
		return ripe
	})
	if err == nil {
		c.condemned = now
	}
	return done, err
}

// Once removes what is unused without looking twice, or only counts it.
func (c *Collector) Once(ctx context.Context, count bool) (Collected, error) {
	var bytes int64
	done, err := c.walk(ctx, func(unused []Content) []Content {
		if !count {
			return unused
		}
		for _, u := range unused {
			bytes += u.Size
		}
		return nil
	})
	done.Bytes += bytes
	return done, err
}

// walk looks at old contents page by page; ripe says which of the unused ones
// are removed.
func (c *Collector) walk(ctx context.Context, ripe func([]Content) []Content) (done Collected, err error) {
	grace := c.Grace
	if grace <= 0 {
		grace = CollectGrace
	}
	var last Content
	looked := map[[2]string]bool{}
	for done.Checked < collectMost {
		page, err := c.Contents.Old(ctx, grace, last, collectPage)
		if err != nil || len(page) == 0 {
			return done, err
		}
		whole := len(page) == collectPage
		last = page[len(page)-1]
		// With a short grace, what this pass has kept comes again.
		page = slices.DeleteFunc(page, func(p Content) bool { return looked[[2]string{p.Tenant, p.Digest}] })
		if len(page) == 0 {
			return done, nil
		}
		for _, p := range page {
			looked[[2]string{p.Tenant, p.Digest}] = true
		}
		inUse, err := c.InUse(ctx, page)
		if err != nil {
			return done, err
		}
		done.Checked += len(page)
		var unused []Content
		used := map[string][]string{}
		for i, p := range page {
			if inUse[i] {
				used[p.Tenant] = append(used[p.Tenant], p.Digest)
			} else {
				unused = append(unused, p)
			}
		}
		for tenant, digests := range used {
			if _, err := c.Contents.Keep(ctx, tenant, digests...); err != nil {
				return done, err
			}
		}
		done.Unused += len(unused)
		for _, u := range ripe(unused) { // one by one: each may be large
			n, bytes, err := c.Contents.Remove(ctx, u)
			done.Removed, done.Bytes = done.Removed+n, done.Bytes+bytes
			if err != nil {
				return done, err
			}
		}
		if !whole {
			return done, nil
		}
	}
	return done, nil
}

func (c *Collector) sleep(ctx context.Context, d time.Duration) bool {
	woken := make(chan struct{})
	defer c.Clock.AfterFunc(d, func() { close(woken) })()
	select {
	case <-woken:
		return true
	case <-ctx.Done():
		return false
	}
}
