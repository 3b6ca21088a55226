-- Posts of other services are sealed; those of a former key, or of none, are found here.
CREATE INDEX events_foreign ON events (id) WHERE kind = 'foreign';

-- An answer that holds what a receiver said is cut after a while. Turns, which were kept for ever, end; what was said to
-- them is forgotten now.
ALTER TABLE idempotency ADD COLUMN shorter TEXT;
ALTER TABLE idempotency ADD COLUMN shorter_from BIGINT;
CREATE INDEX idempotency_by_cut ON idempotency (shorter_from) WHERE shorter_from IS NOT NULL;
UPDATE idempotency SET answer = json_build_object('delivery', answer::json -> 'delivery', 'trace_id', answer::json -> 'trace_id')::text
    WHERE expires_at IS NULL AND answer LIKE '%"receiver_response"%';
UPDATE idempotency SET expires_at = CAST(extract(epoch FROM now()) * 1000 AS BIGINT) + 2592000000 WHERE expires_at IS NULL;
