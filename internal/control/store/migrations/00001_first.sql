-- One text for SQLite and PostgreSQL. Times are microseconds since 1970 in UTC; 0 means never.
-- +goose Up

CREATE TABLE teams (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    slug          TEXT NOT NULL UNIQUE,
    max_sandboxes BIGINT NOT NULL DEFAULT 0, -- of all quotas: 0 is no limit
    max_vcpus     BIGINT NOT NULL DEFAULT 0,
    max_memory_mb BIGINT NOT NULL DEFAULT 0,
    max_disk_mb   BIGINT NOT NULL DEFAULT 0,
    max_egress_mb BIGINT NOT NULL DEFAULT 0,
    last_event    BIGINT NOT NULL DEFAULT 0, -- the id of the latest event
    created_at    BIGINT NOT NULL
);

CREATE TABLE users (
    id         TEXT PRIMARY KEY,
    email      TEXT NOT NULL UNIQUE, -- in lower case
    name       TEXT NOT NULL,
    password   TEXT NOT NULL,        -- argon2id in PHC form; '' is no login by password
    disabled   BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL
);

CREATE TABLE members (
    team_id   TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    user_id   TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role      TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    joined_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, user_id)
);
CREATE INDEX members_of_user ON members (user_id);

CREATE TABLE api_keys (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL,
    hash         TEXT NOT NULL UNIQUE, -- SHA-256 of the key in hex
    scopes       TEXT NOT NULL,        -- separated by spaces
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX api_keys_of_team ON api_keys (team_id, created_at);
CREATE INDEX api_keys_of_creator ON api_keys (created_by);

CREATE TABLE sessions (
    hash       TEXT PRIMARY KEY, -- SHA-256 of the cookie in hex
    user_id    TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    team_id    TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_of_user ON sessions (user_id);

CREATE TABLE hosts (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    seen_at    BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE sandboxes (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams (id),
    host_id      TEXT NOT NULL REFERENCES hosts (id),
    wanted       TEXT NOT NULL CHECK (wanted IN ('running', 'paused', 'deleted')),
    status       TEXT NOT NULL,   -- as the host last reported it
    made         BIGINT NOT NULL, -- 1 when its host has created it
    template     TEXT NOT NULL,
    template_id  TEXT NOT NULL DEFAULT '', -- '': an environment of its host
    vcpus        BIGINT NOT NULL,
    memory_mb    BIGINT NOT NULL,
    disk_mb      BIGINT NOT NULL,
    timeout_sec  BIGINT NOT NULL,
    metadata     TEXT NOT NULL,   -- a JSON object of texts
    parent_id    TEXT NOT NULL,   -- of a fork
    created_by   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    started_at   BIGINT NOT NULL DEFAULT 0,
    active_at    BIGINT NOT NULL DEFAULT 0,
    updated_at   BIGINT NOT NULL,
    sent_since   BIGINT NOT NULL DEFAULT 0, -- identifies the machine that has sent sent_bytes
    sent_bytes   BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sandboxes_of_team ON sandboxes (team_id, created_at);
CREATE INDEX sandboxes_of_host ON sandboxes (host_id);
CREATE INDEX sandboxes_of_template ON sandboxes (template_id);

CREATE TABLE idempotency (
    team_id    TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    key        TEXT NOT NULL,
    request    TEXT NOT NULL, -- SHA-256 of the request in hex
    sandbox_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (team_id, key)
);
CREATE INDEX idempotency_of_sandbox ON idempotency (sandbox_id);
CREATE INDEX idempotency_of_team ON idempotency (team_id, created_at);

CREATE TABLE audit (
    id         TEXT PRIMARY KEY, -- increases with time
    team_id    TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    actor_type TEXT NOT NULL CHECK (actor_type IN ('user', 'api_key', 'system')),
    actor_id   TEXT NOT NULL,
    actor_name TEXT NOT NULL,
    action     TEXT NOT NULL,
    resource   TEXT NOT NULL,
    subject    TEXT NOT NULL,    -- the id of the resource
    address    TEXT NOT NULL,    -- of the client
    result     TEXT NOT NULL,    -- ok, or the kind of the error
    at         BIGINT NOT NULL
);
CREATE INDEX audit_of_team ON audit (team_id, at, id);

CREATE TABLE identities (
    issuer     TEXT NOT NULL, -- the URL of an OpenID provider
    subject    TEXT NOT NULL, -- its name for the user
    user_id    TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
CREATE UNIQUE INDEX identities_of_user ON identities (user_id, issuer);

CREATE TABLE login_links (
    hash       TEXT PRIMARY KEY, -- SHA-256 of the link's token in hex
    user_id    TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL
);

CREATE TABLE templates (
    id         TEXT PRIMARY KEY,
    team_id    TEXT NOT NULL REFERENCES teams (id),
    host_id    TEXT NOT NULL REFERENCES hosts (id),
    name       TEXT NOT NULL,
    sandbox_id TEXT NOT NULL,   -- the sandbox that became the template
    wanted     TEXT NOT NULL CHECK (wanted IN ('present', 'deleted')),
    made       BIGINT NOT NULL, -- 1 when its host has made it
    files_only BIGINT NOT NULL, -- 1 if it has no processes
    vcpus      BIGINT NOT NULL,
    memory_mb  BIGINT NOT NULL,
    disk_mb    BIGINT NOT NULL,
    size_bytes BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX templates_of_team ON templates (team_id, name) WHERE made = 1 AND wanted = 'present';
CREATE UNIQUE INDEX templates_being_made ON templates (sandbox_id) WHERE made = 0;
CREATE INDEX templates_of_host ON templates (host_id);

-- The sum of all rows of a team up to a time is what its running sandboxes used at that time.
CREATE TABLE use_changes (
    team_id    TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    sandbox_id TEXT NOT NULL,   -- '': the sum of earlier rows, which were removed
    at         BIGINT NOT NULL,
    running    BIGINT NOT NULL, -- 1 when the sandbox began to run, -1 when it ended
    vcpus      BIGINT NOT NULL, -- likewise, with this sign
    memory_mb  BIGINT NOT NULL
);
CREATE INDEX use_changes_of_team ON use_changes (team_id, at);

-- What the sandboxes of a team have sent to other computers, by month.
CREATE TABLE egress (
    team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    month   BIGINT NOT NULL, -- its first moment in UTC
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (team_id, month)
);

-- Ports of sandboxes that browsers can open.
CREATE TABLE preview_ports (
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    port       BIGINT NOT NULL,
    public     BIGINT NOT NULL, -- 1: everybody may open it
    link_key   TEXT NOT NULL,   -- signs its links
    PRIMARY KEY (sandbox_id, port)
);

CREATE TABLE preview_logins (
    hash       TEXT PRIMARY KEY, -- SHA-256 of the token or of the cookie in hex
    kind       TEXT NOT NULL CHECK (kind IN ('token', 'cookie')),
    session    TEXT NOT NULL REFERENCES sessions (hash) ON DELETE CASCADE,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    port       BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX preview_logins_of_session ON preview_logins (session);
CREATE INDEX preview_logins_of_sandbox ON preview_logins (sandbox_id);
CREATE INDEX preview_logins_that_expire ON preview_logins (expires_at);

CREATE TABLE events (
    team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    id      BIGINT NOT NULL, -- 1, 2, 3 … in each team, in the order of the commits
    type    TEXT NOT NULL,
    subject TEXT NOT NULL,   -- the id of the record that changed
    data    TEXT NOT NULL,   -- a JSON object of texts
    at      BIGINT NOT NULL,
    PRIMARY KEY (team_id, id)
);
