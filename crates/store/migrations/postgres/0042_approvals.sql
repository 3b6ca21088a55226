-- Messages that wait until a person agrees. `body` is what is said, without credentials, as long as it waits; `ends_at` is when it
-- ends by itself, which is now once nothing can come of it any more. `state`: `held`, or what became of it.
CREATE TABLE approvals (
    id              BYTEA NOT NULL PRIMARY KEY,
    conversation_id BYTEA NOT NULL,
    author_kind     TEXT NOT NULL,
    author_id       BYTEA NOT NULL,
    body            TEXT NOT NULL,
    thread_id       BYTEA,
    reply_to        BYTEA,
    stream_id       BYTEA,
    trace_id        BYTEA NOT NULL,
    state           TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    ends_at         BIGINT NOT NULL,
    decided_by      BYTEA,
    decided_at      BIGINT,
    reason          TEXT,
    event_id        BYTEA
);
CREATE INDEX approvals_waiting ON approvals (conversation_id, id) WHERE state = 'held';
CREATE INDEX approvals_of_author ON approvals (author_id, id) WHERE state = 'held';
CREATE INDEX approvals_due ON approvals (ends_at) WHERE state = 'held';
CREATE INDEX approvals_decided ON approvals (decided_at) WHERE decided_at IS NOT NULL;
