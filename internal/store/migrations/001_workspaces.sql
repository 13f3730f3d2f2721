-- Times are nanoseconds since 1970. What is JSON is written and read as a whole, by the types in this package.

CREATE TABLE workspaces (
	id               TEXT PRIMARY KEY,
	kind             TEXT NOT NULL,           -- workspace, or vm: a machine that is deleted when its time is over
	name             TEXT NOT NULL DEFAULT '',
	labels           TEXT NOT NULL DEFAULT '{}',
	spec             TEXT NOT NULL,           -- JSON: what never changes
	disks            TEXT NOT NULL,           -- JSON: what its machine works on
	created_at       INTEGER NOT NULL,
	last_activity_at INTEGER NOT NULL,
	expires_at       INTEGER NOT NULL DEFAULT 0,
	reset_count      INTEGER NOT NULL DEFAULT 0,
	last_reset_at    INTEGER NOT NULL DEFAULT 0,
	starts           INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE snapshots (
	workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
	name         TEXT NOT NULL,
	disks        TEXT NOT NULL,               -- JSON: those to start again from
	whole        INTEGER NOT NULL,            -- 1: the root disk too
	size_bytes   INTEGER NOT NULL,
	created_at   INTEGER NOT NULL,
	PRIMARY KEY (workspace_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE commands (
	workspace_id     TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
	sequence         INTEGER NOT NULL,
	argv             TEXT NOT NULL,           -- JSON
	cwd              TEXT NOT NULL,
	started_at       INTEGER NOT NULL,
	ended_at         INTEGER NOT NULL DEFAULT 0, -- 0: it has not, or nobody saw it
	result           TEXT NOT NULL DEFAULT '{}', -- JSON: how it ended
	stdout           BLOB NOT NULL DEFAULT x'',
	stderr           BLOB NOT NULL DEFAULT x'',
	PRIMARY KEY (workspace_id, sequence)
) STRICT, WITHOUT ROWID;

-- Counting by it reads no output.
CREATE INDEX commands_of ON commands (workspace_id);
