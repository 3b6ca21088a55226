-- People, conversations and what is pushed to agents.

CREATE TABLE accounts (
    id         BYTEA NOT NULL PRIMARY KEY,
    email      TEXT NOT NULL,
    email_key  TEXT NOT NULL,
    name       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    trace_id   BYTEA NOT NULL
);
CREATE UNIQUE INDEX accounts_by_email ON accounts (email_key);

-- What proves an account, or will: sign-in links, sessions, tokens, invitations. Only their hashes are known. A link that
-- was asked for with an invitation names it: it is used up when the link makes an account.
CREATE TABLE credentials (
    id         BYTEA NOT NULL PRIMARY KEY,
    hash       BYTEA NOT NULL,
    kind       TEXT NOT NULL,
    account_id BYTEA,
    email      TEXT,
    email_key  TEXT,
    label      TEXT,
    invitation_id BYTEA,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    trace_id   BYTEA NOT NULL
);
CREATE UNIQUE INDEX credentials_by_hash ON credentials (hash);
CREATE INDEX credentials_by_account ON credentials (account_id, id) WHERE account_id IS NOT NULL;
CREATE INDEX credentials_by_email ON credentials (email_key) WHERE email_key IS NOT NULL;
CREATE INDEX credentials_by_expiry ON credentials (expires_at) WHERE expires_at IS NOT NULL;

-- An agent's owner; the secret of the connection string the hub issued for it (a hash); and the connection string of its
-- own that its owner pasted (sealed with the master key). The epoch counts changes of either, which end what was
-- given out before. `broken` says why its own is not called any more.
ALTER TABLE agents ADD COLUMN owner_id BYTEA;
ALTER TABLE agents ADD COLUMN description TEXT;
ALTER TABLE agents ADD COLUMN inlet_hash BYTEA;
ALTER TABLE agents ADD COLUMN connection BYTEA;
ALTER TABLE agents ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN broken TEXT;
ALTER TABLE agents ADD COLUMN broken_at BIGINT;
CREATE UNIQUE INDEX agents_by_inlet ON agents (inlet_hash) WHERE inlet_hash IS NOT NULL;
CREATE INDEX agents_by_owner ON agents (owner_id, id) WHERE owner_id IS NOT NULL;

-- `history`: `all`, or `joined` where a member reads only what was said while it was one.
ALTER TABLE conversations ADD COLUMN name TEXT;
ALTER TABLE conversations ADD COLUMN context TEXT;
ALTER TABLE conversations ADD COLUMN owner_kind TEXT;
ALTER TABLE conversations ADD COLUMN owner_id BYTEA;
ALTER TABLE conversations ADD COLUMN history TEXT NOT NULL DEFAULT 'all';
ALTER TABLE conversations ADD COLUMN archived_at BIGINT;

-- One row per stay: who leaves and comes back has two. Events after joined_seq, up to left_seq, fall into it.
CREATE TABLE members (
    conversation_id BYTEA NOT NULL,
    member_id       BYTEA NOT NULL,
    joined_seq      BIGINT NOT NULL,
    kind            TEXT NOT NULL,
    handle          TEXT NOT NULL,
    handle_key      TEXT COLLATE "C" NOT NULL,
    roles           TEXT NOT NULL,
    lead            BIGINT NOT NULL,
    joined_at       BIGINT NOT NULL,
    left_seq        BIGINT,
    left_at         BIGINT,
    trace_id        BYTEA NOT NULL,
    PRIMARY KEY (conversation_id, member_id, joined_seq)
);
CREATE UNIQUE INDEX members_by_handle ON members (conversation_id, handle_key) WHERE left_seq IS NULL;
CREATE INDEX members_by_member ON members (member_id, conversation_id) WHERE left_seq IS NULL;

-- `target_id`: what an edit, a deletion or a reaction is about, and what a message replies to.
ALTER TABLE events ADD COLUMN author_kind TEXT NOT NULL DEFAULT 'agent';
ALTER TABLE events ADD COLUMN thread_id BYTEA;
ALTER TABLE events ADD COLUMN target_id BYTEA;
CREATE INDEX events_by_thread ON events (thread_id, seq) WHERE thread_id IS NOT NULL;
CREATE INDEX events_by_target ON events (target_id, seq) WHERE target_id IS NOT NULL;

-- What is pushed keeps its conversation, because a later one of the same conversation waits for it: of those that wait,
-- only the first is due.
ALTER TABLE deliveries ADD COLUMN conversation_id BYTEA;
ALTER TABLE deliveries ADD COLUMN reason TEXT;
ALTER TABLE deliveries ADD COLUMN give_up_at BIGINT;
ALTER TABLE deliveries ADD COLUMN handed_at BIGINT;
ALTER TABLE deliveries ADD COLUMN disposition TEXT;
ALTER TABLE deliveries ADD COLUMN disposition_at BIGINT;
CREATE INDEX deliveries_by_due ON deliveries (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_by_event ON deliveries (event_id) WHERE conversation_id IS NOT NULL;
CREATE INDEX deliveries_by_time ON deliveries (created_at, agent_id, seq) WHERE conversation_id IS NOT NULL;
-- It holds all that is asked of those that wait: a planner that knows no numbers would go through the whole inbox instead.
CREATE INDEX deliveries_waiting ON deliveries (agent_id, conversation_id, seq, due_at, state) WHERE state = 'waiting';

CREATE TABLE attempts (
    agent_id   BYTEA NOT NULL,
    seq        BIGINT NOT NULL,
    number     BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    status     BIGINT,
    latency_ms BIGINT NOT NULL,
    error      TEXT,
    PRIMARY KEY (agent_id, seq, number)
);

CREATE TABLE artifacts (
    conversation_id BYTEA NOT NULL,
    slug            TEXT COLLATE "C" NOT NULL,
    version         BIGINT NOT NULL,
    title           TEXT NOT NULL,
    content_type    TEXT NOT NULL,
    content         TEXT NOT NULL,
    author_kind     TEXT NOT NULL,
    author_id       BYTEA NOT NULL,
    created_at      BIGINT NOT NULL,
    trace_id        BYTEA NOT NULL,
    PRIMARY KEY (conversation_id, slug, version)
);

-- Words of messages. A message that was edited has its new words, a deleted one none.
CREATE TABLE search (
    event_id BYTEA NOT NULL PRIMARY KEY,
    content  TSVECTOR NOT NULL
);
CREATE INDEX search_by_content ON search USING GIN (content);
