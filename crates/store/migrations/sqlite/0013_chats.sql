-- What only deliveries of conversations have, under the same key: why they go to this agent, when they are tried, what the
-- agent made of them. Its indexes cost a relay send nothing. A delivery is `waiting` if and only if it has a `give_up_at`
-- here; the first of its conversation that waits has a `due_at`, which while it is being tried is the end of the lease.
-- `not_before`: until then the way that failed rests. `undelivered`: `dead` or `failed`, while it is.
CREATE TABLE chats (
    agent_id        BLOB NOT NULL,
    seq             INTEGER NOT NULL,
    event_id        BLOB NOT NULL,
    conversation_id BLOB NOT NULL,
    reason          TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    attempt         INTEGER NOT NULL DEFAULT 0,
    due_at          INTEGER,
    not_before      INTEGER,
    give_up_at      INTEGER,
    undelivered     TEXT,
    handed_at       INTEGER,
    disposition     TEXT,
    disposition_at  INTEGER,
    directedness    TEXT,
    policy          TEXT,
    mode            TEXT,
    priority        TEXT,
    deadline_at     INTEGER,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO chats (agent_id, seq, event_id, conversation_id, reason, created_at, attempt, due_at, not_before, give_up_at,
                   undelivered, handed_at, disposition, disposition_at)
    SELECT agent_id, seq, event_id, conversation_id, COALESCE(reason, 'direct_message'), created_at, attempt,
           CASE WHEN state = 'waiting' THEN COALESCE(lease_until, due_at) END,
           CASE WHEN state = 'waiting' AND attempt > 0 AND lease_until IS NULL THEN due_at END,
           CASE WHEN state = 'waiting' THEN COALESCE(give_up_at, created_at) END,
           CASE WHEN state IN ('dead', 'failed') THEN state END,
           handed_at, disposition, disposition_at
    FROM deliveries WHERE conversation_id IS NOT NULL;

-- One copy of what is left, because each column that is dropped would be one.
CREATE TABLE new_deliveries (
    agent_id    BLOB NOT NULL,
    seq         INTEGER NOT NULL,
    event_id    BLOB NOT NULL,
    kind        TEXT NOT NULL,
    transport   TEXT NOT NULL,
    state       TEXT NOT NULL,
    lease_owner BLOB,
    lease_until INTEGER,
    error_code  TEXT,
    detail      TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    trace_id    BLOB NOT NULL,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO new_deliveries (agent_id, seq, event_id, kind, transport, state, lease_owner, lease_until, error_code, detail,
                            created_at, updated_at, trace_id)
    SELECT agent_id, seq, event_id, kind, transport, state, lease_owner, lease_until, error_code, detail,
           created_at, updated_at, trace_id
    FROM deliveries ORDER BY agent_id, seq;
DROP TABLE deliveries;
ALTER TABLE new_deliveries RENAME TO deliveries;
CREATE INDEX deliveries_by_lease ON deliveries (lease_until) WHERE lease_until IS NOT NULL;

-- What is pushed next is found without going through what is not: first tries apart from those that failed before, because
-- receivers that hang must not hold up the others. Each holds all that is asked of it.
CREATE INDEX chats_first_tries ON chats (due_at, agent_id, seq, attempt) WHERE due_at IS NOT NULL AND attempt = 0;
CREATE INDEX chats_retries ON chats (due_at, agent_id, seq, attempt) WHERE due_at IS NOT NULL AND attempt > 0;
-- So does this one of those that wait: a planner that knows no numbers would go through the whole inbox instead.
CREATE INDEX chats_waiting ON chats (agent_id, conversation_id, seq, due_at, give_up_at, event_id)
    WHERE give_up_at IS NOT NULL;
-- What owners and operators look for. Every seq is above 0: saying so keeps a planner that knows no numbers from taking the
-- one of an agent where the last is meant.
CREATE INDEX chats_by_event ON chats (event_id);
CREATE INDEX chats_by_time ON chats (created_at, agent_id, seq);
CREATE INDEX chats_by_agent ON chats (agent_id, created_at, seq) WHERE seq > 0;
CREATE INDEX chats_undelivered ON chats (undelivered, created_at, agent_id, seq) WHERE undelivered IS NOT NULL;
CREATE INDEX chats_undelivered_by_agent ON chats (agent_id, undelivered, created_at, seq) WHERE undelivered IS NOT NULL;
