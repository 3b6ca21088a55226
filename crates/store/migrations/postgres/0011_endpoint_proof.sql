-- The endpoint that has echoed the hub's challenge. Another endpoint is not proven by it.
ALTER TABLE agents ADD COLUMN proven_endpoint TEXT;
