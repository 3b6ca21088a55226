-- What harnesses say for the log, of each agent the newest. `id` sorts by time.
CREATE TABLE harness_logs (
    agent_id BLOB NOT NULL,
    id       BLOB NOT NULL,
    level    TEXT NOT NULL,
    logger   TEXT,
    text     TEXT NOT NULL,
    PRIMARY KEY (agent_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX harness_logs_by_age ON harness_logs (id);
-- The messages of a conversation by their ids, as mailboxes read them.
CREATE INDEX events_said ON events (conversation_id, kind, id) WHERE kind = 'message' AND seq <> 0;
