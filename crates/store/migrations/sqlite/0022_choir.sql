-- Declared ensembles. One without an owner is held by an edit link, of which only the hash is kept, until it is claimed.
-- `ingest` is the unguessable end of the address where signed evidence goes.
CREATE TABLE scores (
    id          BLOB NOT NULL PRIMARY KEY,
    owner_id    BLOB,
    edit_hash   BLOB,
    ingest      TEXT NOT NULL,
    title       TEXT NOT NULL,
    version     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    archived_at INTEGER,
    trace_id    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX scores_by_owner ON scores (owner_id, id) WHERE owner_id IS NOT NULL;
CREATE UNIQUE INDEX scores_by_edit_link ON scores (edit_hash) WHERE edit_hash IS NOT NULL;
CREATE UNIQUE INDEX scores_by_ingest ON scores (ingest);

-- What was declared, in each version: canonical JSON.
CREATE TABLE score_versions (
    score_id   BLOB NOT NULL,
    version    INTEGER NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (score_id, version)
) STRICT;

-- Signing secrets follow from the master key, the Score and this id: none is kept.
CREATE TABLE signing_secrets (
    id         BLOB NOT NULL PRIMARY KEY,
    score_id   BLOB NOT NULL,
    prefix     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX signing_secrets_by_score ON signing_secrets (score_id, prefix);

-- Bundles as they came in: canonical JSON. The same bundle of the same class is kept once for a Score.
CREATE TABLE evidence (
    id            BLOB NOT NULL PRIMARY KEY,
    score_id      BLOB NOT NULL,
    status        TEXT NOT NULL,
    bundle_sha256 TEXT NOT NULL,
    score_version INTEGER NOT NULL,
    events        INTEGER NOT NULL,
    body          TEXT NOT NULL,
    received_at   INTEGER NOT NULL,
    trace_id      BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX evidence_by_bundle ON evidence (score_id, status, bundle_sha256);
CREATE INDEX evidence_by_version ON evidence (score_id, score_version, status);

-- Receipts are public on their unguessable ids. `payload` is the canonical JSON that was hashed.
CREATE TABLE receipts (
    id           TEXT NOT NULL PRIMARY KEY,
    score_id     BLOB NOT NULL,
    generated_at INTEGER NOT NULL,
    payload_hash TEXT NOT NULL,
    payload      TEXT NOT NULL,
    label        TEXT NOT NULL,
    log_index    INTEGER NOT NULL,
    trace_id     BLOB NOT NULL
) STRICT;
CREATE INDEX receipts_by_score ON receipts (score_id, log_index);

CREATE TABLE comparisons (
    slug       TEXT NOT NULL PRIMARY KEY,
    before_id  TEXT NOT NULL,
    after_id   TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The transparency log: what each leaf says, and the complete subtrees of its Merkle tree.
CREATE TABLE log_leaves (
    place INTEGER NOT NULL PRIMARY KEY,
    leaf  TEXT NOT NULL
) STRICT;
CREATE TABLE log_nodes (
    level INTEGER NOT NULL,
    place INTEGER NOT NULL,
    hash  BLOB NOT NULL,
    PRIMARY KEY (level, place)
) STRICT, WITHOUT ROWID;

-- The public halves of the keys that the hub signed with. The private ones follow from the master key.
CREATE TABLE attestation_keys (
    generation INTEGER NOT NULL PRIMARY KEY,
    public_key BLOB NOT NULL,
    from_at    INTEGER NOT NULL,
    until_at   INTEGER
) STRICT;
