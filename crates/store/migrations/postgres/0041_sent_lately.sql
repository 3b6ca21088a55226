-- What was sent lately, in the order of time: `sent` is by sender, and a page of it for each send is most of what a send would
-- write. It is moved there many at a time.
CREATE TABLE sent_lately (
    trace_id  BYTEA NOT NULL,
    sender_id BYTEA NOT NULL,
    seq       BIGINT NOT NULL,
    agent_id  BYTEA NOT NULL,
    PRIMARY KEY (trace_id, sender_id, seq)
);
