-- Answers that are being made: what an agent has said so far of a message that is not in the log yet, one for each delivery it
-- answers. `event_id` is the id the message will have. `tail` is the last word, which is shown once it is whole. `version` is
-- the place in the conversation's stream of such growth.
CREATE TABLE growing (
    agent_id        BYTEA NOT NULL,
    seq             BIGINT NOT NULL,
    conversation_id BYTEA NOT NULL,
    event_id        BYTEA NOT NULL,
    thread_id       BYTEA,
    content         TEXT NOT NULL,
    tail            TEXT NOT NULL,
    version         BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (agent_id, seq)
);
CREATE INDEX growing_versions ON growing (conversation_id, version);
CREATE INDEX growing_updated ON growing (updated_at);

-- What receivers say to senders that wait for a streamed answer, wherever these wait. Line 0 says that somebody waits, and until
-- when.
CREATE TABLE reply_lines (
    agent_id BYTEA NOT NULL,
    seq      BIGINT NOT NULL,
    line     BIGINT NOT NULL,
    kind     TEXT NOT NULL,
    data     TEXT NOT NULL,
    until_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, seq, line)
);
CREATE INDEX reply_lines_until ON reply_lines (until_at);
