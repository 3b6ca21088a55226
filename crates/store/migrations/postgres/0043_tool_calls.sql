-- Who called which tool of the hub, where and about what, and what came of it: `done`, or why not. `id` sorts by time.
CREATE TABLE tool_calls (
    id              BYTEA NOT NULL PRIMARY KEY,
    caller_kind     TEXT NOT NULL,
    caller_id       BYTEA NOT NULL,
    tool            TEXT NOT NULL,
    door            TEXT NOT NULL,
    conversation_id BYTEA,
    event_id        BYTEA,
    outcome         TEXT NOT NULL
);
CREATE INDEX tool_calls_by_caller ON tool_calls (caller_id, id);
CREATE INDEX tool_calls_in ON tool_calls (conversation_id, id) WHERE conversation_id IS NOT NULL;
