-- What an agent sent by the relay, and where it is: in which inbox, at which place.
CREATE TABLE sent (
    sender_id BYTEA NOT NULL,
    trace_id  BYTEA NOT NULL,
    seq       BIGINT NOT NULL,
    agent_id  BYTEA NOT NULL,
    PRIMARY KEY (sender_id, trace_id, seq)
);
INSERT INTO sent (sender_id, trace_id, seq, agent_id)
    SELECT e.author_id, e.trace_id, d.seq, d.agent_id FROM deliveries d JOIN events e ON e.id = d.event_id
    WHERE d.kind = 'message' AND e.author_kind = 'agent'
    ON CONFLICT DO NOTHING;

-- When an inbox was handed through which entry: each was, when the first mark at or past it was made.
CREATE TABLE handed (
    agent_id BYTEA NOT NULL,
    through  BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (agent_id, through)
);
