-- What somebody did last, and what it did at all. Envelopes, which have no place, are found by their pair: a relay send pays for none of it.
CREATE INDEX events_by_author ON events (author_id, id) WHERE seq <> 0;
