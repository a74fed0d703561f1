-- +goose Up
PRAGMA application_id = 1380271695;

-- A feed is a tenant and a category: the unit that a filtered scan follows.
-- Rows are never deleted and ids only grow.
CREATE TABLE feed (
    id       INTEGER PRIMARY KEY,
    tenant   TEXT NOT NULL,
    category TEXT NOT NULL,
    UNIQUE (tenant, category)
) STRICT;

-- The id of a stream is the position of its first event, so that no id is used
-- twice, also after a trim.
CREATE TABLE stream (
    id   INTEGER PRIMARY KEY,
    feed INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (feed, name)
) STRICT;

-- The log in commit order. Payloads come last, so that a walk that skips a row
-- does not read them.
CREATE TABLE event (
    position INTEGER PRIMARY KEY,
    feed     INTEGER NOT NULL,
    stream   INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    schema   INTEGER NOT NULL,
    time     INTEGER,
    id       TEXT NOT NULL,
    type     TEXT NOT NULL,
    meta     TEXT,
    data     BLOB
) STRICT;
CREATE UNIQUE INDEX event_stream ON event (stream, version);
CREATE UNIQUE INDEX event_id ON event (id);
CREATE INDEX event_feed ON event (feed);

-- 'position': highest position given out when a stream was last trimmed.
CREATE TABLE mark (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A shelf is a collection of one tenant. 'changed' grows with every commit that
-- touches it.
CREATE TABLE shelf (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    collection TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    documents  INTEGER NOT NULL DEFAULT 0,
    changed    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (collection, tenant)
) STRICT;

CREATE TABLE document (
    row    INTEGER PRIMARY KEY,
    shelf  INTEGER NOT NULL,
    id     TEXT NOT NULL,
    fields BLOB,
    body   BLOB,
    UNIQUE (shelf, id)
) STRICT;

-- The index fields that any document of a shelf ever had. Every document of the
-- shelf has one entry for each of them; a missing value is -Infinity, which
-- sorts first, so that any order is a walk over entries.
CREATE TABLE field (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    shelf INTEGER NOT NULL,
    name  TEXT NOT NULL,
    UNIQUE (shelf, name)
) STRICT;

CREATE TABLE entry (
    field INTEGER NOT NULL,
    value ANY NOT NULL,
    id    TEXT NOT NULL,
    row   INTEGER NOT NULL,
    PRIMARY KEY (field, value, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoint (
    projection TEXT PRIMARY KEY,
    position   TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Content in parts, so that no connection ever holds all of a large blob.
CREATE TABLE blob (
    id     INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    digest TEXT NOT NULL,
    size   INTEGER NOT NULL,
    UNIQUE (tenant, digest)
) STRICT;

CREATE TABLE blob_part (
    blob    INTEGER NOT NULL,
    part    INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (blob, part)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE blob_part;
DROP TABLE blob;
DROP TABLE checkpoint;
DROP TABLE entry;
DROP TABLE field;
DROP TABLE document;
DROP TABLE shelf;
DROP TABLE mark;
DROP TABLE event;
DROP TABLE stream;
DROP TABLE feed;
