-- How many messages of agents have woken another agent in a conversation since a person spoke there. No row: none.
CREATE TABLE loop_guards (
    conversation_id BLOB NOT NULL PRIMARY KEY,
    turns           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
