// Package postgres keeps the event log, read models, blobs, the index and the
// liveness of instances in one PostgreSQL database (13 or newer), which any number of
// processes share. It imports the domain, sqlstore, the packages whose ports it
// implements, pgx and goose. Start reading at Open, then follow.go for why a
// follower misses nothing, then writer.submit for how appends share a commit.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/search"
	"refold/handlers"
	"refold/projections"
)

// Options of Open. The zero value is right for serving.
type Options struct {
	// Conns is the most connections for reads, documents and blobs, 8 if it is 0.
	// Four more are for appends, the tail, and wake-ups.
	Conns int
	// Quiet sends and takes no wake-ups: other processes see what is appended
	// after at most 250 ms.
	Quiet bool
	// NoMigrate refuses a database with an older schema instead of migrating it.
	NoMigrate bool
	// Gone takes the place of GoneAfter unless it is 0. All who share a database
	// must agree on it.
	Gone time.Duration
}

// DB is one database, with connections of its own. Safe for concurrent use.
type DB struct {
	name   string // for messages: host, port and database
	config *pgx.ConnConfig
	quiet  bool
	gone   time.Duration
	pool   *pgxpool.Pool
	w      *writer
	tail   *tail
	feeds  feeds
	notice notice
	half   *half
	spaces *search.Spaces // of vectors, where the server has no pgvector
	acked  atomic.Int64   // highest position that an append here was answered with

	keepLoose time.Duration // vectors that no chunk has

	closing sync.Once
	closed  chan struct{}
	stop    context.CancelFunc // ends the background work
	work    sync.WaitGroup
}

// Times within which the server must have answered. A stalled transaction of
// somebody else is waited for no longer than that.
const (
	lockWait  = 5 * time.Second  // for a row that another transaction holds
	stmtWait  = 30 * time.Second // for one statement
	replyWait = 40 * time.Second // for the network on top of it
)

// Open connects to a database, checks that it can be used (a primary, version 13
// or newer, no pooler that changes sessions between transactions) and brings its
// schema up to date; several processes may do so at once. dsn is a URL or
// keyword list as pgx takes it. Errors wrap event.ErrUnavailable and say what to
// do; they never hold the password.
func Open(ctx context.Context, dsn string, o Options) (_ *DB, err error) {
	config, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	db := &DB{config: config, name: describe(config), quiet: o.Quiet, gone: cmp.Or(o.Gone, GoneAfter), closed: make(chan struct{}),
		spaces: search.NewSpaces(search.SpaceBytes, search.SpaceIdle), keepLoose: knowledge.KeepLoose}
	db.half = &half{db: db, from: hnswFrom, narrow: scanned, graphs: map[int64]bool{}}
	if err := db.probe(ctx); err != nil {
		return nil, err
	}
	if o.NoMigrate {
		err = db.checkVersion(ctx)
	} else {
		_, _, err = db.migrate(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := db.half.prepare(ctx, !o.NoMigrate); err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, db.problem("open", err)
	}
	pc.ConnConfig = config
	pc.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { return setUp(ctx, c, lockWait) }
	pc.MaxConns = int32(o.Conns)
	if o.Conns <= 0 {
		pc.MaxConns = 8
	}
	// A connection that broke meanwhile is noticed when it is used, and then the
	// request is made again; asking first would double what each request costs.
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	if db.pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return nil, db.problem("open", err)
	}
	db.w = newWriter(db)
	db.tail = newTail(db)
	var background context.Context
	background, db.stop = context.WithCancel(context.Background())
	if err := db.tail.advance(ctx); err != nil {
		db.stop()
		db.tail.close()
		db.pool.Close()
		return nil, err
	}
	db.work.Go(func() { db.watch(background) })
	if !db.quiet {
		db.notice.ring = make(chan struct{}, 1)
		db.work.Go(func() { db.listen(background) })
		db.work.Go(func() { db.notify(background) })
	}
	return db, nil
}

// parseDSN reads a DSN without ever repeating its password.
func parseDSN(dsn string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: the PostgreSQL address cannot be read: %w", event.ErrUnavailable, err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	config.RuntimeParams["client_encoding"] = "UTF8" // whatever the database has: all we send is
	return config, nil
}

