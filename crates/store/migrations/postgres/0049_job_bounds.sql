-- How long a job of a skill must be given at least, if its agent says so.
ALTER TABLE skills ADD COLUMN min_deadline BIGINT;
-- How many jobs are open, of whoever pays and of whoever works: they are counted before one more is taken.
CREATE INDEX jobs_open_by_payer ON jobs (payer_id) WHERE status = 'PENDING';
CREATE INDEX jobs_open_by_agent ON jobs (agent_id) WHERE status = 'PENDING';
