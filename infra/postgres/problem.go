package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/handlers"
	"refold/projections"
)

// The codes of PostgreSQL that are answered with more than a message.
const (
	codeUnique       = "23505"
	codeDeadlock     = "40P01"
	codeSerial       = "40001"
	codeLock         = "55P03" // lock_timeout
	codeCancelled    = "57014" // statement_timeout
	codeReadOnly     = "25006"
	codeNoTable      = "42P01"
	codeOldPlan      = "0A000" // a migration changed a table under a prepared statement
	codeEncoding     = "22021"
	codeIndexTooWide = "54000"
)

func code(err error) string {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// broken tells whether the connection failed, so that it is not known whether
// the server has done what it was asked to do.
func broken(err error) bool {
	c := code(err)
	if c == "" {
		return !known(err)
	}
	// 57P0x: the session or server was ended; 08: the protocol broke; 25P03: the
	// session was idle for too long.
	return strings.HasPrefix(c, "57P0") || strings.HasPrefix(c, "08") || c == "25P03"
}

// passing tells whether the server refused for a reason that does not last, and
// did nothing.
func passing(err error) bool {
	return slices.Contains([]string{codeDeadlock, codeSerial, codeOldPlan}, code(err))
}

// known tells whether an error already has a meaning for callers.
func known(err error) bool {
	for _, k := range []error{event.ErrUnavailable, event.ErrCorrupt, event.ErrInvalid, event.ErrConflict, projections.ErrStale, projections.ErrBadCursor, handlers.ErrNoBlob, knowledge.ErrNoChunk, context.Canceled} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// problem turns an error of PostgreSQL into one that callers know, with a
// sentence that says what to do. doing is a verb: "read", "write".
func (db *DB) problem(doing string, err error) error {
	if err == nil || known(err) {
		return err
	}
	kind, advice := event.ErrUnavailable, ""
	switch c := code(err); {
	case c == "":
		advice = "the server cannot be reached; check that it runs and that address, port and firewall are right"
		if strings.Contains(err.Error(), "too many clients") {
			advice = "the server has no connections left; raise max_connections or use fewer"
		}
	case c == codeReadOnly:
		advice = "the server only reads (a replica, or default_transaction_read_only is on); name the primary"
	case c == codeLock, c == codeCancelled:
		advice = "another transaction has held what is needed for too long; end it (see pg_stat_activity) and try again"
	case c == codeNoTable, c == "3F000":
		advice = "the schema is not there; run refold migrate"
	case c == codeEncoding, c == "22P05", c == codeIndexTooWide:
		kind, advice = event.ErrInvalid, "a name holds bytes that are no text, or is too long"
	case c == "53100":
		advice = "the disk of the server is full; free some space and try again, nothing was lost"
	case c == "53300":
		advice = "the server has no connections left; raise max_connections or use fewer"
	case strings.HasPrefix(c, "28"):
		advice = "the server refused the user; check user, password and pg_hba.conf"
	case c == "3D000":
		advice = "there is no such database; create it first (createdb)"
	case c == "42501":
		advice = "the user lacks a right; make it the owner of the database or schema"
	case c == "42P07":
		advice = "the database has tables of another program with the same names; name another database or schema"
	case strings.HasPrefix(c, "XX00"):
		kind, advice = event.ErrCorrupt, "the server found damaged data; see its log, then restore a backup"
	case strings.HasPrefix(c, "57P0"), strings.HasPrefix(c, "08"):
		advice = "the server is shutting down or starting; try again"
	case strings.Contains(err.Error(), "unsupported startup parameter"):
		advice = "a pooler in between refused the connection; connect to the server itself"
	}
	if advice == "" {
		return fmt.Errorf("%w: %s %s: %w", kind, doing, db.name, err)
	}
	return fmt.Errorf("%w: %s %s: %s (%w)", kind, doing, db.name, advice, err)
}
