// Package sqlite keeps the event log, read models, blobs and the index in one SQLite file,
// without a server: the embedded default. One process owns the file and writes;
// others may open it read-only meanwhile. It imports the domain, sqlstore, the packages
// whose ports it implements, ncruces/go-sqlite3 (its native interface; no
// database/sql after the migrations) and goose. Start reading at Open, then
// writer.submit for how appends share one fsync.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/domain/search"
	"refold/handlers"
	"refold/infra/sqlstore"
	"refold/projections"
)

// Options of Open. The zero value opens for serving.
type Options struct {
	// ReadOnly opens a file that another process may be serving: no lock is
	// taken, nothing can be written (ErrUnavailable), and Wait looks for news
	// every 20 ms. The file must exist and have this build's schema.
	ReadOnly bool
}

// DB is one open database file. Safe for concurrent use.
type DB struct {
	path     string
	readOnly bool
	lock     *os.File // nil when read-only
	w        *writer  // nil when read-only
	pool     *pool
	head     atomic.Int64 // last committed position; unused when read-only
	news     sqlstore.Signal
	recent   recent // unused when read-only
	counts   counts
	spaces   *search.Spaces

	keepLoose time.Duration // vectors that no chunk has

	closing  sync.Once
	closed   chan struct{}
	closeErr error
}

// Open opens or creates the database file, brings its schema up to date and
// takes the exclusive right to write it, which Close gives back (as does the
// death of the process). The directory must exist. Errors wrap
// event.ErrUnavailable (in use, no rights, disk full, newer schema) or
// event.ErrCorrupt (damaged, or no database) and say what to do.
func Open(ctx context.Context, path string, o Options) (_ *DB, err error) {
	if path, err = resolve(path); err != nil {
		return nil, err
	}
	db := &DB{path: path, readOnly: o.ReadOnly, closed: make(chan struct{}),
		spaces: search.NewSpaces(search.SpaceBytes, search.SpaceIdle), keepLoose: knowledge.KeepLoose}
	db.pool = newPool(db)
	if o.ReadOnly {
		if err := db.checkVersion(ctx); err != nil {
			return nil, err
		}
		return db, nil
	}
	if db.lock, err = acquire(path); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.lock.Close())
		}
	}()
	if err := create(path); err != nil {
		return nil, err
	}
	if _, _, err = migrate(ctx, path); err != nil {
		return nil, err
	}
	if db.w, err = newWriter(db); err != nil {
		return nil, err
	}
	return db, nil
}

// resolve makes one name of all names of a file, so that links cannot get
// around the lock.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%w: database path %s: %v", event.ErrUnavailable, path, err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", fmt.Errorf("%w: the directory of the database %s cannot be used (%v); create it first", event.ErrUnavailable, path, err)
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// create makes the file, if there is none, for this user alone: it holds
// conversations.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return problem(path, "create", err)
	}
	return problem(path, "create", f.Close())
}

// Path is the file, absolute and without links.
func (db *DB) Path() string { return db.path }

// Events is the event log in the file.
func (db *DB) Events() event.Store { return &Store{db} }

// Documents are the read models in the file.
func (db *DB) Documents() projections.Documents { return &Documents{db} }

// Blobs is the large content in the file.
func (db *DB) Blobs() handlers.Blobs { return &Blobs{db} }

// Contents is the same large content, as it is collected.
func (db *DB) Contents() handlers.Contents { return &Blobs{db} }

// Index is what can be searched of the knowledge in the file.
func (db *DB) Index() knowledge.Index { return &Index{db} }

// Close ends all waiting, writes the log back into the main file and gives the
// lock back. Requests in flight are answered first, later ones are
// event.ErrUnavailable. Closing twice is fine.
func (db *DB) Close() error {
	db.closing.Do(func() {
		close(db.closed)
		db.spaces.Close()
		var err error
		if db.w != nil {
			db.w.queue.Stop()
		}
		err = db.pool.close()
		if db.w != nil {
			err = errors.Join(err, db.w.close())
		}
		if db.lock != nil {
			err = errors.Join(err, db.lock.Close())
		}
		db.closeErr = err
	})
	return db.closeErr
}

func (db *DB) errClosed() error {
	return fmt.Errorf("%w: the database %s is closed", event.ErrUnavailable, db.path)
}

// submit hands a job to the writer.
func (db *DB) submit(ctx context.Context, j job) error {
	if db.readOnly {
		return fmt.Errorf("%w: the database %s was opened read-only", event.ErrUnavailable, db.path)
	}
	return db.w.submit(ctx, j)
}

// private are the parameters by which the driver gives a new -wal the database's
// own rights; the -shm holds no content.
func private(path string) string { return "?modeof=" + escape(path) }

// connect opens a connection with this package's settings. The file itself
// keeps journal_mode.
func connect(ctx context.Context, path string, flags sqlite3.OpenFlag) (*sqlite3.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	how := private
	if flags == sqlite3.OPEN_READONLY && fixed(path) {
		// SQLite would want to write beside the file before it reads it. Who has it open
		// elsewhere has a -wal beside it.
		if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
			how = func(string) string { return "?immutable=1" }
		}
	}
	conn, err := sqlite3.OpenFlags("file:"+escape(path)+how(path), flags|sqlite3.OPEN_URI)
	if err != nil {
		return nil, problem(path, "open", err)
	}
	if err := conn.Exec("PRAGMA busy_timeout=5000; PRAGMA trusted_schema=OFF"); err != nil {
		return nil, errors.Join(problem(path, "set up", err), conn.Close())
	}
	return conn, nil
}

// withWords adds full text search to a connection.
func withWords(path string, conn *sqlite3.Conn, err error) (*sqlite3.Conn, error) {
	if err != nil {
		return nil, err
	}
	if err := fts5.Register(conn); err != nil {
		return nil, errors.Join(problem(path, "set up", err), conn.Close())
	}
	return conn, nil
}
