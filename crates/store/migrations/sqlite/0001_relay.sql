-- Ids are 16 bytes, times are milliseconds since 1970 in UTC, JSON is text, secrets are SHA-256.
-- The same tables and columns as in ../postgres; a test compares them.

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The last sequence number of every inbox (id: the agent's) and every conversation.
CREATE TABLE streams (
    id   BLOB NOT NULL PRIMARY KEY,
    head INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A deleted agent keeps its row, because events name their author by id; its name is free again.
CREATE TABLE agents (
    id            BLOB NOT NULL PRIMARY KEY,
    name          TEXT NOT NULL,
    name_key      TEXT NOT NULL,
    key_hash      BLOB NOT NULL,
    endpoint      TEXT,
    card          TEXT,
    registered_at INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    trace_id      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX agents_by_name ON agents (name_key) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX agents_by_key ON agents (key_hash) WHERE deleted_at IS NULL;

-- Who is connected where, and how far any connection was ever handed its inbox.
CREATE TABLE inboxes (
    agent_id       BLOB NOT NULL PRIMARY KEY,
    handed_through INTEGER NOT NULL DEFAULT 0,
    oldest         INTEGER NOT NULL DEFAULT 1,
    session        BLOB,
    node           BLOB,
    open_until     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX inboxes_by_node ON inboxes (node) WHERE node IS NOT NULL;

CREATE TABLE conversations (
    id         BLOB NOT NULL PRIMARY KEY,
    kind       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    trace_id   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Appended by rowid, with narrow indexes beside it. A body above 64 KiB lies in large_bodies.
CREATE TABLE events (
    id              BLOB NOT NULL,
    conversation_id BLOB NOT NULL,
    seq             INTEGER NOT NULL,
    kind            TEXT NOT NULL,
    author_id       BLOB NOT NULL,
    trace_id        BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    body            TEXT
) STRICT;
CREATE UNIQUE INDEX events_by_id ON events (id);
CREATE UNIQUE INDEX events_by_place ON events (conversation_id, seq);

CREATE TABLE large_bodies (
    event_id BLOB NOT NULL PRIMARY KEY,
    body     TEXT NOT NULL
) STRICT;

-- One event on its way to one agent; in the order of seq they are that agent's inbox.
CREATE TABLE deliveries (
    agent_id    BLOB NOT NULL,
    seq         INTEGER NOT NULL,
    event_id    BLOB NOT NULL,
    kind        TEXT NOT NULL,
    transport   TEXT NOT NULL,
    state       TEXT NOT NULL,
    retry       TEXT NOT NULL,
    attempt     INTEGER NOT NULL DEFAULT 0,
    due_at      INTEGER,
    lease_owner BLOB,
    lease_until INTEGER,
    error_code  TEXT,
    detail      TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    trace_id    BLOB NOT NULL,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_by_lease ON deliveries (lease_until) WHERE lease_until IS NOT NULL;

-- What was answered to a request that may come again. The id is a hash of who asked and under which key.
CREATE TABLE idempotency (
    id          BLOB NOT NULL PRIMARY KEY,
    request     BLOB NOT NULL,
    state       TEXT NOT NULL,
    status      INTEGER,
    answer      TEXT,
    lease_until INTEGER,
    expires_at  INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at) WHERE expires_at IS NOT NULL;
