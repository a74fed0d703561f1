-- +goose Up

-- A base that has been put into. texts and length count the chunks that are
-- searched, and their terms: what BM25 needs to know of a collection.
CREATE TABLE knowledge_base (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    base   TEXT NOT NULL,
    texts  INTEGER NOT NULL DEFAULT 0,
    length INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, base)
) STRICT;

CREATE TABLE knowledge_entry (
    row      INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant   TEXT NOT NULL,
    document TEXT NOT NULL,
    base     INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    title    TEXT NOT NULL,
    tags     TEXT NOT NULL,
    disabled INTEGER NOT NULL,
    UNIQUE (tenant, document)
) STRICT;
CREATE INDEX knowledge_entry_base ON knowledge_entry (base);
CREATE INDEX knowledge_entry_disabled ON knowledge_entry (tenant) WHERE disabled = 1;

CREATE TABLE knowledge_tag (
    tenant TEXT NOT NULL,
    tag    TEXT NOT NULL,
    entry  INTEGER NOT NULL,
    PRIMARY KEY (tenant, tag, entry)
) STRICT, WITHOUT ROWID;
CREATE INDEX knowledge_tag_entry ON knowledge_tag (entry);

-- A row never changes what it is found by: a chunk with other words is another
-- row. So what was read of rows up to a number stays true. embedded is NULL for
-- kinds that are not searched. Content comes last, so that a walk that skips a
-- row does not read it.
CREATE TABLE knowledge_chunk (
    row      INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant   TEXT NOT NULL,
    id       TEXT NOT NULL,
    entry    INTEGER NOT NULL,
    base     INTEGER NOT NULL,
    place    INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    disabled INTEGER NOT NULL,
    edition  INTEGER NOT NULL,
    length   INTEGER NOT NULL,
    embedded BLOB,
    parent   TEXT NOT NULL,
    first    INTEGER NOT NULL,
    past     INTEGER NOT NULL,
    tokens   INTEGER NOT NULL,
    digest   TEXT NOT NULL,
    faq      TEXT,
    context  TEXT NOT NULL,
    content  TEXT NOT NULL,
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX knowledge_chunk_entry ON knowledge_chunk (entry, place);
CREATE INDEX knowledge_chunk_embedded ON knowledge_chunk (tenant, embedded) WHERE embedded IS NOT NULL;

-- The inverted index: one list for each base, term and level of impact (see
-- domain/search), cut by us, so that the tokenizer has nothing to do but split at
-- spaces. It keeps rows only: no text, no places.
CREATE VIRTUAL TABLE knowledge_words USING fts5(words, content='', contentless_delete=1, detail=none, tokenize="ascii tokenchars '_.-+#='");
CREATE VIRTUAL TABLE knowledge_lists USING fts5vocab(knowledge_words, row);

-- The vectors of one model of a tenant: float32, little-endian, as they came.
CREATE TABLE knowledge_space (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant  TEXT NOT NULL,
    model   TEXT NOT NULL,
    dims    INTEGER NOT NULL,
    UNIQUE (tenant, model)
) STRICT;

-- loose is since when no chunk has it, in seconds since 1970.
CREATE TABLE knowledge_vector (
    row    INTEGER PRIMARY KEY AUTOINCREMENT,
    space  INTEGER NOT NULL,
    digest BLOB NOT NULL,
    loose  INTEGER,
    data   BLOB NOT NULL,
    UNIQUE (space, digest)
) STRICT;
CREATE INDEX knowledge_vector_loose ON knowledge_vector (loose) WHERE loose IS NOT NULL;

-- +goose Down
DROP TABLE knowledge_vector;
DROP TABLE knowledge_space;
DROP TABLE knowledge_lists;
DROP TABLE knowledge_words;
DROP TABLE knowledge_chunk;
DROP TABLE knowledge_tag;
DROP TABLE knowledge_entry;
DROP TABLE knowledge_base;
