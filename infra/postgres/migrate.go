package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"refold/domain/event"
	"refold/migrations"
)

// migrateLock is the advisory lock that one migrator at a time holds ("REFO").
const migrateLock = 0x5245464f

// Latest is the schema version that this build needs.
var Latest = latest()

func latest() (v int64) {
	files, _ := fs.Glob(migrations.Postgres, "postgres/*.sql")
	for _, f := range files {
		number, _, _ := strings.Cut(strings.TrimPrefix(f, "postgres/"), "_")
		n, _ := strconv.ParseInt(number, 10, 64)
		v = max(v, n)
	}
	return v
}

// Migrate brings the schema of a database up to date and tells the version
// before and after. Several processes may do so at once: one migrates, the
// others wait for it. Errors as of Open.
func Migrate(ctx context.Context, dsn string) (from, to int64, err error) {
	config, err := parseDSN(dsn)
	if err != nil {
		return 0, 0, err
	}
	db := &DB{config: config, name: describe(config)}
	if err := db.probe(ctx); err != nil {
		return 0, 0, err
	}
	return db.migrate(ctx)
}

// Version is the schema version of a database, 0 for an empty one. It may be
// asked while servers run.
func Version(ctx context.Context, dsn string) (int64, error) {
	config, err := parseDSN(dsn)
	if err != nil {
		return 0, err
	}
	db := &DB{config: config, name: describe(config)}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return 0, db.refused(ctx, err)
	}
	defer shut(c)
	return db.version(ctx, c)
}

func (db *DB) version(ctx context.Context, c *pgx.Conn) (v int64, err error) {
	err = c.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied", pgx.QueryExecModeSimpleProtocol).Scan(&v)
	if code(err) == codeNoTable {
		return 0, nil
	}
	return v, db.refused(ctx, err)
}

func (db *DB) migrate(ctx context.Context) (from, to int64, err error) {
	c, err := pgx.ConnectConfig(ctx, db.config.Copy())
	if err != nil {
		return 0, 0, db.refused(ctx, err)
	}
	defer shut(c) // which gives the lock back
	if from, err = db.version(ctx, c); err != nil || from == Latest {
		return from, from, err
	}
	if from > Latest {
		return from, from, db.errNewer(from)
	}
	if _, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", pgx.QueryExecModeExec, int64(migrateLock)); err != nil {
		return from, from, db.refused(ctx, err)
	}
	if from, err = db.version(ctx, c); err != nil || from == Latest {
		return from, from, err
	}
	files, err := fs.Sub(migrations.Postgres, "postgres")
	if err != nil {
		return from, from, err
	}
	conn := stdlib.OpenDB(*db.config.Copy())
	defer func() { err = errors.Join(err, db.problem("close", conn.Close())) }()
	p, err := goose.NewProvider(goose.DialectPostgres, conn, files, goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return from, from, db.problem("migrate", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return from, from, db.refused(ctx, err)
	}
	return from, Latest, nil
}

// checkVersion refuses a database that this build may not migrate or cannot read.
func (db *DB) checkVersion(ctx context.Context) error {
	c, err := pgx.ConnectConfig(ctx, db.config.Copy())
	if err != nil {
		return db.refused(ctx, err)
	}
	defer shut(c)
	v, err := db.version(ctx, c)
	switch {
	case err != nil:
		return err
	case v < Latest:
		return fmt.Errorf("%w: %s has schema %d, this build needs %d; run refold migrate", event.ErrUnavailable, db.name, v, Latest)
	case v > Latest:
		return db.errNewer(v)
	}
	return nil
}

func (db *DB) errNewer(v int64) error {
	return fmt.Errorf("%w: %s has schema %d, this build knows %d; upgrade refold", event.ErrUnavailable, db.name, v, Latest)
}
