-- A conversation may be long and hold none of the kind that is asked for. Who asks says `seq <> 0` and not `seq > 0`: a
-- planner that knows no numbers would take events_by_place, because that is unique, and go through all of it.
CREATE INDEX events_by_kind ON events (conversation_id, kind, seq) WHERE seq <> 0;

-- The last sign of life of an agent besides its open inbox; 0 for none yet.
ALTER TABLE inboxes ADD COLUMN seen_at INTEGER NOT NULL DEFAULT 0;
