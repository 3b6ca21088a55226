-- Since when the operator keeps somebody out. An agent is out as long as its owner is, too: that is noted at the agent, so that
-- whoever looks it up need not look for its owner.
ALTER TABLE accounts ADD COLUMN disabled_at INTEGER;
ALTER TABLE agents ADD COLUMN disabled_at INTEGER;
ALTER TABLE agents ADD COLUMN owner_disabled_at INTEGER;

-- How often the secret was replaced with which requests to an agent are signed, and when last: the one before it goes on for a while.
ALTER TABLE agents ADD COLUMN webhook_rotations INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN webhook_rotated_at INTEGER;

-- Who did what to whom. Rows are only ever added, and forgotten when they are old or when their actor did the same thing very
-- often since. Ids sort by time; actors and subjects are the ids that people see.
CREATE TABLE audit (
    id           BLOB NOT NULL PRIMARY KEY,
    at           INTEGER NOT NULL,
    actor_kind   TEXT NOT NULL,
    actor_id     TEXT NOT NULL,
    action       TEXT NOT NULL,
    subject_kind TEXT NOT NULL,
    subject_id   TEXT NOT NULL,
    detail       TEXT NOT NULL,
    request_id   TEXT NOT NULL,
    client       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_by_actor ON audit (actor_id, id);
CREATE INDEX audit_by_actor_and_action ON audit (actor_id, action, id);
CREATE INDEX audit_by_action ON audit (action, id);
CREATE INDEX audit_by_subject ON audit (subject_id, id);