func describe(c *pgx.ConnConfig) string {
	return fmt.Sprintf("PostgreSQL at %s:%d/%s", c.Host, c.Port, c.Database)
}

// connect opens a connection with this package's settings.
func (db *DB) connect(ctx context.Context, lock time.Duration) (*pgx.Conn, error) {
	c, err := pgx.ConnectConfig(ctx, db.config.Copy())
	if err != nil {
		return nil, err
	}
	if err := setUp(ctx, c, lock); err != nil {
		shut(c)
		return nil, err
	}
	return c, nil
}

// setUp bounds how long a session waits, also the server's end of a session
// whose client is gone, and undoes defaults of a database or user that would
// break promises: appends are on the disk when they are answered, and each
// statement of a transaction sees what was committed before it.
func setUp(ctx context.Context, c *pgx.Conn, lock time.Duration) error {
	_, err := c.Exec(ctx, fmt.Sprintf(`SET statement_timeout = %d; SET lock_timeout = %d; SET idle_in_transaction_session_timeout = %d;
SET default_transaction_isolation = 'read committed'; SET jit = off; SET application_name = 'refold';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`,
		stmtWait.Milliseconds(), lock.Milliseconds(), stmtWait.Milliseconds()), pgx.QueryExecModeSimpleProtocol)
	return err
}

// shut closes a connection that nobody waits for.
func shut(c *pgx.Conn) {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // the server notices by itself
}

// Events is the event log in the database.
func (db *DB) Events() event.Store { return &Store{db} }

// Documents are the read models in the database.
func (db *DB) Documents() projections.Documents { return &Documents{db} }

// Blobs is the large content in the database.
func (db *DB) Blobs() handlers.Blobs { return &Blobs{db} }

// Contents is the same large content, as it is collected.
func (db *DB) Contents() handlers.Contents { return &Blobs{db} }

// Index is what can be searched of the knowledge in the database.
func (db *DB) Index() knowledge.Index { return &Index{db} }

// Close ends all waiting and the connections. Appends in flight are answered
// first, later requests are event.ErrUnavailable. Closing twice is fine.
func (db *DB) Close() error {
	db.closing.Do(func() {
		close(db.closed)
		db.spaces.Close()
		db.w.stop()
		db.stop()
		db.work.Wait()
		db.tail.close()
		db.pool.Close()
	})
	return nil
}

func (db *DB) errClosed() error {
	return fmt.Errorf("%w: the connection to %s is closed", event.ErrUnavailable, db.name)
}

// isClosed tells whether Close was called.
func (db *DB) isClosed() bool {
	select {
	case <-db.closed:
		return true
	default:
		return false
	}
}

// do runs a request that may be made again on a connection of the pool. Requests
// that fail because the connection did are made again for a few seconds, so that
// a server which restarts is no failure.
func (db *DB) do(ctx context.Context, doing string, f func(context.Context, *pgx.Conn) error) error {
	return db.patient(ctx, doing, func(ctx context.Context) error {
		return db.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return f(ctx, c.Conn()) })
	})
}

// patience is how long requests are made again while the server is away.
const patience = 5 * time.Second

// patient runs a request, and again while connections fail.
func (db *DB) patient(ctx context.Context, doing string, f func(context.Context) error) error {
	wait, until := 5*time.Millisecond, time.Now().Add(patience)
	for {
		if db.isClosed() {
			return db.errClosed()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		bound, cancel := context.WithTimeout(ctx, replyWait)
		err := f(bound)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s %s: %w", doing, db.name, ctx.Err())
		}
		if db.isClosed() {
			return errors.Join(db.errClosed(), err)
		}
		if !broken(err) && !passing(err) || time.Now().After(until) {
			return db.problem(doing, err)
		}
		if err := pause(ctx, db.closed, wait); err != nil {
			return err
		}
		wait = min(wait*2, 250*time.Millisecond)
	}
}

// pause waits unless the context or the database ends before.
func pause(ctx context.Context, closed <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-closed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
