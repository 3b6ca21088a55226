-- Wallets: each belongs to an owner, who proves it by a key or by an account. Amounts are integers of 0.01.
CREATE TABLE wallets (
    id         BLOB NOT NULL PRIMARY KEY,
    owner      TEXT NOT NULL,
    account_id BLOB,
    key_hash   BLOB,
    balance    INTEGER NOT NULL CHECK (balance >= 0),
    created_at INTEGER NOT NULL,
    trace_id   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX wallets_by_owner ON wallets (owner);
CREATE UNIQUE INDEX wallets_by_key ON wallets (key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX wallets_by_account ON wallets (account_id, id) WHERE account_id IS NOT NULL;

-- What is held for jobs that have not ended. A hold is gone with its last credit.
CREATE TABLE holds (
    job_id    BLOB NOT NULL PRIMARY KEY,
    wallet_id BLOB NOT NULL,
    amount    INTEGER NOT NULL CHECK (amount > 0)
) STRICT, WITHOUT ROWID;
CREATE INDEX holds_by_wallet ON holds (wallet_id, amount);

-- One row per movement: out of a wallet, into a wallet, or both; where one is absent, the kind says what is in its place.
-- Each wallet numbers its own.
CREATE TABLE ledger (
    kind           TEXT NOT NULL,
    debit_id       BLOB,
    debit_seq      INTEGER,
    debit_balance  INTEGER,
    credit_id      BLOB,
    credit_seq     INTEGER,
    credit_balance INTEGER,
    amount         INTEGER NOT NULL CHECK (amount > 0),
    job_id         BLOB,
    transfer_id    BLOB,
    created_at     INTEGER NOT NULL,
    trace_id       BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX ledger_by_debit ON ledger (debit_id, debit_seq) WHERE debit_id IS NOT NULL;
CREATE UNIQUE INDEX ledger_by_credit ON ledger (credit_id, credit_seq) WHERE credit_id IS NOT NULL;
CREATE INDEX ledger_by_job ON ledger (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX ledger_issued ON ledger (kind, amount) WHERE kind IN ('mint', 'burn');

CREATE TABLE transfers (
    id         BLOB NOT NULL PRIMARY KEY,
    from_id    BLOB NOT NULL,
    to_id      BLOB NOT NULL,
    amount     INTEGER NOT NULL,
    job_id     BLOB,
    created_at INTEGER NOT NULL,
    trace_id   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- What the market knows of an agent of the directory. `endpoint` is for jobs only.
CREATE TABLE market_agents (
    agent_id      BLOB NOT NULL PRIMARY KEY,
    wallet_id     BLOB NOT NULL,
    display_name  TEXT NOT NULL,
    endpoint      TEXT,
    reputation    INTEGER NOT NULL,
    changes       INTEGER NOT NULL,
    registered_at INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    trace_id      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX market_agents_by_wallet ON market_agents (wallet_id, agent_id);

-- `shortfall` is what the agent's reputation lacks of the best: so the order of the index is the order of discovery.
CREATE TABLE skills (
    agent_id      BLOB NOT NULL,
    name          TEXT NOT NULL,
    place         INTEGER NOT NULL,
    description   TEXT,
    cost          INTEGER NOT NULL,
    input_schema  TEXT,
    output_schema TEXT,
    shortfall     INTEGER NOT NULL,
    PRIMARY KEY (agent_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX skills_by_name ON skills (name, shortfall, cost, agent_id);
CREATE INDEX skills_by_rank ON skills (shortfall, cost, agent_id, name);

-- The words of a skill: of its name, its description and its agent's name.
CREATE TABLE skill_words (
    word     TEXT NOT NULL,
    agent_id BLOB NOT NULL,
    name     TEXT NOT NULL,
    PRIMARY KEY (word, agent_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX skill_words_by_agent ON skill_words (agent_id);

CREATE TABLE reputation_changes (
    agent_id   BLOB NOT NULL,
    number     INTEGER NOT NULL,
    job_id     BLOB NOT NULL,
    status     TEXT NOT NULL,
    old_score  INTEGER NOT NULL,
    new_score  INTEGER NOT NULL,
    arithmetic TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, number)
) STRICT, WITHOUT ROWID;
