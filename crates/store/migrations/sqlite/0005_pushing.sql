-- What is pushed next is found without going through what is not: first tries apart from those that failed before, because
-- receivers that hang must not hold up the others. What somebody sends now is in neither. Each holds all that is asked of it.
DROP INDEX deliveries_by_due;
CREATE INDEX deliveries_first_tries ON deliveries (due_at, agent_id, seq, attempt, lease_until)
    WHERE due_at IS NOT NULL AND lease_until IS NULL AND attempt = 0;
CREATE INDEX deliveries_retries ON deliveries (due_at, agent_id, seq, attempt, lease_until)
    WHERE due_at IS NOT NULL AND lease_until IS NULL AND attempt > 0;

-- One agent's deliveries, and what came to nothing: those are what owners and operators look for. Every seq is above 0: saying
-- so keeps a planner that knows no numbers from taking the first of these where the last is meant.
CREATE INDEX deliveries_by_agent ON deliveries (agent_id, created_at, seq) WHERE conversation_id IS NOT NULL AND seq > 0;
CREATE INDEX deliveries_undelivered ON deliveries (state, created_at, agent_id, seq)
    WHERE conversation_id IS NOT NULL AND state IN ('dead', 'failed');
CREATE INDEX deliveries_undelivered_by_agent ON deliveries (agent_id, state, created_at, seq)
    WHERE conversation_id IS NOT NULL AND state IN ('dead', 'failed');
