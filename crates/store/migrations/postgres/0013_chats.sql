-- What only deliveries of conversations have, under the same key: why they go to this agent, when they are tried, what the
-- agent made of them. Its indexes cost a relay send nothing. A delivery is `waiting` if and only if it has a `give_up_at`
-- here; the first of its conversation that waits has a `due_at`, which while it is being tried is the end of the lease.
-- `not_before`: until then the way that failed rests. `undelivered`: `dead` or `failed`, while it is.
CREATE TABLE chats (
    agent_id        BYTEA NOT NULL,
    seq             BIGINT NOT NULL,
    event_id        BYTEA NOT NULL,
    conversation_id BYTEA NOT NULL,
    reason          TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    attempt         BIGINT NOT NULL DEFAULT 0,
    due_at          BIGINT,
    not_before      BIGINT,
    give_up_at      BIGINT,
    undelivered     TEXT,
    handed_at       BIGINT,
    disposition     TEXT,
    disposition_at  BIGINT,
    directedness    TEXT,
    policy          TEXT,
    mode            TEXT,
    priority        TEXT,
    deadline_at     BIGINT,
    PRIMARY KEY (agent_id, seq)
);
INSERT INTO chats (agent_id, seq, event_id, conversation_id, reason, created_at, attempt, due_at, not_before, give_up_at,
                   undelivered, handed_at, disposition, disposition_at)
    SELECT agent_id, seq, event_id, conversation_id, COALESCE(reason, 'direct_message'), created_at, attempt,
           CASE WHEN state = 'waiting' THEN COALESCE(lease_until, due_at) END,
           CASE WHEN state = 'waiting' AND attempt > 0 AND lease_until IS NULL THEN due_at END,
           CASE WHEN state = 'waiting' THEN COALESCE(give_up_at, created_at) END,
           CASE WHEN state IN ('dead', 'failed') THEN state END,
           handed_at, disposition, disposition_at
    FROM deliveries WHERE conversation_id IS NOT NULL;

DROP INDEX deliveries_first_tries;
DROP INDEX deliveries_retries;
DROP INDEX deliveries_waiting;
DROP INDEX deliveries_by_event;
DROP INDEX deliveries_by_time;
DROP INDEX deliveries_by_agent;
DROP INDEX deliveries_undelivered;
DROP INDEX deliveries_undelivered_by_agent;
ALTER TABLE deliveries
    DROP COLUMN retry,
    DROP COLUMN attempt,
    DROP COLUMN due_at,
    DROP COLUMN conversation_id,
    DROP COLUMN reason,
    DROP COLUMN give_up_at,
    DROP COLUMN handed_at,
    DROP COLUMN disposition,
    DROP COLUMN disposition_at;

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
