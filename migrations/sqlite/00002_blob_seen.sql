-- +goose Up
-- When somebody last put a blob, or found it in use: milliseconds since 1970, by
-- the clock of the process. What was there before counts as seen now.
ALTER TABLE blob ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;
UPDATE blob SET seen = CAST(unixepoch('subsec') * 1000 AS INTEGER);
CREATE INDEX blob_seen ON blob (seen, id);

-- +goose Down
DROP INDEX blob_seen;
ALTER TABLE blob DROP COLUMN seen;
