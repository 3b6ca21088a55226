-- A relay envelope has no place in its conversation: its order is the receiver's inbox, and an index entry and a counter
-- for each pair of agents would be half of what a send writes. Its seq is 0.
DROP INDEX events_by_place;
CREATE UNIQUE INDEX events_by_place ON events (conversation_id, seq) WHERE seq > 0;
