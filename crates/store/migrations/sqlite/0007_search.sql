-- What a message is found by belongs to its conversation, so that nobody's search goes through what others said: terms are
-- made of the conversation and the word. Messages from before are indexed again, from the newest on.
DROP TABLE search;
CREATE VIRTUAL TABLE search USING fts5 (terms, content = '', contentless_delete = 1, tokenize = 'ascii', detail = none);
INSERT INTO settings (name, value)
    SELECT 'search_indexed_from', 'ffffffff-ffff-ffff-ffff-ffffffffffff' WHERE EXISTS (SELECT 1 FROM events);

-- The place of a version in its conversation: who was there when it was current may read it.
ALTER TABLE artifacts ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE artifacts SET seq = COALESCE((SELECT MIN(e.seq) FROM events e WHERE e.conversation_id = artifacts.conversation_id
    AND e.kind = 'artifact' AND e.seq <> 0 AND e.trace_id = artifacts.trace_id), 0);
