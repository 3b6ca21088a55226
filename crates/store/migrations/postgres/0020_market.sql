-- Wallets: each belongs to an owner, who proves it by a key or by an account. Amounts are integers of 0.01.
CREATE TABLE wallets (
    id         BYTEA NOT NULL PRIMARY KEY,
    owner      TEXT NOT NULL,
    account_id BYTEA,
    key_hash   BYTEA,
    balance    BIGINT NOT NULL CHECK (balance >= 0),
    created_at BIGINT NOT NULL,
    trace_id   BYTEA NOT NULL
);
CREATE UNIQUE INDEX wallets_by_owner ON wallets (owner);
CREATE UNIQUE INDEX wallets_by_key ON wallets (key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX wallets_by_account ON wallets (account_id, id) WHERE account_id IS NOT NULL;

-- What is held for jobs that have not ended. A hold is gone with its last credit.
CREATE TABLE holds (
    job_id    BYTEA NOT NULL PRIMARY KEY,
    wallet_id BYTEA NOT NULL,
    amount    BIGINT NOT NULL CHECK (amount > 0)
);
CREATE INDEX holds_by_wallet ON holds (wallet_id, amount);

-- One row per movement: out of a wallet, into a wallet, or both; where one is absent, the kind says what is in its place.
-- Each wallet numbers its own.
CREATE TABLE ledger (
    kind           TEXT NOT NULL,
    debit_id       BYTEA,
    debit_seq      BIGINT,
    debit_balance  BIGINT,
    credit_id      BYTEA,
    credit_seq     BIGINT,
    credit_balance BIGINT,
    amount         BIGINT NOT NULL CHECK (amount > 0),
    job_id         BYTEA,
    transfer_id    BYTEA,
    created_at     BIGINT NOT NULL,
    trace_id       BYTEA NOT NULL
);
CREATE UNIQUE INDEX ledger_by_debit ON ledger (debit_id, debit_seq) WHERE debit_id IS NOT NULL;
CREATE UNIQUE INDEX ledger_by_credit ON ledger (credit_id, credit_seq) WHERE credit_id IS NOT NULL;
CREATE INDEX ledger_by_job ON ledger (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX ledger_issued ON ledger (kind, amount) WHERE kind IN ('mint', 'burn');

CREATE TABLE transfers (
    id         BYTEA NOT NULL PRIMARY KEY,
    from_id    BYTEA NOT NULL,
    to_id      BYTEA NOT NULL,
    amount     BIGINT NOT NULL,
    job_id     BYTEA,
    created_at BIGINT NOT NULL,
    trace_id   BYTEA NOT NULL
);

-- What the market knows of an agent of the directory. `endpoint` is for jobs only.
CREATE TABLE market_agents (
    agent_id      BYTEA NOT NULL PRIMARY KEY,
    wallet_id     BYTEA NOT NULL,
    display_name  TEXT NOT NULL,
    endpoint      TEXT,
    reputation    BIGINT NOT NULL,
    changes       BIGINT NOT NULL,
    registered_at BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    trace_id      BYTEA NOT NULL
);
CREATE INDEX market_agents_by_wallet ON market_agents (wallet_id, agent_id);

-- `shortfall` is what the agent's reputation lacks of the best: so the order of the index is the order of discovery.
CREATE TABLE skills (
    agent_id      BYTEA NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    place         BIGINT NOT NULL,
    description   TEXT,
    cost          BIGINT NOT NULL,
    input_schema  TEXT,
    output_schema TEXT,
    shortfall     BIGINT NOT NULL,
    PRIMARY KEY (agent_id, name)
);
CREATE INDEX skills_by_name ON skills (name, shortfall, cost, agent_id);
CREATE INDEX skills_by_rank ON skills (shortfall, cost, agent_id, name);

-- The words of a skill: of its name, its description and its agent's name.
CREATE TABLE skill_words (
    word     TEXT COLLATE "C" NOT NULL,
    agent_id BYTEA NOT NULL,
    name     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (word, agent_id, name)
);
CREATE INDEX skill_words_by_agent ON skill_words (agent_id);

CREATE TABLE reputation_changes (
    agent_id   BYTEA NOT NULL,
    number     BIGINT NOT NULL,
    job_id     BYTEA NOT NULL,
    status     TEXT NOT NULL,
    old_score  BIGINT NOT NULL,
    new_score  BIGINT NOT NULL,
    arithmetic TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, number)
);
