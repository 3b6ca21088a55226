-- Who is told how much happened where, a channel or a work stream that it leads: everything up to `through` was told, or nobody
-- has to tell it; the rest is counted since then.
CREATE TABLE digests (
    agent_id BLOB NOT NULL,
    scope_id BLOB NOT NULL,
    kind     TEXT NOT NULL,
    through  INTEGER NOT NULL,
    since_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, scope_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX digests_since ON digests (since_at, agent_id, scope_id);
INSERT INTO digests (agent_id, scope_id, kind, through, since_at)
    SELECT m.member_id, m.conversation_id, 'channel',
           COALESCE((SELECT MAX(e.seq) FROM events e WHERE e.conversation_id = m.conversation_id), 0), MAX(m.joined_at)
    FROM members m JOIN conversations c ON c.id = m.conversation_id
    WHERE m.lead = 1 AND m.left_seq IS NULL AND m.kind = 'agent' AND c.kind = 'channel'
    GROUP BY m.member_id, m.conversation_id;
