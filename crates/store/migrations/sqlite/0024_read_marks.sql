-- Up to where a person has read a conversation. No row: up to where it came in.
CREATE TABLE read_marks (
    account_id      BLOB NOT NULL,
    conversation_id BLOB NOT NULL,
    seq             INTEGER NOT NULL,
    PRIMARY KEY (account_id, conversation_id)
) STRICT, WITHOUT ROWID;
