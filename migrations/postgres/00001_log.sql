-- +goose Up

-- A feed is a tenant and a category: the unit that a filtered scan follows.
-- Rows are never deleted. They are made one at a time under a lock of the table,
-- so that ids grow in commit order and "id > last" finds every new one.
CREATE TABLE feed (
    id       bigint PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    category text COLLATE "C" NOT NULL,
    UNIQUE (tenant, category)
);

-- The row of a stream is what its writers race for: each writes it first. Only
-- id, feed and name are indexed, so that a new version stays on the page.
CREATE TABLE stream (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    feed    bigint NOT NULL,
    name    text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    UNIQUE (feed, name)
) WITH (fillfactor = 70);

-- CACHE 1, so that numbers are given out in the order in which they are asked
-- for, over all connections.
CREATE SEQUENCE event_position AS bigint CACHE 1;

-- The log. Numbers that were rolled back or trimmed leave gaps. data is bytea and
-- meta is text, never jsonb, which refuses NUL and would not keep the bytes.
CREATE TABLE event (
    position bigint NOT NULL,
    feed     bigint NOT NULL,
    stream   bigint NOT NULL,
    version  bigint NOT NULL,
    time     bigint NOT NULL,
    schema   integer NOT NULL,
    id       text COLLATE "C" NOT NULL,
    type     text COLLATE "C" NOT NULL,
    meta     text COLLATE "C" NOT NULL,
    data     bytea NOT NULL,
    PRIMARY KEY (position)
);
CREATE UNIQUE INDEX event_stream ON event (stream, version);
CREATE UNIQUE INDEX event_id ON event (id);
CREATE INDEX event_feed ON event (feed, position);
ALTER SEQUENCE event_position OWNED BY event.position;
COMMENT ON COLUMN event.time IS 'nanoseconds since 1970, the smallest bigint for none';

-- 'frontier': a position up to which the log is known to be complete for ever.
CREATE TABLE mark (
    name  text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);

-- Who is alive, by the clock of this server.
CREATE TABLE instance (
    id   text COLLATE "C" PRIMARY KEY,
    seen timestamptz NOT NULL
);

CREATE TABLE checkpoint (
    projection text COLLATE "C" PRIMARY KEY,
    position   text COLLATE "C" NOT NULL
);

-- A shelf is a collection of one tenant.
CREATE TABLE shelf (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    collection text COLLATE "C" NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    documents  bigint NOT NULL DEFAULT 0,
    UNIQUE (collection, tenant)
);

CREATE TABLE document (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shelf  bigint NOT NULL,
    name   bytea NOT NULL,
    fields bytea NOT NULL,
    body   bytea NOT NULL,
    UNIQUE (shelf, name)
);

-- The index fields that any document of a shelf ever had. Every document of the
-- shelf has one entry for each of them, so that any order is a walk over entries.
CREATE TABLE field (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    shelf bigint NOT NULL,
    name  bytea NOT NULL,
    UNIQUE (shelf, name)
);

-- value sorts as bytes: empty for missing, then numbers, then strings, cut.
-- whole is the value where it was cut, folded its lower case where that differs.
CREATE TABLE entry (
    document bigint NOT NULL,
    field    bigint NOT NULL,
    value    bytea NOT NULL,
    name     bytea NOT NULL,
    whole    bytea,
    folded   bytea,
    PRIMARY KEY (document, field)
);
CREATE INDEX entry_value ON entry (field, value, name);

-- Content in parts, so that nobody ever holds all of a large blob.
CREATE TABLE blob (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    size   bigint NOT NULL,
    UNIQUE (tenant, digest)
);

CREATE TABLE blob_part (
    blob    bigint NOT NULL,
    part    integer NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (blob, part)
);

-- +goose Down
DROP TABLE blob_part;
DROP TABLE blob;
DROP TABLE entry;
DROP TABLE field;
DROP TABLE document;
DROP TABLE shelf;
DROP TABLE checkpoint;
DROP TABLE instance;
DROP TABLE mark;
DROP TABLE event;
DROP TABLE stream;
DROP TABLE feed;
