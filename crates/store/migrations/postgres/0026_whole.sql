-- What is for a paused agent waits, by every way.
ALTER TABLE agents ADD COLUMN paused_at BIGINT;

-- An account that was deleted keeps its row, because events name their author by id; its address is free again. `mails`:
-- whether it is told by mail of what waits while it is away; when it last was, and when it last showed a sign of life.
ALTER TABLE accounts ADD COLUMN deleted_at BIGINT;
ALTER TABLE accounts ADD COLUMN mails BIGINT NOT NULL DEFAULT 1;
ALTER TABLE accounts ADD COLUMN mailed_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN seen_at BIGINT NOT NULL DEFAULT 0;

CREATE INDEX members_former ON members (member_id) WHERE left_seq IS NOT NULL;

-- How far a person has read a conversation, and the last message there that named it or was for it. `asked_at` is when, until
-- it has read that or was told of it.
CREATE TABLE readings (
    account_id      BYTEA NOT NULL,
    conversation_id BYTEA NOT NULL,
    read_seq        BIGINT NOT NULL DEFAULT 0,
    asked_seq       BIGINT NOT NULL DEFAULT 0,
    asked_at        BIGINT,
    PRIMARY KEY (account_id, conversation_id)
);
CREATE INDEX readings_asked ON readings (asked_at, account_id) WHERE asked_at IS NOT NULL;

-- How many days what was said is kept, if its owner says so; and the first place that is still there.
ALTER TABLE conversations ADD COLUMN keep_days BIGINT;
ALTER TABLE conversations ADD COLUMN oldest BIGINT NOT NULL DEFAULT 1;
