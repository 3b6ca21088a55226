-- Agents are asked for offers: until when they may answer, and what they said. Who says nothing counts with its listed price.
ALTER TABLE quotes ADD COLUMN answers_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE offers ADD COLUMN answered_at INTEGER;
ALTER TABLE offers ADD COLUMN declined INTEGER NOT NULL DEFAULT 0;
CREATE INDEX quotes_by_payer ON quotes (payer_id, valid_until);
