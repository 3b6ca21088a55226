-- Scores that nobody has claimed, oldest first: they are not kept for ever. And a Score's evidence, newest first.
CREATE INDEX scores_unclaimed ON scores (updated_at) WHERE owner_id IS NULL;
CREATE INDEX evidence_by_score ON evidence (score_id, id);
