-- +goose Up

-- A base that has been put into. texts and length count the chunks that are
-- searched, and their terms: what BM25 needs to know of a collection.
CREATE TABLE knowledge_base (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    base   text COLLATE "C" NOT NULL,
    texts  bigint NOT NULL DEFAULT 0,
    length bigint NOT NULL DEFAULT 0,
    UNIQUE (tenant, base)
);

CREATE TABLE knowledge_entry (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    document text COLLATE "C" NOT NULL,
    base     bigint NOT NULL,
    revision bigint NOT NULL,
    title    bytea NOT NULL,
    tags     text[] COLLATE "C" NOT NULL,
    disabled boolean NOT NULL,
    UNIQUE (tenant, document)
);
CREATE INDEX knowledge_entry_base ON knowledge_entry (base, id);
CREATE INDEX knowledge_entry_disabled ON knowledge_entry (tenant) WHERE disabled;
CREATE INDEX knowledge_entry_tags ON knowledge_entry USING gin (tags);

-- A row never changes what it is found by except words: a chunk with other
-- content is another row. Rows of a tenant are written under a lock of the tenant, so
-- that their numbers grow in commit order, and what was read of rows up to a number
-- stays true. Texts are bytea, as text refuses NUL. embedded is NULL for kinds that
-- are not searched. words holds one lexeme for each term and its level of impact
-- in the lists of the base (see domain/search).
CREATE TABLE knowledge_chunk (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    entry    bigint NOT NULL,
    base     bigint NOT NULL,
    place    bigint NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    disabled boolean NOT NULL,
    edition  bigint NOT NULL,
    length   bigint NOT NULL,
    embedded bytea,
    parent   text COLLATE "C" NOT NULL,
    first    bigint NOT NULL,
    past     bigint NOT NULL,
    tokens   bigint NOT NULL,
    digest   text COLLATE "C" NOT NULL,
    faq      bytea,
    context  bytea NOT NULL,
    content  bytea NOT NULL,
    words    tsvector,
    UNIQUE (tenant, name)
);
CREATE INDEX knowledge_chunk_entry ON knowledge_chunk (entry, place);
CREATE INDEX knowledge_chunk_embedded ON knowledge_chunk (tenant, embedded) WHERE embedded IS NOT NULL;
CREATE INDEX knowledge_chunk_tenant ON knowledge_chunk (tenant, id);
-- What waits to be sorted in is searched one by one, so it is kept short.
CREATE INDEX knowledge_chunk_words ON knowledge_chunk USING gin (words) WITH (gin_pending_list_limit = 1024);

-- The vectors of one model of a tenant, as they came.
CREATE TABLE knowledge_space (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    model  text COLLATE "C" NOT NULL,
    dims   bigint NOT NULL,
    UNIQUE (tenant, model)
);

-- loose is since when no chunk has it.
CREATE TABLE knowledge_vector (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    space  bigint NOT NULL,
    digest bytea NOT NULL,
    loose  timestamptz,
    data   real[] NOT NULL,
    UNIQUE (space, digest)
);
CREATE INDEX knowledge_vector_space ON knowledge_vector (space, id);
CREATE INDEX knowledge_vector_loose ON knowledge_vector (loose) WHERE loose IS NOT NULL;

-- +goose Down
DROP TABLE IF EXISTS knowledge_half;
DROP TABLE knowledge_vector;
DROP TABLE knowledge_space;
DROP TABLE knowledge_chunk;
DROP TABLE knowledge_entry;
DROP TABLE knowledge_base;
