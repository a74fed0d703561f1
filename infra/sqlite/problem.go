package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"refold/domain/event"
)

// problem turns an error of SQLite into one that callers know, with a sentence
// that says what to do. doing is a verb: "read", "write".
func problem(path, doing string, err error) error {
	if err == nil || errors.Is(err, event.ErrUnavailable) || errors.Is(err, event.ErrCorrupt) || errors.Is(err, event.ErrInvalid) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	kind, advice := event.ErrUnavailable, ""
	switch {
	case errors.Is(err, sqlite3.FULL), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "the disk is full; free some space and try again, nothing was lost"
	case errors.Is(err, sqlite3.NOTADB):
		kind, advice = event.ErrCorrupt, "the file is not a SQLite database; name another file or move this one away"
	case errors.Is(err, sqlite3.CORRUPT):
		kind, advice = event.ErrCorrupt, "the file is damaged; stop refold, keep a copy of the file and its -wal, then restore a backup or run sqlite3's .recover"
	case errors.Is(err, sqlite3.BUSY), errors.Is(err, sqlite3.LOCKED):
		advice = "another program holds a lock on the file; close it and try again"
	case errors.Is(err, sqlite3.READONLY), errors.Is(err, sqlite3.PERM), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EROFS):
		advice = "the file or its directory cannot be written; give this user the right to write both"
	case errors.Is(err, sqlite3.CANTOPEN) && fixed(path):
		advice = "nothing can be written there, and the record was not closed before it came there, or another process has it open; copy it, and its -wal, to a place that can be written"
	case errors.Is(err, sqlite3.CANTOPEN):
		advice = "the file cannot be opened; check that its directory exists and that this user may use it"
	case errors.Is(err, sqlite3.IOERR) && full(path):
		advice = "the disk is full; free some space and try again, nothing was lost"
	case errors.Is(err, sqlite3.IOERR):
		advice = "the disk reported an error; check the disk and the system's log"
	}
	if advice == "" {
		return fmt.Errorf("%w: %s %s: %w", kind, doing, path, err)
	}
	return fmt.Errorf("%w: %s %s: %s (%w)", kind, doing, path, advice, plain{err})
}

// plain says an error of the driver once, on one line.
type plain struct{ error }

func (p plain) Error() string {
	first, _, _ := strings.Cut(p.error.Error(), "\n")
	return first
}

func (p plain) Unwrap() error { return p.error }
