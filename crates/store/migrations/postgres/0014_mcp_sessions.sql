-- Sessions of MCP clients: each is one owner's in one conversation, and lasts while it is used. `subscribed` are the slugs of
-- documents, a JSON array.
CREATE TABLE mcp_sessions (
    id              BYTEA NOT NULL PRIMARY KEY,
    owner_kind      TEXT NOT NULL,
    owner_id        BYTEA NOT NULL,
    conversation_id BYTEA NOT NULL,
    created_at      BIGINT NOT NULL,
    last_used_at    BIGINT NOT NULL,
    subscribed      TEXT NOT NULL
);
CREATE INDEX mcp_sessions_by_owner ON mcp_sessions (owner_id, conversation_id, created_at);
CREATE INDEX mcp_sessions_by_use ON mcp_sessions (last_used_at);

-- They were lists among the settings. Clients begin new ones.
DELETE FROM settings WHERE name LIKE 'mcp sessions of %';
