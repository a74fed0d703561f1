package postgres

// How a follower misses nothing (P79)
//
// Positions are numbers of a sequence. They are drawn before the commit, so a
// higher one may become visible before a lower one, and numbers of transactions
// that were rolled back never do. A reader that goes on from the last position
// it saw loses the late ones.
//
// So nobody reads past the frontier: a number F of which it is known that every
// event at or below it which will ever exist is visible to any snapshot taken
// from now on. Below F reading is plain. F moves in two ways:
//
//  1. If F is complete and an event at F+1 is visible, F+1 is complete.
//  2. If there is a gap, let H be the highest position seen, and L the set of
//     transactions that hold a writer's lock (RowExclusiveLock) on the table of
//     events, read after the snapshot that showed H. As soon as none of L still
//     holds it, H is complete.
//
// Proof of 2. Take a number g < H that was not visible. The sequence has CACHE 1,
// so g was drawn before H was. H was visible in the snapshot, so it was drawn
// before the snapshot, which was taken before L was read. Whoever drew g held the
// lock then: a statement takes the locks of its tables before it runs, and only a
// running statement of the schema's only kind of insert draws a number. Locks are
// given up at the end of a transaction, after it has left the list of running
// transactions from which snapshots are made. So the writer of g either had ended
// before L was read, or is in L, and has ended when L has gone. In both cases g
// is visible to every snapshot from then on, or it was rolled back and is nothing
// for ever. Moving F to H therefore passes over nothing.
//
// A prepared transaction keeps its locks under a name of its own ("-1/..."). While
// there is one that holds the lock, an L that has lost a member counts as held.
//
// What has to be kept true elsewhere:
//   - event_position has CACHE 1 and no CYCLE, and nobody sets it back;
//   - numbers are drawn inside an INSERT INTO event, after the stream's row was
//     written (appendSQL), never before in a transaction of its own;
//   - the server is the primary (a replica does not know the locks);
//   - a crash of the server must not take back numbers that anybody has seen
//     (lazySQL).
//
// This differs from waiting until the oldest running transaction id has passed
// (pg_snapshot_xmin) in that transactions which write other tables, or other
// databases of the server, hold up nobody.

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"refold/infra/sqlstore"
)

