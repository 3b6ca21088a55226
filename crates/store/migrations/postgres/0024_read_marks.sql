-- Up to where a person has read a conversation. No row: up to where it came in.
CREATE TABLE read_marks (
    account_id      BYTEA NOT NULL,
    conversation_id BYTEA NOT NULL,
    seq             BIGINT NOT NULL,
    PRIMARY KEY (account_id, conversation_id)
);
