-- Messages between two agents without a person, per pair and conversation. The agent with the smaller id is `one_id`. Counts per
-- conversation are not carried over: at most, two agents may take some turns more.
DROP TABLE loop_guards;
CREATE TABLE loop_guards (
    conversation_id BLOB NOT NULL,
    one_id          BLOB NOT NULL,
    other_id        BLOB NOT NULL,
    turns           INTEGER NOT NULL,
    began_at        INTEGER NOT NULL,
    counted_at      INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, one_id, other_id)
) STRICT, WITHOUT ROWID;
