-- Posts of other services are sealed; those of a former key, or of none, are found here.
CREATE INDEX events_foreign ON events (id) WHERE kind = 'foreign';
