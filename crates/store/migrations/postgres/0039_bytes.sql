-- A document that is no text is bytes, and its content empty. They come last, as content does: nobody reads them who asks for what
-- comes before.
ALTER TABLE artifacts ADD COLUMN bytes BYTEA;
