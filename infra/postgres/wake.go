package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// channel carries wake-ups between processes. They say nothing but "look".
	channel = "refold_event"
	// poll is how often a waiting process looks although nobody woke it.
	poll = 250 * time.Millisecond
	// hush is the least time between two wake-ups that one process sends.
	hush = 5 * time.Millisecond
)

// notice sends wake-ups to other processes, on a connection of its own and after
// the commits, as a notification inside an append would make commits queue.
type notice struct {
	ring chan struct{} // nil when quiet
	pid  atomic.Uint32 // of the session that sends
}

func (n *notice) ringUp() {
	select {
	case n.ring <- struct{}{}:
	default: // nil, or the next wake-up speaks for this one, too
	}
}

// watch looks for news while somebody waits for them: when this process has
// committed, when another has woken it, after short times while somebody may
// still fill a gap, and every now and then in any case.
func (db *DB) watch(ctx context.Context) {
	const soonest = time.Millisecond
	wait := soonest
	for {
		d := poll
		if db.tail.gaps.Load() && db.tail.waiting.Load() > 0 {
			d = wait
			wait = min(wait*2, 50*time.Millisecond)
		} else {
			wait = soonest
		}
		t := time.NewTimer(d)
		select {
		case <-db.tail.nudge:
			wait = soonest
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		t.Stop()
		if db.tail.waiting.Load() > 0 {
			_ = db.tail.advance(ctx) // who waits asks by himself when it takes long
		}
	}
}

// listen takes wake-ups, for ever.
func (db *DB) listen(ctx context.Context) {
	db.keep(ctx, func(c *pgx.Conn, ready func()) error {
		if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
			return err
		}
		ready()
		db.tail.poke() // for what was missed
		for {
			n, err := c.WaitForNotification(ctx)
			if err != nil {
				return err
			}
			if n.PID != db.notice.pid.Load() {
				db.tail.poke()
			}
		}
	})
}

// notify sends wake-ups, for ever.
func (db *DB) notify(ctx context.Context) {
	db.keep(ctx, func(c *pgx.Conn, ready func()) error {
		db.notice.pid.Store(c.PgConn().PID())
		for {
			select {
			case <-db.notice.ring:
			case <-ctx.Done():
				return ctx.Err()
			}
			if _, err := c.Exec(ctx, "SELECT pg_notify($1, '')", channel); err != nil {
				db.notice.ringUp() // again on the next connection
				return err
			}
			ready()
			if err := pause(ctx, db.closed, hush); err != nil {
				return err
			}
		}
	})
}

// keep runs f on a connection and again on another when it breaks, with growing
// pauses while it does not get ready.
func (db *DB) keep(ctx context.Context, f func(c *pgx.Conn, ready func()) error) {
	const soonest, latest = 20 * time.Millisecond, 5 * time.Second
	wait := soonest
	for ctx.Err() == nil {
		c, err := db.connect(ctx, lockWait)
		if err == nil {
			_ = f(c, func() { wait = soonest }) // polling goes on meanwhile
			shut(c)
		}
		if pause(ctx, db.closed, wait) != nil || db.isClosed() {
			return
		}
		wait = min(wait*2, latest)
	}
}
