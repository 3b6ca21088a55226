-- Work streams: a piece of work that goes on in one or more conversations, and whose it is. One that is closed stays, for what
-- was said in it.
CREATE TABLE work_streams (
    id         BYTEA NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    maker_id   BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at  BIGINT,
    trace_id   BYTEA NOT NULL
);
CREATE INDEX work_streams_open ON work_streams (maker_id) WHERE closed_at IS NULL;

-- Whose it is (`owns`), who takes part, and who answers for the others.
CREATE TABLE work_stream_members (
    stream_id BYTEA NOT NULL,
    member_id BYTEA NOT NULL,
    owns      BIGINT NOT NULL,
    lead      BIGINT NOT NULL,
    PRIMARY KEY (stream_id, member_id)
);
CREATE INDEX work_stream_members_by_member ON work_stream_members (member_id, stream_id);

-- Where it goes on.
CREATE TABLE work_stream_conversations (
    conversation_id BYTEA NOT NULL,
    stream_id       BYTEA NOT NULL,
    PRIMARY KEY (conversation_id, stream_id)
);
CREATE INDEX work_stream_conversations_by_stream ON work_stream_conversations (stream_id, conversation_id);

-- What was said in it: `place` is its place in the stream, `seq` that in its conversation.
CREATE TABLE work_stream_events (
    stream_id       BYTEA NOT NULL,
    place           BIGINT NOT NULL,
    event_id        BYTEA NOT NULL,
    conversation_id BYTEA NOT NULL,
    seq             BIGINT NOT NULL,
    PRIMARY KEY (stream_id, place)
);
CREATE UNIQUE INDEX work_stream_events_by_event ON work_stream_events (event_id);

-- What was offered to somebody first who goes away is found by it.
CREATE INDEX claims_by_first ON claims (first_agent, conversation_id) WHERE first_agent IS NOT NULL;
