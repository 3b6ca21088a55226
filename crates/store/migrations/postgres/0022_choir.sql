-- Declared ensembles. One without an owner is held by an edit link, of which only the hash is kept, until it is claimed.
-- `ingest` is the unguessable end of the address where signed evidence goes.
CREATE TABLE scores (
    id          BYTEA NOT NULL PRIMARY KEY,
    owner_id    BYTEA,
    edit_hash   BYTEA,
    ingest      TEXT NOT NULL,
    title       TEXT NOT NULL,
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    archived_at BIGINT,
    trace_id    BYTEA NOT NULL
);
CREATE INDEX scores_by_owner ON scores (owner_id, id) WHERE owner_id IS NOT NULL;
CREATE UNIQUE INDEX scores_by_edit_link ON scores (edit_hash) WHERE edit_hash IS NOT NULL;
CREATE UNIQUE INDEX scores_by_ingest ON scores (ingest);

-- What was declared, in each version: canonical JSON.
CREATE TABLE score_versions (
    score_id   BYTEA NOT NULL,
    version    BIGINT NOT NULL,
    body       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (score_id, version)
);

-- Signing secrets follow from the master key, the Score and this id: none is kept.
CREATE TABLE signing_secrets (
    id         BYTEA NOT NULL PRIMARY KEY,
    score_id   BYTEA NOT NULL,
    prefix     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX signing_secrets_by_score ON signing_secrets (score_id, prefix);

-- Bundles as they came in: canonical JSON. The same bundle of the same class is kept once for a Score.
CREATE TABLE evidence (
    id            BYTEA NOT NULL PRIMARY KEY,
    score_id      BYTEA NOT NULL,
    status        TEXT NOT NULL,
    bundle_sha256 TEXT NOT NULL,
    score_version BIGINT NOT NULL,
    events        BIGINT NOT NULL,
    body          TEXT NOT NULL,
    received_at   BIGINT NOT NULL,
    trace_id      BYTEA NOT NULL
);
CREATE UNIQUE INDEX evidence_by_bundle ON evidence (score_id, status, bundle_sha256);
CREATE INDEX evidence_by_version ON evidence (score_id, score_version, status);

-- Receipts are public on their unguessable ids. `payload` is the canonical JSON that was hashed.
CREATE TABLE receipts (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    score_id     BYTEA NOT NULL,
    generated_at BIGINT NOT NULL,
    payload_hash TEXT NOT NULL,
    payload      TEXT NOT NULL,
    label        TEXT NOT NULL,
    log_index    BIGINT NOT NULL,
    trace_id     BYTEA NOT NULL
);
CREATE INDEX receipts_by_score ON receipts (score_id, log_index);

CREATE TABLE comparisons (
    slug       TEXT NOT NULL PRIMARY KEY,
    before_id  TEXT NOT NULL,
    after_id   TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- The transparency log: what each leaf says, and the complete subtrees of its Merkle tree.
CREATE TABLE log_leaves (
    place BIGINT NOT NULL PRIMARY KEY,
    leaf  TEXT NOT NULL
);
CREATE TABLE log_nodes (
    level BIGINT NOT NULL,
    place BIGINT NOT NULL,
    hash  BYTEA NOT NULL,
    PRIMARY KEY (level, place)
);

-- The public halves of the keys that the hub signed with. The private ones follow from the master key.
CREATE TABLE attestation_keys (
    generation BIGINT NOT NULL PRIMARY KEY,
    public_key BYTEA NOT NULL,
    from_at    BIGINT NOT NULL,
    until_at   BIGINT
);
