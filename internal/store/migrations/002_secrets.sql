-- The secrets of workspaces. Their names are in the workspace's spec too, which is all that is ever shown.

CREATE TABLE secrets (
	workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
	name         TEXT NOT NULL,
	source       TEXT NOT NULL,               -- where the value came from
	sealed       BLOB NOT NULL,               -- by the key in secrets.key
	PRIMARY KEY (workspace_id, name)
) STRICT, WITHOUT ROWID;
