-- Posts of other services are sealed; those of a former key, or of none, are found here.
CREATE INDEX events_foreign ON events (id) WHERE kind = 'foreign';

-- An answer that holds what a receiver said is cut after a while. Turns, which were kept for ever, end; what was said to
-- them is forgotten now. Cut as text, because PostgreSQL reads not all JSON there is: what remains is what stands before it,
-- and the 47 characters of the trace id after it.
ALTER TABLE idempotency ADD COLUMN shorter TEXT;
ALTER TABLE idempotency ADD COLUMN shorter_from INTEGER;
CREATE INDEX idempotency_by_cut ON idempotency (shorter_from) WHERE shorter_from IS NOT NULL;
UPDATE idempotency SET answer = substr(answer, 1, instr(answer, ',"receiver_response":') - 1) || substr(answer, -47)
    WHERE expires_at IS NULL AND answer LIKE '{"delivery":%,"receiver_response":%,"trace_id":"________________________________"}';
UPDATE idempotency SET expires_at = unixepoch() * 1000 + 2592000000 WHERE expires_at IS NULL;
