-- When a connection ended that held an inbox: a harness that comes back is told what was taken back since.
ALTER TABLE inboxes ADD COLUMN closed_at INTEGER NOT NULL DEFAULT 0;
UPDATE inboxes SET closed_at = seen_at;
