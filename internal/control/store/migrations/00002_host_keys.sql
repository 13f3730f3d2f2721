-- +goose Up

-- The key is in the state folder of the host. '' is a host that has not yet told its key.
ALTER TABLE hosts ADD COLUMN key TEXT NOT NULL DEFAULT '';
