-- Where an agent's C2A harness is POSTed to, and what that can show its model, in words, once it has answered `initialize`.
ALTER TABLE agents ADD COLUMN harness TEXT;
ALTER TABLE agents ADD COLUMN harness_shows TEXT;
