-- The time for which progress moves the deadline of a request, if the channel's owner set it.
ALTER TABLE conversations ADD COLUMN longest_task_ms INTEGER;
