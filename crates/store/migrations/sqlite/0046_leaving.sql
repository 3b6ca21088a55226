-- Each wallet numbers its own movements in its own row, which every movement writes anyway.
ALTER TABLE wallets ADD COLUMN moves INTEGER NOT NULL DEFAULT 0;
UPDATE wallets SET moves = COALESCE((SELECT s.head FROM streams s WHERE s.id = wallets.id), 0);
-- When an agent left, as long as some of its jobs may be open.
ALTER TABLE market_agents ADD COLUMN left_at INTEGER;
CREATE INDEX market_agents_leaving ON market_agents (agent_id) WHERE left_at IS NOT NULL;
UPDATE market_agents SET left_at = 0 WHERE agent_id IN (SELECT id FROM agents WHERE deleted_at IS NOT NULL);
-- The agent that offers were asked for by, or on behalf of.
ALTER TABLE quotes ADD COLUMN orchestrator_id BLOB;
