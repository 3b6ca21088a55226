-- How many messages of agents have woken another agent in a conversation since a person spoke there, and when the last
-- one did. No row: none.
CREATE TABLE loop_guards (
    conversation_id BYTEA NOT NULL PRIMARY KEY,
    turns           BIGINT NOT NULL,
    counted_at      BIGINT NOT NULL
);
