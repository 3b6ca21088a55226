-- What the owner of a channel says otherwise: after how many turns agents talk in a loop there (0: never), and how signals are shown.
ALTER TABLE conversations ADD COLUMN loop_turns INTEGER;
ALTER TABLE conversations ADD COLUMN glyphs TEXT;
