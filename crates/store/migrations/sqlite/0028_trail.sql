-- What was decided in a conversation, and who took on what there: for its owner, who reads nobody else's.
CREATE INDEX chats_by_conversation ON chats (conversation_id, created_at, agent_id, seq) WHERE seq > 0;
CREATE INDEX claims_by_conversation ON claims (conversation_id, event_id);
CREATE INDEX claim_holders_by_holder ON claim_holders (holder, event_id, since_at);
