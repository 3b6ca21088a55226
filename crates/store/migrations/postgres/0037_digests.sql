-- Who is told how much happened where, a channel or a work stream that it leads: everything up to `through` was told, or nobody
-- has to tell it; the rest is counted since then.
CREATE TABLE digests (
    agent_id BYTEA NOT NULL,
    scope_id BYTEA NOT NULL,
    kind     TEXT NOT NULL,
    through  BIGINT NOT NULL,
    since_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, scope_id)
);
CREATE INDEX digests_since ON digests (since_at, agent_id, scope_id);
INSERT INTO digests (agent_id, scope_id, kind, through, since_at)
    SELECT m.member_id, m.conversation_id, 'channel',
           COALESCE((SELECT MAX(e.seq) FROM events e WHERE e.conversation_id = m.conversation_id), 0), MAX(m.joined_at)
    FROM members m JOIN conversations c ON c.id = m.conversation_id
    WHERE m.lead = 1 AND m.left_seq IS NULL AND m.kind = 'agent' AND c.kind = 'channel'
    GROUP BY m.member_id, m.conversation_id;
