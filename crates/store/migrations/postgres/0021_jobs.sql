-- Jobs that go through the hub. `content` is a hash of what was asked for; the terms are those of when it was asked. What is
-- handed to the agent is the event. `callback` is sealed; while it has a `callback_due_at` it is still to be called.
CREATE TABLE jobs (
    id                BYTEA NOT NULL PRIMARY KEY,
    content           BYTEA NOT NULL,
    orchestrator_id   BYTEA,
    payer_id          BYTEA NOT NULL,
    agent_id          BYTEA NOT NULL,
    payee_id          BYTEA NOT NULL,
    skill             TEXT NOT NULL,
    price             BIGINT NOT NULL,
    budget            BIGINT NOT NULL,
    output_schema     TEXT,
    status            TEXT NOT NULL,
    paid              BIGINT NOT NULL,
    result            TEXT,
    error_code        TEXT,
    error_message     TEXT,
    event_id          BYTEA NOT NULL,
    callback          BYTEA,
    callback_due_at   BIGINT,
    callback_attempts BIGINT NOT NULL DEFAULT 0,
    deadline_at       BIGINT NOT NULL,
    created_at        BIGINT NOT NULL,
    ended_at          BIGINT,
    trace_id          BYTEA NOT NULL
);
CREATE INDEX jobs_by_deadline ON jobs (deadline_at, id) WHERE status = 'PENDING';
CREATE INDEX jobs_by_callback ON jobs (callback_due_at, id) WHERE callback_due_at IS NOT NULL;
CREATE INDEX jobs_by_payer ON jobs (payer_id, created_at, id);
CREATE INDEX jobs_by_payee ON jobs (payee_id, created_at, id);
CREATE INDEX jobs_by_orchestrator ON jobs (orchestrator_id, created_at, id) WHERE orchestrator_id IS NOT NULL;
CREATE INDEX jobs_by_agent ON jobs (agent_id, created_at, id);

-- Offers that were asked for, each at its price until `valid_until`.
CREATE TABLE quotes (
    id          BYTEA NOT NULL PRIMARY KEY,
    payer_id    BYTEA NOT NULL,
    skill       TEXT NOT NULL,
    input       TEXT,
    job_id      BYTEA,
    valid_until BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    trace_id    BYTEA NOT NULL
);
CREATE INDEX quotes_by_end ON quotes (valid_until);

CREATE TABLE offers (
    quote_id    BYTEA NOT NULL,
    place       BIGINT NOT NULL,
    agent_id    BYTEA NOT NULL,
    price       BIGINT NOT NULL,
    expected_ms BIGINT,
    reputation  BIGINT NOT NULL,
    PRIMARY KEY (quote_id, place)
);
