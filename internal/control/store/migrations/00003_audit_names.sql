-- +goose Up

-- The name of the resource at the time of the action. '' is a resource without a name.
ALTER TABLE audit ADD COLUMN name TEXT NOT NULL DEFAULT '';
