-- What was done in workspaces since they were created or last reset that has no record of its own. Of each kind the last are kept, and the number of the last of
-- them is how many there were.
CREATE TABLE events (
	workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
	kind         TEXT NOT NULL,
	sequence     INTEGER NOT NULL,            -- from 1 on, for each kind
	at           INTEGER NOT NULL,
	detail       TEXT NOT NULL,               -- JSON: what was done
	PRIMARY KEY (workspace_id, kind, sequence)
) STRICT, WITHOUT ROWID;
