-- A document is as large as a megabyte. In a table without row ids it is part of the key's own tree, and whoever looks for
-- another one reads it whole. Its content comes last, so that nobody reads it who asks for what comes before.
CREATE TABLE documents (
    conversation_id BLOB NOT NULL,
    slug            TEXT NOT NULL,
    version         INTEGER NOT NULL,
    title           TEXT NOT NULL,
    content_type    TEXT NOT NULL,
    author_kind     TEXT NOT NULL,
    author_id       BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    trace_id        BLOB NOT NULL,
    seq             INTEGER NOT NULL DEFAULT 0,
    content         TEXT NOT NULL,
    PRIMARY KEY (conversation_id, slug, version)
) STRICT;
INSERT INTO documents (conversation_id, slug, version, title, content_type, author_kind, author_id, created_at, trace_id, seq, content)
    SELECT conversation_id, slug, version, title, content_type, author_kind, author_id, created_at, trace_id, seq, content
    FROM artifacts;
DROP TABLE artifacts;
ALTER TABLE documents RENAME TO artifacts;
