// Package migrations carries the database schemas, one folder per database, as
// numbered goose files. It imports the standard library only. A released file
// never changes; a change of schema is a new file.
package migrations

import "embed"

// SQLite holds sqlite/*.sql.
//
//go:embed sqlite/*.sql
var SQLite embed.FS

// Postgres holds postgres/*.sql.
//
//go:embed postgres/*.sql
var Postgres embed.FS
