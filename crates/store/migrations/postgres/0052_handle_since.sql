-- Since which event of the conversation a member is called what it is called; without it, since it joined.
ALTER TABLE members ADD COLUMN handle_seq BIGINT;
