-- Whoever hires is called back by a delivery like every other: what was a queue in `jobs` is gone.
DROP INDEX jobs_by_callback;
ALTER TABLE jobs DROP COLUMN callback_due_at;
ALTER TABLE jobs DROP COLUMN callback_attempts;
