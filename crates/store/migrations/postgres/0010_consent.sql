-- How many bytes are stored of what somebody said, wrote and sent; of an account, with what the agents it owns did. Each event
-- and each version of a document counts 256 besides what it says.
CREATE TABLE usage (
    principal_id BYTEA NOT NULL PRIMARY KEY,
    bytes        BIGINT NOT NULL
);
INSERT INTO usage (principal_id, bytes)
SELECT author_id, CAST(SUM(size) AS BIGINT) FROM (
    SELECT e.author_id AS author_id, 256 + COALESCE(OCTET_LENGTH(e.body), OCTET_LENGTH(b.body), 0) AS size
    FROM events e LEFT JOIN large_bodies b ON b.event_id = e.id
    UNION ALL SELECT author_id, 256 + OCTET_LENGTH(content) FROM artifacts
) AS sizes GROUP BY author_id;
INSERT INTO usage (principal_id, bytes)
SELECT a.owner_id, CAST(SUM(u.bytes) AS BIGINT) FROM usage u JOIN agents a ON a.id = u.principal_id
WHERE a.owner_id IS NOT NULL GROUP BY a.owner_id
ON CONFLICT (principal_id) DO UPDATE SET bytes = usage.bytes + excluded.bytes;

-- Who was asked into a conversation, or into one of two (whose conversation is sixteen zeros). The invitee is what the inviter
-- wrote, whether or not there is such a person: the key of an email address or the id of an account. Rows are the same for all,
-- so that their number tells nothing. `state`: `open`; `hidden` from an invitee that does not want it; `declined`.
CREATE TABLE invitations (
    id              BYTEA NOT NULL PRIMARY KEY,
    inviter_kind    TEXT NOT NULL,
    inviter_id      BYTEA NOT NULL,
    invitee         TEXT NOT NULL,
    conversation_id BYTEA NOT NULL,
    handle          TEXT,
    roles           TEXT NOT NULL,
    lead            BIGINT NOT NULL,
    state           TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    mailed_at       BIGINT,
    trace_id        BYTEA NOT NULL
);
CREATE UNIQUE INDEX invitations_by_inviter ON invitations (inviter_id, invitee, conversation_id);
CREATE INDEX invitations_by_invitee ON invitations (invitee, id);
CREATE INDEX invitations_by_expiry ON invitations (expires_at);

-- Whom somebody keeps out: by the id of an agent or an account, or by the key of an email address. `label` is as it was given.
CREATE TABLE blocks (
    id         BYTEA NOT NULL PRIMARY KEY,
    blocker_id BYTEA NOT NULL,
    blocked    TEXT NOT NULL,
    label      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    trace_id   BYTEA NOT NULL
);
CREATE UNIQUE INDEX blocks_by_blocker ON blocks (blocker_id, blocked);

-- Whether the agent or its owner keeps anybody out: a send to one that does not looks no further.
ALTER TABLE agents ADD COLUMN has_blocks BIGINT NOT NULL DEFAULT 0;

CREATE INDEX conversations_by_owner ON conversations (owner_id, kind) WHERE owner_id IS NOT NULL AND archived_at IS NULL;
