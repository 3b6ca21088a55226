-- Jobs that go through the hub. `content` is a hash of what was asked for; the terms are those of when it was asked. What is
-- handed to the agent is the event. `callback` is sealed; while it has a `callback_due_at` it is still to be called.
CREATE TABLE jobs (
    id                BLOB NOT NULL PRIMARY KEY,
    content           BLOB NOT NULL,
    orchestrator_id   BLOB,
    payer_id          BLOB NOT NULL,
    agent_id          BLOB NOT NULL,
    payee_id          BLOB NOT NULL,
    skill             TEXT NOT NULL,
    price             INTEGER NOT NULL,
    budget            INTEGER NOT NULL,
    output_schema     TEXT,
    status            TEXT NOT NULL,
    paid              INTEGER NOT NULL,
    result            TEXT,
    error_code        TEXT,
    error_message     TEXT,
    event_id          BLOB NOT NULL,
    callback          BLOB,
    callback_due_at   INTEGER,
    callback_attempts INTEGER NOT NULL DEFAULT 0,
    deadline_at       INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    ended_at          INTEGER,
    trace_id          BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_by_deadline ON jobs (deadline_at, id) WHERE status = 'PENDING';
CREATE INDEX jobs_by_callback ON jobs (callback_due_at, id) WHERE callback_due_at IS NOT NULL;
CREATE INDEX jobs_by_payer ON jobs (payer_id, created_at, id);
CREATE INDEX jobs_by_payee ON jobs (payee_id, created_at, id);
CREATE INDEX jobs_by_orchestrator ON jobs (orchestrator_id, created_at, id) WHERE orchestrator_id IS NOT NULL;
CREATE INDEX jobs_by_agent ON jobs (agent_id, created_at, id);

-- Offers that were asked for, each at its price until `valid_until`.
CREATE TABLE quotes (
    id          BLOB NOT NULL PRIMARY KEY,
    payer_id    BLOB NOT NULL,
    skill       TEXT NOT NULL,
    input       TEXT,
    job_id      BLOB,
    valid_until INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    trace_id    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX quotes_by_end ON quotes (valid_until);

CREATE TABLE offers (
    quote_id    BLOB NOT NULL,
    place       INTEGER NOT NULL,
    agent_id    BLOB NOT NULL,
    price       INTEGER NOT NULL,
    expected_ms INTEGER,
    reputation  INTEGER NOT NULL,
    PRIMARY KEY (quote_id, place)
) STRICT, WITHOUT ROWID;
