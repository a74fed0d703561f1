-- +goose Up
-- When somebody last put a blob, or found it in use, by the clock of this server.
-- What was there before counts as seen now.
ALTER TABLE blob ADD COLUMN seen timestamptz NOT NULL DEFAULT clock_timestamp();
CREATE INDEX blob_seen ON blob (seen, id);

-- +goose Down
ALTER TABLE blob DROP COLUMN seen;
