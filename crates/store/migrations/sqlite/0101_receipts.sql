-- Receipts are signed once, when they are issued. The envelopes of older receipts are added when those are first read.
ALTER TABLE receipts ADD COLUMN attestation TEXT;
ALTER TABLE receipts ADD COLUMN test_result TEXT;

-- The secret that signed a bundle, the bundle that it replaces, and the one that replaces it.
ALTER TABLE evidence ADD COLUMN secret_id BLOB;
ALTER TABLE evidence ADD COLUMN supersedes TEXT;
ALTER TABLE evidence ADD COLUMN superseded_by TEXT;

-- Records that answer the open items of a bundle, as received, in canonical JSON.
CREATE TABLE evidence_answers (
    id             BLOB NOT NULL PRIMARY KEY,
    score_id       BLOB NOT NULL,
    status         TEXT NOT NULL,
    answers_sha256 TEXT NOT NULL,
    bundle_sha256  TEXT NOT NULL,
    body           TEXT NOT NULL,
    received_at    INTEGER NOT NULL,
    trace_id       BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX evidence_answers_by_record ON evidence_answers (score_id, status, answers_sha256);
CREATE INDEX evidence_answers_by_bundle ON evidence_answers (score_id, status, bundle_sha256, id);
