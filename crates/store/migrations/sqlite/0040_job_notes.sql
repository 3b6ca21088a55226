-- Why something that came was not taken as a job's result, the last time.
ALTER TABLE jobs ADD COLUMN note TEXT;
-- What came of jobs is kept no longer than the settings say.
CREATE INDEX jobs_by_end ON jobs (ended_at) WHERE result IS NOT NULL;
