-- Messages between two agents without a person, per pair and conversation. The agent with the smaller id is `one_id`. Counts per
-- conversation are not carried over: at most, two agents may take some turns more.
DROP TABLE loop_guards;
CREATE TABLE loop_guards (
    conversation_id BYTEA NOT NULL,
    one_id          BYTEA NOT NULL,
    other_id        BYTEA NOT NULL,
    turns           BIGINT NOT NULL,
    began_at        BIGINT NOT NULL,
    counted_at      BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, one_id, other_id)
);
