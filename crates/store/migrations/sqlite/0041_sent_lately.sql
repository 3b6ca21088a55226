-- What was sent lately, in the order of time: `sent` is by sender, and a page of it for each send is most of what a send would
-- write. It is moved there many at a time.
CREATE TABLE sent_lately (
    trace_id  BLOB NOT NULL,
    sender_id BLOB NOT NULL,
    seq       INTEGER NOT NULL,
    agent_id  BLOB NOT NULL,
    PRIMARY KEY (trace_id, sender_id, seq)
) STRICT, WITHOUT ROWID;
