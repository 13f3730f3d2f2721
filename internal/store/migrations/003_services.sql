-- The services of workspaces: of each name the one that was started last. That one runs is that it has not ended and its machine runs.

CREATE TABLE services (
	workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
	name         TEXT NOT NULL,
	spec         TEXT NOT NULL,               -- JSON: what was started
	started_at   INTEGER NOT NULL,
	ready_at     INTEGER NOT NULL DEFAULT 0,  -- 0: it was not
	ended_at     INTEGER NOT NULL DEFAULT 0,  -- 0: it has not, or nobody saw it
	result       TEXT NOT NULL DEFAULT '{}',  -- JSON: how it ended
	PRIMARY KEY (workspace_id, name)
) STRICT, WITHOUT ROWID;