const (
	// newSQL finds what comes after the frontier. By index alone, mostly.
	newSQL   = "SELECT position FROM event WHERE position > $1 ORDER BY position LIMIT 10000"
	newLimit = 10000
	// holdersSQL names the transactions that may still commit a number they drew.
	holdersSQL = `SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
AND relation = 'event'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	// startSQL gives the newest event and the frontier as somebody has noted it.
	startSQL = "SELECT coalesce((SELECT max(position) FROM event), 0), coalesce((SELECT value FROM mark WHERE name = 'frontier'), 0)"
	noteSQL  = "INSERT INTO mark (name, value) VALUES ('frontier', $1) ON CONFLICT (name) DO UPDATE SET value = greatest(mark.value, excluded.value)"
	// noteEvery is how many positions the noted frontier may lag behind.
	noteEvery = 10000
)

// tail knows the frontier and moves it. Any number of callers ask; those who ask
// while a step runs share the next one.
type tail struct {
	db       *DB
	frontier atomic.Int64
	gaps     atomic.Bool     // somebody may still fill a gap above the frontier
	news     sqlstore.Signal // the frontier has moved
	nudge    chan struct{}
	waiting  atomic.Int64 // callers of Wait

	mu      sync.Mutex
	next    *round
	running bool
	closed  bool
	idle    sync.Cond

	// Below: only for the goroutine that steps.
	conn    *pgx.Conn
	started bool
	held    []hold // by top, ascending
	noted   int64
}

// round is one step and those who wait for it.
type round struct {
	done chan struct{}
	err  error
}

// hold is a gap that somebody may still fill: everything up to top is complete
// when none of the holders holds the table any more.
type hold struct {
	top     int64
	holders map[string]bool
}

func newTail(db *DB) *tail {
	t := &tail{db: db, nudge: make(chan struct{}, 1)}
	t.idle.L = &t.mu
	return t
}

// poke says that there may be something new.
func (t *tail) poke() {
	select {
	case t.nudge <- struct{}{}:
	default:
	}
}

// advance moves the frontier as far as it goes now, in a step that begins after
// the call. It does not wait for anybody's transaction.
func (t *tail) advance(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	if t.closed || t.db.isClosed() {
		t.mu.Unlock()
		return t.db.errClosed()
	}
	r := t.next
	if r == nil {
		r = &round{done: make(chan struct{})}
		t.next = r
		if !t.running {
			t.running = true
			go t.run()
		}
	}
	t.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	case <-t.db.closed:
		return t.db.errClosed()
	}
}

// run steps until nobody asks any more.
func (t *tail) run() {
	for {
		t.mu.Lock()
		r := t.next
		t.next = nil
		if r == nil {
			t.running = false
			t.idle.Broadcast()
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		r.err = t.db.patient(context.Background(), "read", func(ctx context.Context) error {
			err := t.step(ctx)
			if err != nil && t.conn != nil && (broken(err) || t.conn.IsClosed()) {
				shut(t.conn)
				t.conn = nil
			}
			return err
		})
		close(r.done)
	}
}

// close waits for the step that runs and notes the frontier for the next start.
func (t *tail) close() {
	t.mu.Lock()
	t.closed = true
	for t.running {
		t.idle.Wait()
	}
	t.mu.Unlock()
	if t.conn == nil {
		return
	}
	if f := t.frontier.Load(); f > t.noted {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = t.conn.Exec(ctx, noteSQL, f) // only saves the next start some work
	}
	shut(t.conn)
}

func (t *tail) step(ctx context.Context) (err error) {
	if t.conn == nil {
		if t.conn, err = t.db.connect(ctx, lockWait); err != nil {
			t.conn = nil
			return fmt.Errorf("connect: %w", err)
		}
	}
	if !t.started {
		if err := t.start(ctx); err != nil {
			return err
		}
	}
	for {
		from := t.frontier.Load()
		to, top, full, err := t.look(ctx, from)
		if err != nil {
			return err
		}
		if top > to || len(t.held) > 0 {
			if to, err = t.settle(ctx, to, top); err != nil {
				return err
			}
		}
		t.move(ctx, to)
		if !full || to == from {
			return nil
		}
	}
}

// start begins at the end of the log if nobody writes at the moment, and
// otherwise at a place up to which somebody has been before.
func (t *tail) start(ctx context.Context) error {
	var top, noted int64
	var b pgx.Batch
	b.Queue(startSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&top, &noted) })
	b.Queue(feedsSQL, t.db.feeds.upTo()).Query(t.db.feeds.learn)
	if err := t.conn.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	holders, err := t.holders(ctx)
	if err != nil {
		return err
	}
	if len(holders) > 0 {
		t.held = []hold{{top, holders}}
		top = noted
	}
	t.started, t.noted = true, noted
	t.move(ctx, top)
	return nil
}

// look reads what is visible after the frontier and gives how far that is
// without a gap, and the highest. Feeds come after the events, so that those of
// all events that were seen are known.
func (t *tail) look(ctx context.Context, from int64) (to, top int64, full bool, err error) {
	to, top = from, from
	seen := 0
	var b pgx.Batch
	b.Queue(newSQL, from).Query(func(rows pgx.Rows) error {
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&top); err != nil {
				return err
			}
			if top == to+1 {
				to = top
			}
			seen++
		}
		return rows.Err()
	})
	b.Queue(feedsSQL, t.db.feeds.upTo()).Query(t.db.feeds.learn)
	if err := t.conn.SendBatch(ctx, &b).Close(); err != nil {
		return from, from, false, err
	}
	return to, top, seen == newLimit, nil
}

// settle finds out which gaps below top nobody can fill any more.
func (t *tail) settle(ctx context.Context, to, top int64) (int64, error) {
	holders, err := t.holders(ctx)
	if err != nil {
		return to, err
	}
	last := to
	if n := len(t.held); n > 0 {
		last = max(last, t.held[n-1].top)
	}
	if top > last {
		t.held = append(t.held, hold{top, holders})
	}
	prepared := false
	for h := range holders {
		prepared = prepared || strings.HasPrefix(h, "-1/")
	}
	free := -1
	for i, h := range t.held {
		n := len(h.holders)
		for id := range h.holders {
			if !holders[id] && !prepared {
				delete(h.holders, id)
			}
		}
		if n == 0 || len(h.holders) == 0 {
			free = i
		}
	}
	if free >= 0 {
		to = max(to, t.held[free].top)
		t.held = t.held[free+1:]
	}
	for len(t.held) > 0 && t.held[0].top <= to {
		t.held = t.held[1:]
	}
	return to, nil
}

func (t *tail) holders(ctx context.Context) (map[string]bool, error) {
	rows, err := t.conn.Query(ctx, holdersSQL)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	var id string
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		out[id] = true
		return nil
	})
	return out, err
}

// move makes a new frontier known, and notes it from time to time.
func (t *tail) move(ctx context.Context, to int64) {
	t.gaps.Store(len(t.held) > 0)
	if to <= t.frontier.Load() {
		return
	}
	t.frontier.Store(to)
	t.news.Tell()
	if to-t.noted >= noteEvery {
		if _, err := t.conn.Exec(ctx, noteSQL, to); err == nil {
			t.noted = to
		}
	}
}
