-- Ids are 16 bytes, times are milliseconds since 1970 in UTC, JSON is text, secrets are SHA-256.
-- The same tables and columns as in ../sqlite; a test compares them.

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

-- The last sequence number of every inbox (id: the agent's) and every conversation.
CREATE TABLE streams (
    id   BYTEA NOT NULL PRIMARY KEY,
    head BIGINT NOT NULL
);

-- A deleted agent keeps its row, because events name their author by id; its name is free again.
CREATE TABLE agents (
    id            BYTEA NOT NULL PRIMARY KEY,
    name          TEXT NOT NULL,
    name_key      TEXT COLLATE "C" NOT NULL,
    key_hash      BYTEA NOT NULL,
    endpoint      TEXT,
    card          TEXT,
    registered_at BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    deleted_at    BIGINT,
    trace_id      BYTEA NOT NULL
);
CREATE UNIQUE INDEX agents_by_name ON agents (name_key) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX agents_by_key ON agents (key_hash) WHERE deleted_at IS NULL;

-- Who is connected where, and how far any connection was ever handed its inbox.
CREATE TABLE inboxes (
    agent_id       BYTEA NOT NULL PRIMARY KEY,
    handed_through BIGINT NOT NULL DEFAULT 0,
    oldest         BIGINT NOT NULL DEFAULT 1,
    session        BYTEA,
    node           BYTEA,
    open_until     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX inboxes_by_node ON inboxes (node) WHERE node IS NOT NULL;

CREATE TABLE conversations (
    id         BYTEA NOT NULL PRIMARY KEY,
    kind       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    trace_id   BYTEA NOT NULL
);

-- Appended, with narrow indexes beside it. A body above 64 KiB lies in large_bodies.
CREATE TABLE events (
    id              BYTEA NOT NULL,
    conversation_id BYTEA NOT NULL,
    seq             BIGINT NOT NULL,
    kind            TEXT NOT NULL,
    author_id       BYTEA NOT NULL,
    trace_id        BYTEA NOT NULL,
    created_at      BIGINT NOT NULL,
    body            TEXT
);
CREATE UNIQUE INDEX events_by_id ON events (id);
CREATE UNIQUE INDEX events_by_place ON events (conversation_id, seq);

CREATE TABLE large_bodies (
    event_id BYTEA NOT NULL PRIMARY KEY,
    body     TEXT NOT NULL
);

-- One event on its way to one agent; in the order of seq they are that agent's inbox.
CREATE TABLE deliveries (
    agent_id    BYTEA NOT NULL,
    seq         BIGINT NOT NULL,
    event_id    BYTEA NOT NULL,
    kind        TEXT NOT NULL,
    transport   TEXT NOT NULL,
    state       TEXT NOT NULL,
    retry       TEXT NOT NULL,
    attempt     BIGINT NOT NULL DEFAULT 0,
    due_at      BIGINT,
    lease_owner BYTEA,
    lease_until BIGINT,
    error_code  TEXT,
    detail      TEXT,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    trace_id    BYTEA NOT NULL,
    PRIMARY KEY (agent_id, seq)
);
CREATE INDEX deliveries_by_lease ON deliveries (lease_until) WHERE lease_until IS NOT NULL;

-- What was answered to a request that may come again. The id is a hash of who asked and under which key.
CREATE TABLE idempotency (
    id          BYTEA NOT NULL PRIMARY KEY,
    request     BYTEA NOT NULL,
    state       TEXT NOT NULL,
    status      BIGINT,
    answer      TEXT,
    lease_until BIGINT,
    expires_at  BIGINT
);
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at) WHERE expires_at IS NOT NULL;
