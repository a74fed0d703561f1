package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"refold/domain/event"
)

// oldest is the oldest version that is taken, as server_version_num.
const oldest = 130000

// probe refuses a server that cannot keep the promises of this package, with the
// reason. Prepared statements are avoided, as a pooler may be in between.
func (db *DB) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, replyWait)
	defer cancel()
	a, err := pgx.ConnectConfig(ctx, db.config.Copy())
	if err != nil {
		return db.refused(ctx, err)
	}
	defer shut(a)
	b, err := pgx.ConnectConfig(ctx, db.config.Copy())
	if err != nil {
		return db.refused(ctx, err)
	}
	defer shut(b)
	var version int
	var name, encoding string
	var replica, readOnly bool
	err = a.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(), current_setting('transaction_read_only')::bool, current_setting('server_encoding')",
		pgx.QueryExecModeSimpleProtocol).Scan(&version, &name, &replica, &readOnly, &encoding)
	switch {
	case err != nil:
		return db.refused(ctx, err)
	case version < oldest:
		return fmt.Errorf("%w: %s is version %s, refold needs 13 or newer; upgrade the server", event.ErrUnavailable, db.name, name)
	case replica:
		return fmt.Errorf("%w: %s is a read-only replica; name the primary (target_session_attrs=read-write finds it among several hosts)", event.ErrUnavailable, db.name)
	case readOnly:
		return fmt.Errorf("%w: %s is read-only for this user (default_transaction_read_only is on); turn it off or name another database or user", event.ErrUnavailable, db.name)
	case encoding != "UTF8":
		return fmt.Errorf("%w: %s has the encoding %s, refold needs UTF8; create a database with it", event.ErrUnavailable, db.name, encoding)
	}
	return db.refused(ctx, db.probeSession(ctx, a, b))
}

func (db *DB) refused(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return db.problem("open", err)
}

// probeSession tells whether a connection is a session of the server's. A pooler
// in transaction mode gives each transaction any session that is free: two
// connections then share one, or what one has set is gone in the next statement.
func (db *DB) probeSession(ctx context.Context, a, b *pgx.Conn) error {
	pooled := func(how string) error {
		return fmt.Errorf("%w: %s is behind a pooler that shares sessions between transactions (%s); wake-ups and settings need a session of their own: connect to the server itself or set the pooler to session mode", event.ErrUnavailable, db.name, how)
	}
	pid := func(c *pgx.Conn) (n int, err error) {
		err = c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&n)
		return n, err
	}
	if _, err := a.Exec(ctx, "SELECT set_config('refold.session', 'a', false)", pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	mine, err := pid(a)
	if err != nil {
		return err
	}
	// While b is in a transaction its session cannot be lent to a.
	if _, err := b.Exec(ctx, "BEGIN", pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	theirs, err := pid(b)
	if err != nil {
		return err
	}
	if mine == theirs {
		return pooled("two connections got one backend")
	}
	var again int
	var setting string
	if err := a.QueryRow(ctx, "SELECT pg_backend_pid(), coalesce(current_setting('refold.session', true), '')", pgx.QueryExecModeSimpleProtocol).Scan(&again, &setting); err != nil {
		return err
	}
	if again != mine || setting != "a" {
		return pooled("the backend changed between two statements")
	}
	if _, err := b.Exec(ctx, "COMMIT", pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	if db.quiet {
		return nil
	}
	// And a wake-up must come through.
	if _, err := a.Exec(ctx, "LISTEN refold_probe", pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	if _, err := b.Exec(ctx, "NOTIFY refold_probe", pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := a.WaitForNotification(soon); err != nil {
		if ctx.Err() == nil && soon.Err() != nil {
			return pooled("a notification did not come through")
		}
		return err
	}
	return nil
}
