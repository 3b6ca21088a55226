-- What a message is found by belongs to its conversation, so that nobody's search goes through what others said: terms are
-- made of the conversation and the word. Messages from before are indexed again, from the newest on.
DROP TABLE search;
CREATE TABLE search (
    event_id BYTEA NOT NULL PRIMARY KEY,
    terms    BIGINT[] NOT NULL
);
-- Without a list of what is not indexed yet, through which every search would have to go.
CREATE INDEX search_by_terms ON search USING GIN (terms) WITH (fastupdate = off);
INSERT INTO settings (name, value)
    SELECT 'search_indexed_from', 'ffffffff-ffff-ffff-ffff-ffffffffffff' WHERE EXISTS (SELECT 1 FROM events);

-- The place of a version in its conversation: who was there when it was current may read it.
ALTER TABLE artifacts ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;
-- By a table of its own, or each would be looked for among all of its conversation.
CREATE TABLE places (
    conversation_id BYTEA NOT NULL,
    trace_id        BYTEA NOT NULL,
    seq             BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, trace_id)
);
INSERT INTO places (conversation_id, trace_id, seq)
    SELECT conversation_id, trace_id, MIN(seq) FROM events WHERE kind = 'artifact' AND seq <> 0 GROUP BY 1, 2;
UPDATE artifacts SET seq = COALESCE((SELECT p.seq FROM places p
    WHERE p.conversation_id = artifacts.conversation_id AND p.trace_id = artifacts.trace_id), 0);
DROP TABLE places;

-- What agents are found by: parts of their names and descriptions, ranges of their culture and languages, their owner. Those
-- that are there already get theirs one after the other.
CREATE TABLE agent_terms (
    term     TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    agent_id BYTEA NOT NULL,
    PRIMARY KEY (term, name_key)
);
INSERT INTO settings (name, value) SELECT 'agents_indexed_through', '' WHERE EXISTS (SELECT 1 FROM agents);
