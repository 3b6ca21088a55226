-- The schema of version 0.1.0. Later versions change it by migrations that are added beside this file.
--
-- Ids are 16 bytes, times are milliseconds since 1970 in UTC, JSON is text, secrets are stored as SHA-256 hashes.
-- Tables, columns and indexes are the same as in ../sqlite; a test compares them. Only `search` differs.


-- The hub

-- Named values of the hub.
CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

-- The last sequence number of each stream: inboxes, conversations, work streams, streamed replies and the log.
CREATE TABLE streams (
    kind TEXT COLLATE "C" NOT NULL,
    id   BYTEA NOT NULL,
    head BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
);

-- Stored bytes per principal. The figure of an account includes those of the agents it owns.
CREATE TABLE usage (
    principal_id BYTEA NOT NULL PRIMARY KEY,
    bytes        BIGINT NOT NULL
);


-- Accounts and credentials

-- A deleted account keeps its row, because events name their author by id. Its email address becomes free.
-- `mails`: whether the account wants mail about unread messages while it is away.
CREATE TABLE accounts (
    id          BYTEA NOT NULL PRIMARY KEY,
    email       TEXT NOT NULL,
    email_key   TEXT NOT NULL,
    name        TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    trace_id    BYTEA NOT NULL,
    disabled_at BIGINT,
    deleted_at  BIGINT,
    mails       BIGINT NOT NULL DEFAULT 1,
    mailed_at   BIGINT NOT NULL DEFAULT 0,
    seen_at     BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX accounts_by_email ON accounts (email_key);

-- Sign-in links, sessions, tokens and sign-up invitations. A sign-in link that was requested with a sign-up
-- invitation names it in `invitation_id`; the invitation is used up when the link creates an account.
CREATE TABLE credentials (
    id            BYTEA NOT NULL PRIMARY KEY,
    hash          BYTEA NOT NULL,
    kind          TEXT NOT NULL,
    account_id    BYTEA,
    email         TEXT,
    email_key     TEXT,
    label         TEXT,
    invitation_id BYTEA,
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT,
    trace_id      BYTEA NOT NULL
);
CREATE UNIQUE INDEX credentials_by_hash ON credentials (hash);
CREATE INDEX credentials_by_account ON credentials (account_id, id) WHERE account_id IS NOT NULL;
CREATE INDEX credentials_by_email ON credentials (email_key) WHERE email_key IS NOT NULL;
CREATE INDEX credentials_by_expiry ON credentials (expires_at) WHERE expires_at IS NOT NULL;


-- Agents

-- A deleted agent keeps its row, because events name their author by id. Its name becomes free.
-- `inlet_hash`: the hash of the secret in the connection string that the hub issued. `connection`: the agent's own
-- connection string, encrypted with the master key. `epoch` counts changes of either; a change ends older ones.
-- `broken`: why the hub no longer calls the agent's own address. `owner_disabled_at` repeats the owner's `disabled_at`,
-- so that looking up an agent needs no second row. `has_blocks`: whether the agent or its owner blocks anybody.
-- `proven_endpoint`: the endpoint that answered the hub's challenge. `harness`: the URL of its C2A harness, and
-- `harness_shows` what the harness said it can show. `registered_from`: a keyed hash of the registering source.
CREATE TABLE agents (
    id                 BYTEA NOT NULL PRIMARY KEY,
    name               TEXT NOT NULL,
    name_key           TEXT COLLATE "C" NOT NULL,
    key_hash           BYTEA NOT NULL,
    endpoint           TEXT,
    card               TEXT,
    registered_at      BIGINT NOT NULL,
    updated_at         BIGINT NOT NULL,
    deleted_at         BIGINT,
    trace_id           BYTEA NOT NULL,
    owner_id           BYTEA,
    description        TEXT,
    inlet_hash         BYTEA,
    connection         BYTEA,
    epoch              BIGINT NOT NULL DEFAULT 0,
    broken             TEXT,
    broken_at          BIGINT,
    disabled_at        BIGINT,
    owner_disabled_at  BIGINT,
    webhook_rotations  BIGINT NOT NULL DEFAULT 0,
    webhook_rotated_at BIGINT,
    has_blocks         BIGINT NOT NULL DEFAULT 0,
    proven_endpoint    TEXT,
    paused_at          BIGINT,
    harness            TEXT,
    harness_shows      TEXT,
    registered_from    BYTEA
);
CREATE UNIQUE INDEX agents_by_name ON agents (name_key) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX agents_by_key ON agents (key_hash) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX agents_by_inlet ON agents (inlet_hash) WHERE inlet_hash IS NOT NULL;
CREATE INDEX agents_by_owner ON agents (owner_id, id) WHERE owner_id IS NOT NULL;
-- Finds earlier agents of a name, so that a new agent of that name continues their numbering.
CREATE INDEX agents_by_former_name ON agents (name_key, registered_at) WHERE deleted_at IS NOT NULL;

-- The search index of agents: parts of names and descriptions, culture, languages and owner.
CREATE TABLE agent_terms (
    term     TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    agent_id BYTEA NOT NULL,
    PRIMARY KEY (term, name_key)
);

-- Log lines that harnesses sent; only the newest of each agent are kept. Ids sort by time.
CREATE TABLE harness_logs (
    agent_id BYTEA NOT NULL,
    id       BYTEA NOT NULL,
    level    TEXT NOT NULL,
    logger   TEXT,
    text     TEXT NOT NULL,
    PRIMARY KEY (agent_id, id)
);
CREATE INDEX harness_logs_by_age ON harness_logs (id);

-- Calls of the hub's tools and their outcome: `done`, or an error code. Ids sort by time.
CREATE TABLE tool_calls (
    id              BYTEA NOT NULL PRIMARY KEY,
    caller_kind     TEXT NOT NULL,
    caller_id       BYTEA NOT NULL,
    tool            TEXT NOT NULL,
    door            TEXT NOT NULL,
    conversation_id BYTEA,
    event_id        BYTEA,
    outcome         TEXT NOT NULL
);
CREATE INDEX tool_calls_by_caller ON tool_calls (caller_id, id);
CREATE INDEX tool_calls_in ON tool_calls (conversation_id, id) WHERE conversation_id IS NOT NULL;
CREATE INDEX tool_calls_about ON tool_calls (event_id, id) WHERE event_id IS NOT NULL;

-- MCP sessions: one owner in one conversation. `subscribed` is a JSON array of document slugs.
CREATE TABLE mcp_sessions (
    id              BYTEA NOT NULL PRIMARY KEY,
    owner_kind      TEXT NOT NULL,
    owner_id        BYTEA NOT NULL,
    conversation_id BYTEA NOT NULL,
    created_at      BIGINT NOT NULL,
    last_used_at    BIGINT NOT NULL,
    subscribed      TEXT NOT NULL
);
CREATE INDEX mcp_sessions_by_owner ON mcp_sessions (owner_id, conversation_id, created_at);
CREATE INDEX mcp_sessions_by_use ON mcp_sessions (last_used_at);


-- Conversations

-- `history`: `all`, or `joined` if members read only what was said during their membership.
-- `open_from`: every member may read everything after this sequence number. `oldest`: the first event still stored.
-- `loop_turns`: the owner's limit for loops between agents; 0 means no limit.
CREATE TABLE conversations (
    id          BYTEA NOT NULL PRIMARY KEY,
    kind        TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    trace_id    BYTEA NOT NULL,
    name        TEXT,
    context     TEXT,
    owner_kind  TEXT,
    owner_id    BYTEA,
    history     TEXT NOT NULL DEFAULT 'all',
    archived_at BIGINT,
    keep_days   BIGINT,
    oldest      BIGINT NOT NULL DEFAULT 1,
    loop_turns  BIGINT,
    glyphs      TEXT,
    open_from   BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX conversations_by_owner ON conversations (owner_id, kind)
    WHERE owner_id IS NOT NULL AND archived_at IS NULL;

-- One row per stay: a member that leaves and returns has two. A stay covers the events after `joined_seq`, up to
-- `left_seq`. `handle_seq`: the event since which the member has its handle; NULL means since it joined.
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
    handle_seq      BIGINT,
    PRIMARY KEY (conversation_id, member_id, joined_seq)
);
CREATE UNIQUE INDEX members_by_handle ON members (conversation_id, handle_key) WHERE left_seq IS NULL;
CREATE INDEX members_by_member ON members (member_id, conversation_id) WHERE left_seq IS NULL;
CREATE INDEX members_leading ON members (conversation_id, handle_key) WHERE lead = 1 AND left_seq IS NULL;
CREATE INDEX members_former ON members (member_id) WHERE left_seq IS NOT NULL;

-- Current roles, one row per member and role.
CREATE TABLE member_roles (
    conversation_id BYTEA NOT NULL,
    role_key        TEXT NOT NULL,
    member_id       BYTEA NOT NULL,
    PRIMARY KEY (conversation_id, role_key, member_id)
);
CREATE INDEX member_roles_by_member ON member_roles (member_id, conversation_id);

-- Invitations into a conversation, or to direct messages (a conversation id of sixteen zeros). The invitee is the
-- email key or account id that the inviter gave, whether or not it exists.
-- `state`: `open`, `declined`, or `hidden` from an invitee that blocks the inviter.
CREATE TABLE invitations (
    id              BYTEA NOT NULL PRIMARY KEY,
    inviter_kind    TEXT NOT NULL,
    inviter_id      BYTEA NOT NULL,
    invitee         TEXT NOT NULL,
    conversation_id BYTEA NOT NULL,
    handle          TEXT,
    roles           TEXT NOT NULL,
    lead            BIGINT NOT NULL,
    state           TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    mailed_at       BIGINT,
    trace_id        BYTEA NOT NULL
);
CREATE UNIQUE INDEX invitations_by_inviter ON invitations (inviter_id, invitee, conversation_id);
CREATE INDEX invitations_by_invitee ON invitations (invitee, id);
CREATE INDEX invitations_by_expiry ON invitations (expires_at);

-- Blocked senders: the id of an agent or an account, or an email key. `label` is the text the blocker entered.
CREATE TABLE blocks (
    id         BYTEA NOT NULL PRIMARY KEY,
    blocker_id BYTEA NOT NULL,
    blocked    TEXT NOT NULL,
    label      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    trace_id   BYTEA NOT NULL
);
CREATE UNIQUE INDEX blocks_by_blocker ON blocks (blocker_id, blocked);

-- Messages between agents in a row without a person, per conversation.
CREATE TABLE loop_guards (
    conversation_id BYTEA NOT NULL PRIMARY KEY,
    turns           BIGINT NOT NULL,
    counted_at      BIGINT NOT NULL
);

-- How far a person has read a conversation, and the last message there that addressed the person. `asked_at` is
-- its time, until the person has read it or was notified.
CREATE TABLE readings (
    account_id      BYTEA NOT NULL,
    conversation_id BYTEA NOT NULL,
    read_seq        BIGINT NOT NULL DEFAULT 0,
    asked_seq       BIGINT NOT NULL DEFAULT 0,
    asked_at        BIGINT,
    PRIMARY KEY (account_id, conversation_id)
);
CREATE INDEX readings_asked ON readings (asked_at, account_id) WHERE asked_at IS NOT NULL;


-- Events

-- Appended by rowid with narrow indexes. Bodies above 64 KiB are in `large_bodies`. Relay envelopes have `seq` 0,
-- because their order is that of the receiver's inbox. `target_id`: the event that an edit, deletion or reaction changes,
-- or that a message replies to.
CREATE TABLE events (
    id              BYTEA NOT NULL,
    conversation_id BYTEA NOT NULL,
    seq             BIGINT NOT NULL,
    kind            TEXT NOT NULL,
    author_id       BYTEA NOT NULL,
    trace_id        BYTEA NOT NULL,
    created_at      BIGINT NOT NULL,
    body            TEXT,
    author_kind     TEXT NOT NULL DEFAULT 'agent',
    thread_id       BYTEA,
    target_id       BYTEA
);
CREATE UNIQUE INDEX events_by_id ON events (id);
CREATE UNIQUE INDEX events_by_place ON events (conversation_id, seq) WHERE seq > 0;
CREATE INDEX events_by_thread ON events (thread_id, seq) WHERE thread_id IS NOT NULL;
CREATE INDEX events_by_target ON events (target_id, seq) WHERE target_id IS NOT NULL;
-- Queries say `seq <> 0`: with `seq > 0` a planner without statistics would use `events_by_place`.
CREATE INDEX events_by_kind ON events (conversation_id, kind, seq) WHERE seq <> 0;
CREATE INDEX events_foreign ON events (id) WHERE kind = 'foreign';
CREATE INDEX events_by_author ON events (author_id, id) WHERE seq <> 0;
CREATE INDEX events_said ON events (conversation_id, kind, id) WHERE kind = 'message' AND seq <> 0;

CREATE TABLE large_bodies (
    event_id BYTEA NOT NULL PRIMARY KEY,
    body     TEXT NOT NULL
);

-- The search index of messages. A term combines the conversation and a word, so that a search reads only the index
-- entries of its own conversations.
CREATE TABLE search (
    event_id BYTEA NOT NULL PRIMARY KEY,
    terms    BIGINT[] NOT NULL
);
-- Without fastupdate, because every search would have to go through the list of entries that are not indexed yet.
CREATE INDEX search_by_terms ON search USING GIN (terms) WITH (fastupdate = off);

-- Versions of documents. `content` and `bytes` come last, so that queries for the other columns do not read them.
-- A document that is not text has `bytes` and an empty `content`.
CREATE TABLE artifacts (
    conversation_id BYTEA NOT NULL,
    slug            TEXT COLLATE "C" NOT NULL,
    version         BIGINT NOT NULL,
    title           TEXT NOT NULL,
    content_type    TEXT NOT NULL,
    author_kind     TEXT NOT NULL,
    author_id       BYTEA NOT NULL,
    created_at      BIGINT NOT NULL,
    trace_id        BYTEA NOT NULL,
    seq             BIGINT NOT NULL DEFAULT 0,
    content         TEXT NOT NULL,
    bytes           BYTEA,
    PRIMARY KEY (conversation_id, slug, version)
);

-- Streamed replies that are not finished: the text so far of a message that is not in the log yet, one per answered
-- delivery. `event_id`: the id the message will have. `tail`: the last, incomplete word. `version`: the position in the
-- conversation's stream of changes to such replies.
CREATE TABLE growing (
    agent_id        BYTEA NOT NULL,
    seq             BIGINT NOT NULL,
    conversation_id BYTEA NOT NULL,
    event_id        BYTEA NOT NULL,
    thread_id       BYTEA,
    content         TEXT NOT NULL,
    tail            TEXT NOT NULL,
    version         BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (agent_id, seq)
);
CREATE INDEX growing_versions ON growing (conversation_id, version);
CREATE INDEX growing_updated ON growing (updated_at);

-- Messages and edits that wait for a person's approval. `body` is kept while it waits. `edit_of`: the message whose
-- text a held edit would replace; at most one edit of a message waits.
CREATE TABLE approvals (
    id              BYTEA NOT NULL PRIMARY KEY,
    conversation_id BYTEA NOT NULL,
    author_kind     TEXT NOT NULL,
    author_id       BYTEA NOT NULL,
    body            TEXT NOT NULL,
    thread_id       BYTEA,
    reply_to        BYTEA,
    stream_id       BYTEA,
    trace_id        BYTEA NOT NULL,
    state           TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    ends_at         BIGINT NOT NULL,
    decided_by      BYTEA,
    decided_at      BIGINT,
    reason          TEXT,
    event_id        BYTEA,
    edit_of         BYTEA
);
CREATE INDEX approvals_waiting ON approvals (conversation_id, id) WHERE state = 'held';
CREATE INDEX approvals_of_author ON approvals (author_id, id) WHERE state = 'held';
CREATE INDEX approvals_due ON approvals (ends_at) WHERE state = 'held';
CREATE INDEX approvals_decided ON approvals (decided_at) WHERE decided_at IS NOT NULL;
CREATE INDEX approvals_of_message ON approvals (edit_of) WHERE state = 'held' AND edit_of IS NOT NULL;


-- Delivery

-- The connection of each agent's inbox, and how far it was delivered. `seen_at`: the last sign of life besides the open
-- connection. `shows`: the delivery modes that the open session supports; NULL for sessions without knocks.
-- `sent_through`: the last entry sent to the session, acknowledged or not.
CREATE TABLE inboxes (
    agent_id       BYTEA NOT NULL PRIMARY KEY,
    handed_through BIGINT NOT NULL DEFAULT 0,
    oldest         BIGINT NOT NULL DEFAULT 1,
    session        BYTEA,
    node           BYTEA,
    open_until     BIGINT NOT NULL DEFAULT 0,
    seen_at        BIGINT NOT NULL DEFAULT 0,
    shows          TEXT,
    sent_through   BIGINT NOT NULL DEFAULT 0,
    closed_at      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX inboxes_by_node ON inboxes (node) WHERE node IS NOT NULL;
CREATE INDEX inboxes_by_open ON inboxes (open_until);
CREATE INDEX inboxes_by_seen ON inboxes (seen_at);

-- One event on its way to one agent. In the order of `seq` they are the agent's inbox.
CREATE TABLE deliveries (
    agent_id    BYTEA NOT NULL,
    seq         BIGINT NOT NULL,
    event_id    BYTEA NOT NULL,
    kind        TEXT NOT NULL,
    transport   TEXT NOT NULL,
    state       TEXT NOT NULL,
    lease_owner BYTEA,
    lease_until BIGINT,
    error_code  TEXT,
    detail      TEXT,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    trace_id    BYTEA NOT NULL,
    PRIMARY KEY (agent_id, seq)
);
CREATE INDEX deliveries_by_lease ON deliveries (lease_until) WHERE lease_until IS NOT NULL;

-- Additional columns of deliveries in conversations: why they go to this agent, when they are tried, and what the
-- agent did with them. They are apart so that relay sends do not pay for these indexes.
-- A delivery is `waiting` if and only if it has a `give_up_at` here. The first waiting one of its conversation has a
-- `due_at`; while it is tried, that is the end of the lease. `not_before`: the earliest retry after a failure.
-- `undelivered`: `dead` or `failed`. `sent`: how often the agent was sent the event. `supersedes`: the event it replaces.
-- `until_at`: the end of a claim or a deferral. `next_at`: when the reconciler looks at it again.
CREATE TABLE chats (
    agent_id           BYTEA NOT NULL,
    seq                BIGINT NOT NULL,
    event_id           BYTEA NOT NULL,
    conversation_id    BYTEA NOT NULL,
    reason             TEXT NOT NULL,
    created_at         BIGINT NOT NULL,
    attempt            BIGINT NOT NULL DEFAULT 0,
    due_at             BIGINT,
    not_before         BIGINT,
    give_up_at         BIGINT,
    undelivered        TEXT,
    handed_at          BIGINT,
    disposition        TEXT,
    disposition_at     BIGINT,
    directedness       TEXT,
    policy             TEXT,
    mode               TEXT,
    priority           TEXT,
    deadline_at        BIGINT,
    mentions           TEXT,
    sent               BIGINT NOT NULL DEFAULT 1,
    supersedes         BYTEA,
    acked_at           BIGINT,
    injected_at        BIGINT,
    reminded_at        BIGINT,
    escalated_at       BIGINT,
    until_at           BIGINT,
    next_at            BIGINT,
    disposition_reason TEXT,
    PRIMARY KEY (agent_id, seq)
);
-- First tries and retries have separate indexes, so that receivers that hang do not hold up others.
CREATE INDEX chats_first_tries ON chats (due_at, agent_id, seq, attempt) WHERE due_at IS NOT NULL AND attempt = 0;
CREATE INDEX chats_retries ON chats (due_at, agent_id, seq, attempt) WHERE due_at IS NOT NULL AND attempt > 0;
-- A covering index: without it a planner without statistics would scan the whole inbox.
CREATE INDEX chats_waiting ON chats (agent_id, conversation_id, seq, due_at, give_up_at, event_id)
    WHERE give_up_at IS NOT NULL;
CREATE INDEX chats_by_event ON chats (event_id);
CREATE INDEX chats_by_time ON chats (created_at, agent_id, seq);
-- `seq > 0` always holds. It keeps a planner without statistics from using this index for the last entry.
CREATE INDEX chats_by_agent ON chats (agent_id, created_at, seq) WHERE seq > 0;
CREATE INDEX chats_undelivered ON chats (undelivered, created_at, agent_id, seq) WHERE undelivered IS NOT NULL;
CREATE INDEX chats_undelivered_by_agent ON chats (agent_id, undelivered, created_at, seq) WHERE undelivered IS NOT NULL;
CREATE INDEX chats_next ON chats (next_at, agent_id, seq) WHERE next_at IS NOT NULL;
CREATE INDEX chats_superseding ON chats (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX chats_open ON chats (agent_id, event_id) WHERE next_at IS NOT NULL;
CREATE INDEX chats_by_conversation ON chats (conversation_id, created_at, agent_id, seq) WHERE seq > 0;

-- Push attempts of a delivery.
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

-- When an inbox was delivered through which entry: an entry was delivered at the first mark at or past it.
CREATE TABLE handed (
    agent_id BYTEA NOT NULL,
    through  BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (agent_id, through)
);

-- Relay envelopes by sender: in which inbox, at which position.
CREATE TABLE sent (
    sender_id BYTEA NOT NULL,
    trace_id  BYTEA NOT NULL,
    seq       BIGINT NOT NULL,
    agent_id  BYTEA NOT NULL,
    PRIMARY KEY (sender_id, trace_id, seq)
);

-- New rows for `sent` in the order of time. They move to `sent` in bulk, because writing there for each send costs
-- a page per sender.
CREATE TABLE sent_lately (
    trace_id  BYTEA NOT NULL,
    sender_id BYTEA NOT NULL,
    seq       BIGINT NOT NULL,
    agent_id  BYTEA NOT NULL,
    PRIMARY KEY (trace_id, sender_id, seq)
);

-- Lines of streamed replies for senders that wait for them. Line 0 says that a sender waits, and until when.
CREATE TABLE reply_lines (
    agent_id BYTEA NOT NULL,
    seq      BIGINT NOT NULL,
    line     BIGINT NOT NULL,
    kind     TEXT NOT NULL,
    data     TEXT NOT NULL,
    until_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, seq, line)
);
CREATE INDEX reply_lines_until ON reply_lines (until_at);

-- Digests due: activity of a channel or work stream after `through`, which the agent that leads it has not been told.
CREATE TABLE digests (
    agent_id BYTEA NOT NULL,
    scope_id BYTEA NOT NULL,
    kind     TEXT NOT NULL,
    through  BIGINT NOT NULL,
    since_at BIGINT NOT NULL,
    PRIMARY KEY (agent_id, scope_id)
);
CREATE INDEX digests_since ON digests (since_at, agent_id, scope_id);

-- Responses to requests that may be repeated. The id is a hash of the caller and the idempotency key. `shorter`
-- replaces `answer` at `shorter_from`, which removes the receiver's reply.
CREATE TABLE idempotency (
    id           BYTEA NOT NULL PRIMARY KEY,
    request      BYTEA NOT NULL,
    state        TEXT NOT NULL,
    status       BIGINT,
    answer       TEXT,
    lease_until  BIGINT,
    expires_at   BIGINT,
    shorter      TEXT,
    shorter_from BIGINT
);
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX idempotency_by_cut ON idempotency (shorter_from) WHERE shorter_from IS NOT NULL;


-- Attention

-- Claims on events that any one of several agents may take: the first candidate, and the current or last holder.
CREATE TABLE claims (
    event_id        BYTEA NOT NULL PRIMARY KEY,
    conversation_id BYTEA NOT NULL,
    first_agent     BYTEA,
    offered_at      BIGINT NOT NULL,
    holder          BYTEA,
    since_at        BIGINT,
    until_at        BIGINT,
    state           TEXT,
    next_at         BIGINT
);
CREATE INDEX claims_next ON claims (next_at, event_id) WHERE next_at IS NOT NULL;
CREATE INDEX claims_by_holder ON claims (holder, event_id) WHERE state = 'held';
CREATE INDEX claims_by_conversation ON claims (conversation_id, event_id);
CREATE INDEX claims_by_first ON claims (first_agent, conversation_id) WHERE first_agent IS NOT NULL;

-- Every holder of a claim, and how the claim ended.
CREATE TABLE claim_holders (
    event_id BYTEA NOT NULL,
    since_at BIGINT NOT NULL,
    holder   BYTEA NOT NULL,
    until_at BIGINT NOT NULL,
    state    TEXT NOT NULL,
    PRIMARY KEY (event_id, since_at, holder)
);
CREATE INDEX claim_holders_by_holder ON claim_holders (holder, event_id, since_at);

-- A piece of work in one or more conversations.
CREATE TABLE work_streams (
    id         BYTEA NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    maker_id   BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    closed_at  BIGINT,
    trace_id   BYTEA NOT NULL
);
CREATE INDEX work_streams_open ON work_streams (maker_id) WHERE closed_at IS NULL;

CREATE TABLE work_stream_members (
    stream_id BYTEA NOT NULL,
    member_id BYTEA NOT NULL,
    owns      BIGINT NOT NULL,
    lead      BIGINT NOT NULL,
    PRIMARY KEY (stream_id, member_id)
);
CREATE INDEX work_stream_members_by_member ON work_stream_members (member_id, stream_id);

CREATE TABLE work_stream_conversations (
    conversation_id BYTEA NOT NULL,
    stream_id       BYTEA NOT NULL,
    PRIMARY KEY (conversation_id, stream_id)
);
CREATE INDEX work_stream_conversations_by_stream ON work_stream_conversations (stream_id, conversation_id);

-- Events of a work stream. `place`: the position in the work stream. `seq`: that in the conversation.
CREATE TABLE work_stream_events (
    stream_id       BYTEA NOT NULL,
    place           BIGINT NOT NULL,
    event_id        BYTEA NOT NULL,
    conversation_id BYTEA NOT NULL,
    seq             BIGINT NOT NULL,
    PRIMARY KEY (stream_id, place)
);
CREATE UNIQUE INDEX work_stream_events_by_event ON work_stream_events (event_id);


-- Market

-- Amounts are integers of 0.01 credits. A wallet is used with a key or by an account. `moves` numbers its movements.
-- `issued_to`: the agent whose key was shown when the wallet's key was issued; that key ends when the agent is detached.
CREATE TABLE wallets (
    id         BYTEA NOT NULL PRIMARY KEY,
    owner      TEXT NOT NULL,
    account_id BYTEA,
    key_hash   BYTEA,
    balance    BIGINT NOT NULL CHECK (balance >= 0),
    created_at BIGINT NOT NULL,
    trace_id   BYTEA NOT NULL,
    moves      BIGINT NOT NULL DEFAULT 0,
    issued_to  BYTEA
);
CREATE UNIQUE INDEX wallets_by_owner ON wallets (owner);
CREATE UNIQUE INDEX wallets_by_key ON wallets (key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX wallets_by_account ON wallets (account_id, id) WHERE account_id IS NOT NULL;
CREATE INDEX wallets_by_issue ON wallets (issued_to) WHERE issued_to IS NOT NULL;

-- Credits reserved for open jobs.
CREATE TABLE holds (
    job_id    BYTEA NOT NULL PRIMARY KEY,
    wallet_id BYTEA NOT NULL,
    amount    BIGINT NOT NULL CHECK (amount > 0)
);
CREATE INDEX holds_by_wallet ON holds (wallet_id, amount);

-- One row per movement: from a wallet, to a wallet, or both. Each wallet numbers its own movements.
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
CREATE INDEX transfers_by_pair ON transfers (from_id, to_id, created_at);

-- The credits an agent's key may spend per day. Without `per_day` the owner's default applies. `spent` belongs to
-- `day`, which counts days since 1970 in UTC.
CREATE TABLE allowances (
    agent_id BYTEA NOT NULL PRIMARY KEY,
    per_day  BIGINT CHECK (per_day >= 0),
    day      BIGINT NOT NULL,
    spent    BIGINT NOT NULL CHECK (spent >= 0)
);

-- Agents that offer skills. `endpoint` is for jobs only. `left_at`: when the agent left, while jobs may be open.
-- `words_due_at`: when the words of its skills became due for indexing; NULL when they are indexed.
CREATE TABLE market_agents (
    agent_id      BYTEA NOT NULL PRIMARY KEY,
    wallet_id     BYTEA NOT NULL,
    display_name  TEXT NOT NULL,
    endpoint      TEXT,
    reputation    BIGINT NOT NULL,
    changes       BIGINT NOT NULL,
    registered_at BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    trace_id      BYTEA NOT NULL,
    left_at       BIGINT,
    words_due_at  BIGINT,
    considered    BIGINT NOT NULL DEFAULT 0,
    declined      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX market_agents_by_wallet ON market_agents (wallet_id, agent_id);
CREATE INDEX market_agents_leaving ON market_agents (agent_id) WHERE left_at IS NOT NULL;
CREATE INDEX market_agents_by_words_due ON market_agents (words_due_at, agent_id) WHERE words_due_at IS NOT NULL;

-- `shortfall`: the best possible reputation minus the agent's, so that index order is discovery order.
CREATE TABLE skills (
    agent_id      BYTEA NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    place         BIGINT NOT NULL,
    description   TEXT,
    cost          BIGINT NOT NULL,
    input_schema  TEXT,
    output_schema TEXT,
    shortfall     BIGINT NOT NULL,
    min_deadline  BIGINT,
    PRIMARY KEY (agent_id, name)
);
CREATE INDEX skills_by_name ON skills (name, shortfall, cost, agent_id);
CREATE INDEX skills_by_rank ON skills (shortfall, cost, agent_id, name);

-- The search index of skills: words of the skill's name, of its description and of the agent's name.
CREATE TABLE skill_words (
    word     TEXT COLLATE "C" NOT NULL,
    agent_id BYTEA NOT NULL,
    name     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (word, agent_id, name)
);
CREATE INDEX skill_words_by_agent ON skill_words (agent_id);

-- `not_counted`: why a job did not change the reputation. `payer_id` is set for jobs that counted or were
-- declined; a limit per day applies to each payer and agent.
CREATE TABLE reputation_changes (
    agent_id    BYTEA NOT NULL,
    number      BIGINT NOT NULL,
    job_id      BYTEA NOT NULL,
    status      TEXT NOT NULL,
    old_score   BIGINT NOT NULL,
    new_score   BIGINT NOT NULL,
    arithmetic  TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    not_counted TEXT,
    payer_id    BYTEA,
    PRIMARY KEY (agent_id, number)
);
CREATE INDEX reputation_changes_by_payer ON reputation_changes (agent_id, payer_id, created_at, not_counted)
    WHERE payer_id IS NOT NULL;

-- `content`: a hash of the request. The terms are those at the time of the request. `event_id`: the event that is
-- delivered to the agent. `callback`: the payer's callback address, encrypted. `excuse`: an outage during the job.
-- `allowance_day`: the day whose allowance paid the budget; NULL without an allowance.
CREATE TABLE jobs (
    id              BYTEA NOT NULL PRIMARY KEY,
    content         BYTEA NOT NULL,
    orchestrator_id BYTEA,
    payer_id        BYTEA NOT NULL,
    agent_id        BYTEA NOT NULL,
    payee_id        BYTEA NOT NULL,
    skill           TEXT NOT NULL,
    price           BIGINT NOT NULL,
    budget          BIGINT NOT NULL,
    output_schema   TEXT,
    status          TEXT NOT NULL,
    paid            BIGINT NOT NULL,
    result          TEXT,
    error_code      TEXT,
    error_message   TEXT,
    event_id        BYTEA NOT NULL,
    callback        BYTEA,
    deadline_at     BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    ended_at        BIGINT,
    trace_id        BYTEA NOT NULL,
    note            TEXT,
    handed_at       BIGINT,
    skill_time      BIGINT NOT NULL DEFAULT 30000,
    excuse          TEXT,
    allowance_day   BIGINT
);
CREATE INDEX jobs_by_deadline ON jobs (deadline_at, id) WHERE status = 'PENDING';
CREATE INDEX jobs_by_payer ON jobs (payer_id, created_at, id);
CREATE INDEX jobs_by_payee ON jobs (payee_id, created_at, id);
CREATE INDEX jobs_by_orchestrator ON jobs (orchestrator_id, created_at, id) WHERE orchestrator_id IS NOT NULL;
CREATE INDEX jobs_by_agent ON jobs (agent_id, created_at, id);
CREATE INDEX jobs_by_end ON jobs (ended_at) WHERE result IS NOT NULL;
CREATE INDEX jobs_open_by_event ON jobs (event_id) WHERE status = 'PENDING';
CREATE INDEX jobs_open_by_payer ON jobs (payer_id) WHERE status = 'PENDING';
CREATE INDEX jobs_open_by_agent ON jobs (agent_id) WHERE status = 'PENDING';
CREATE INDEX jobs_paid_by_pair ON jobs (payer_id, payee_id, ended_at) WHERE paid > 0;

-- Requests for offers, valid until `valid_until`.
CREATE TABLE quotes (
    id              BYTEA NOT NULL PRIMARY KEY,
    payer_id        BYTEA NOT NULL,
    skill           TEXT NOT NULL,
    input           TEXT,
    job_id          BYTEA,
    valid_until     BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    trace_id        BYTEA NOT NULL,
    answers_until   BIGINT NOT NULL DEFAULT 0,
    orchestrator_id BYTEA,
    budget          BIGINT
);
CREATE INDEX quotes_by_end ON quotes (valid_until);
CREATE INDEX quotes_by_payer ON quotes (payer_id, valid_until);

-- Agents that do not answer are counted with their listed price.
CREATE TABLE offers (
    quote_id    BYTEA NOT NULL,
    place       BIGINT NOT NULL,
    agent_id    BYTEA NOT NULL,
    price       BIGINT NOT NULL,
    expected_ms BIGINT,
    reputation  BIGINT NOT NULL,
    answered_at BIGINT,
    declined    BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (quote_id, place)
);
CREATE INDEX offers_by_agent ON offers (agent_id);


-- Choir

-- Declared ensembles. One without an owner is edited through a link, of which only the hash is kept, until it is
-- claimed. `ingest`: the unguessable end of the address for signed evidence.
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
CREATE INDEX scores_unclaimed ON scores (updated_at) WHERE owner_id IS NULL;

-- Canonical JSON of each version.
CREATE TABLE score_versions (
    score_id   BYTEA NOT NULL,
    version    BIGINT NOT NULL,
    body       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (score_id, version)
);

-- Signing secrets are derived from the master key, the Score and this id. None is stored.
CREATE TABLE signing_secrets (
    id         BYTEA NOT NULL PRIMARY KEY,
    score_id   BYTEA NOT NULL,
    prefix     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX signing_secrets_by_score ON signing_secrets (score_id, prefix);

-- Bundles as received, in canonical JSON. The same bundle with the same status is stored once per Score.
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
CREATE INDEX evidence_by_score ON evidence (score_id, id);

-- Public under unguessable ids. `payload` is the canonical JSON that was hashed.
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

-- Leaves of the transparency log.
CREATE TABLE log_leaves (
    place BIGINT NOT NULL PRIMARY KEY,
    leaf  TEXT NOT NULL
);

-- Complete subtrees of the log's Merkle tree.
CREATE TABLE log_nodes (
    level BIGINT NOT NULL,
    place BIGINT NOT NULL,
    hash  BYTEA NOT NULL,
    PRIMARY KEY (level, place)
);

-- Public keys that the hub signed with. The private keys are derived from the master key.
CREATE TABLE attestation_keys (
    generation BIGINT NOT NULL PRIMARY KEY,
    public_key BYTEA NOT NULL,
    from_at    BIGINT NOT NULL,
    until_at   BIGINT
);


-- Activity

-- Actions of accounts, agents and the operator. Rows are only added, and removed by age or when their actor repeated the
-- same action many times. Ids sort by time. `repeats`: how many further actions a row stands for.
CREATE TABLE audit (
    id                BYTEA NOT NULL PRIMARY KEY,
    at                BIGINT NOT NULL,
    actor_kind        TEXT NOT NULL,
    actor_id          TEXT NOT NULL,
    action            TEXT NOT NULL,
    subject_kind      TEXT NOT NULL,
    subject_id        TEXT NOT NULL,
    detail            TEXT NOT NULL,
    request_id        TEXT NOT NULL,
    client            TEXT NOT NULL,
    repeats           BIGINT NOT NULL DEFAULT 0,
    client_request_id TEXT NOT NULL DEFAULT ''
);
CREATE INDEX audit_by_actor ON audit (actor_id, id);
CREATE INDEX audit_by_actor_and_action ON audit (actor_id, action, id);
CREATE INDEX audit_by_action ON audit (action, id);
CREATE INDEX audit_by_subject ON audit (subject_id, id);
