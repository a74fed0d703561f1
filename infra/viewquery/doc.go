// Package viewquery answers SQL of models about knowledge bases, documents and
// chunks (handlers.Views), whatever store holds them. Each query has a SQLite of
// its own, in memory and empty but for three virtual tables whose rows come
// from ports, filtered by tenant and scope before SQL sees them: there is
// nothing else to be read, and no text is spliced. The engine's authorizer
// allows SELECT on these tables and a list of functions; time, instructions,
// memory, rows and bytes are bounded.
//
// It imports domain, handlers and ncruces/go-sqlite3. Start reading at
// Engine.Query, then table.go.
package viewquery
