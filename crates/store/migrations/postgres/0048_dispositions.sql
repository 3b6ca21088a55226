-- Why an agent made of an event what it made of it, in its own words.
ALTER TABLE chats ADD COLUMN disposition_reason TEXT;
