package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"refold/domain/event"
	"refold/domain/knowledge"
	"refold/handlers"
	"refold/infra/postgres"
	"refold/infra/sqlite"
	"refold/projections"
)

// Database is a record with its read models and large content.
type Database interface {
	Events() event.Store
	Documents() projections.Documents
	Blobs() handlers.Blobs
	Contents() handlers.Contents // the same large content, as it is collected
	Index() knowledge.Index
	Close() error
}

// members is what a database that several processes share adds: they prove to
// each other that they live, by the database's clock.
type members interface {
	Mark(ctx context.Context, id string) error
	Beat(ctx context.Context, id string) error
	Gone(ctx context.Context) ([]string, error)
	Leave(ctx context.Context, id string) error
}

// DatabaseFile is the file in a data directory that is the embedded record.
func DatabaseFile(data string) string { return filepath.Join(data, "refold.db") }

// embedded tells whether the record is a file of this process alone.
func (c Config) embedded() bool { return c.Store == "" }

// checkStore refuses an address that no store answers to.
func (c Config) checkStore() error {
	if c.embedded() || strings.HasPrefix(c.Store, "postgres://") || strings.HasPrefix(c.Store, "postgresql://") {
		return nil
	}
	return configError(errors.New("the store must be empty (a file in the data directory) or postgres://USER:PASSWORD@HOST:PORT/DATABASE"))
}

// OpenDatabase opens the record that a configuration names. reading opens the
// embedded one beside a process that serves it.
func OpenDatabase(ctx context.Context, c Config, reading bool) (Database, error) {
	if err := c.checkStore(); err != nil {
		return nil, err
	}
	if c.embedded() {
		return sqlite.Open(ctx, DatabaseFile(c.Data), sqlite.Options{ReadOnly: reading})
	}
	return postgres.Open(ctx, c.Store, postgres.Options{Gone: c.Gone})
}

// MigrateDatabase brings the schema up to date and gives the versions before and
// after.
func MigrateDatabase(ctx context.Context, c Config) (from, to int64, err error) {
	if err := c.checkStore(); err != nil {
		return 0, 0, err
	}
	if c.embedded() {
		return sqlite.Migrate(ctx, DatabaseFile(c.Data))
	}
	from, to, err = postgres.Migrate(ctx, c.Store)
	if err != nil {
		err = fmt.Errorf("migrate: %w", err)
	}
	return from, to, err
}
