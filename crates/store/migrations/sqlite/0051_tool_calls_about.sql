-- What was called about one event is found by the event.
CREATE INDEX tool_calls_about ON tool_calls (event_id, id) WHERE event_id IS NOT NULL;
