-- An open job is known by what was handed out for it: that is kept as long as the job is open.
CREATE INDEX jobs_open_by_event ON jobs (event_id) WHERE status = 'PENDING';
-- Who is online, so that a search goes through these where most are away.
CREATE INDEX inboxes_by_open ON inboxes (open_until);
CREATE INDEX inboxes_by_seen ON inboxes (seen_at);
