-- Answers that are being made: what an agent has said so far of a message that is not in the log yet, one for each delivery it
-- answers. `event_id` is the id the message will have. `tail` is the last word, which is shown once it is whole. `version` is
-- the place in the conversation's stream of such growth.
CREATE TABLE growing (
    agent_id        BLOB NOT NULL,
    seq             INTEGER NOT NULL,
    conversation_id BLOB NOT NULL,
    event_id        BLOB NOT NULL,
    thread_id       BLOB,
    content         TEXT NOT NULL,
    tail            TEXT NOT NULL,
    version         INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX growing_versions ON growing (conversation_id, version);
CREATE INDEX growing_updated ON growing (updated_at);

-- What receivers say to senders that wait for a streamed answer, wherever these wait. Line 0 says that somebody waits, and until
-- when.
CREATE TABLE reply_lines (
    agent_id BLOB NOT NULL,
    seq      INTEGER NOT NULL,
    line     INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    data     TEXT NOT NULL,
    until_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, seq, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX reply_lines_until ON reply_lines (until_at);
