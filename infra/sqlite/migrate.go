package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/ext/fts5"
	"github.com/pressly/goose/v3"

	"refold/domain/event"
	"refold/migrations"
)

// application marks our files ("REFO"), as the first migration writes it.
const application = 0x5245464f

// Latest is the schema version that this build needs.
var Latest = latest()

func latest() (v int64) {
	files, _ := fs.Glob(migrations.SQLite, "sqlite/*.sql")
	for _, f := range files {
		number, _, _ := strings.Cut(strings.TrimPrefix(f, "sqlite/"), "_")
		n, _ := strconv.ParseInt(number, 10, 64)
		v = max(v, n)
	}
	return v
}

// Migrate brings the schema of a database file up to date, creating the file if
// needed, and tells the version before and after. Nobody may be serving the
// file. Errors as of Open.
func Migrate(ctx context.Context, path string) (from, to int64, err error) {
	if path, err = resolve(path); err != nil {
		return 0, 0, err
	}
	lock, err := acquire(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	return migrate(ctx, path)
}

// Version is the schema version of a database file, 0 for a new one. It may be
// asked while a server runs.
func Version(ctx context.Context, path string) (int64, error) {
	path, err := resolve(path)
	if err != nil {
		return 0, err
	}
	return version(ctx, path, sqlite3.OPEN_READONLY)
}

// version looks with the native interface first, so that a start on an
// up-to-date file pays for no migration machinery.
func version(ctx context.Context, path string, flags sqlite3.OpenFlag) (v int64, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return 0, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%w: the database %s is no regular file; name a file, not a directory", event.ErrUnavailable, path)
	}
	conn, err := connect(ctx, path, flags)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, problem(path, "close", conn.Close())) }()
	id, err := number(conn, "PRAGMA application_id")
	if err != nil {
		return 0, problem(path, "read", err)
	}
	tables, err := number(conn, "SELECT count(*) FROM sqlite_schema")
	switch {
	case err != nil:
		return 0, problem(path, "read", err)
	case tables == 0:
		return 0, nil
	case id != application:
		// goose's own table may be there alone if the first migration was cut short.
		if others, err := number(conn, "SELECT count(*) FROM sqlite_schema WHERE tbl_name NOT IN ('goose_db_version', 'sqlite_sequence')"); err != nil || others > 0 {
			return 0, errors.Join(problem(path, "read", err), fmt.Errorf("%w: the database %s belongs to another program; name another file", event.ErrUnavailable, path))
		}
	}
	v, err = number(conn, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied")
	return v, problem(path, "read", err)
}

func number(conn *sqlite3.Conn, sql string) (int64, error) {
	stmt, _, err := conn.Prepare(sql)
	if err != nil {
		return 0, err
	}
	var n int64
	if stmt.Step() {
		n = stmt.ColumnInt64(0)
	}
	return n, errors.Join(stmt.Err(), stmt.Close())
}

func migrate(ctx context.Context, path string) (from, to int64, err error) {
	if from, err = version(ctx, path, sqlite3.OPEN_READWRITE); err != nil || from == Latest {
		return from, from, err
	}
	if from > Latest {
		return from, from, errNewer(path, from)
	}
	db, err := driver.Open("file:"+escape(path)+private(path), func(c *sqlite3.Conn) error {
		if err := fts5.Register(c); err != nil {
			return err
		}
		return c.Exec("PRAGMA busy_timeout=5000; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
	})
	if err != nil {
		return from, from, problem(path, "open", err)
	}
	defer func() { err = errors.Join(err, problem(path, "close", db.Close())) }()
	files, err := fs.Sub(migrations.SQLite, "sqlite")
	if err != nil {
		return from, from, err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return from, from, problem(path, "migrate", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return from, from, problem(path, "migrate", err)
	}
	return from, Latest, nil
}

// checkVersion refuses a file that this build cannot read and may not migrate.
func (db *DB) checkVersion(ctx context.Context) error {
	v, err := version(ctx, db.path, sqlite3.OPEN_READONLY)
	switch {
	case err != nil:
		return err
	case v == 0:
		return fmt.Errorf("%w: there is no refold database at %s; start refold serve once, or name another file", event.ErrUnavailable, db.path)
	case v < Latest:
		return fmt.Errorf("%w: the database %s has schema %d, this build needs %d; run refold migrate", event.ErrUnavailable, db.path, v, Latest)
	case v > Latest:
		return errNewer(db.path, v)
	}
	return nil
}

func errNewer(path string, v int64) error {
	return fmt.Errorf("%w: the database %s has schema %d, this build knows %d; upgrade refold", event.ErrUnavailable, path, v, Latest)
}

// escape keeps a path whole inside a file: URI.
func escape(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23", "&", "%26").Replace(path)
}
