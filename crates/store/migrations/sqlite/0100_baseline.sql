-- The schema of version 0.1.0. Later versions change it by migrations that are added beside this file.
--
-- Ids are 16 bytes, times are milliseconds since 1970 in UTC, JSON is text, secrets are stored as SHA-256 hashes.
-- Tables, columns and indexes are the same as in ../postgres; a test compares them. Only `search` differs.


-- The hub

-- Named values of the hub.
CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The last sequence number of each stream: inboxes, conversations, work streams, streamed replies and the log.
CREATE TABLE streams (
    kind TEXT NOT NULL,
    id   BLOB NOT NULL,
    head INTEGER NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

-- Stored bytes per principal. The figure of an account includes those of the agents it owns.
CREATE TABLE usage (
    principal_id BLOB NOT NULL PRIMARY KEY,
    bytes        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;


-- Accounts and credentials

-- A deleted account keeps its row, because events name their author by id. Its email address becomes free.
-- `mails`: whether the account wants mail about unread messages while it is away.
CREATE TABLE accounts (
    id          BLOB NOT NULL PRIMARY KEY,
    email       TEXT NOT NULL,
    email_key   TEXT NOT NULL,
    name        TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    trace_id    BLOB NOT NULL,
    disabled_at INTEGER,
    deleted_at  INTEGER,
    mails       INTEGER NOT NULL DEFAULT 1,
    mailed_at   INTEGER NOT NULL DEFAULT 0,
    seen_at     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX accounts_by_email ON accounts (email_key);

-- Sign-in links, sessions, tokens and sign-up invitations. A sign-in link that was requested with a sign-up
-- invitation names it in `invitation_id`; the invitation is used up when the link creates an account.
CREATE TABLE credentials (
    id            BLOB NOT NULL PRIMARY KEY,
    hash          BLOB NOT NULL,
    kind          TEXT NOT NULL,
    account_id    BLOB,
    email         TEXT,
    email_key     TEXT,
    label         TEXT,
    invitation_id BLOB,
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER,
    trace_id      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
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
    id                 BLOB NOT NULL PRIMARY KEY,
    name               TEXT NOT NULL,
    name_key           TEXT NOT NULL,
    key_hash           BLOB NOT NULL,
    endpoint           TEXT,
    card               TEXT,
    registered_at      INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    deleted_at         INTEGER,
    trace_id           BLOB NOT NULL,
    owner_id           BLOB,
    description        TEXT,
    inlet_hash         BLOB,
    connection         BLOB,
    epoch              INTEGER NOT NULL DEFAULT 0,
    broken             TEXT,
    broken_at          INTEGER,
    disabled_at        INTEGER,
    owner_disabled_at  INTEGER,
    webhook_rotations  INTEGER NOT NULL DEFAULT 0,
    webhook_rotated_at INTEGER,
    has_blocks         INTEGER NOT NULL DEFAULT 0,
    proven_endpoint    TEXT,
    paused_at          INTEGER,
    harness            TEXT,
    harness_shows      TEXT,
    registered_from    BLOB
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX agents_by_name ON agents (name_key) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX agents_by_key ON agents (key_hash) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX agents_by_inlet ON agents (inlet_hash) WHERE inlet_hash IS NOT NULL;
CREATE INDEX agents_by_owner ON agents (owner_id, id) WHERE owner_id IS NOT NULL;
-- Finds earlier agents of a name, so that a new agent of that name continues their numbering.
CREATE INDEX agents_by_former_name ON agents (name_key, registered_at) WHERE deleted_at IS NOT NULL;

-- The search index of agents: parts of names and descriptions, culture, languages and owner.
CREATE TABLE agent_terms (
    term     TEXT NOT NULL,
    name_key TEXT NOT NULL,
    agent_id BLOB NOT NULL,
    PRIMARY KEY (term, name_key)
) STRICT, WITHOUT ROWID;

-- Log lines that harnesses sent; only the newest of each agent are kept. Ids sort by time.
CREATE TABLE harness_logs (
    agent_id BLOB NOT NULL,
    id       BLOB NOT NULL,
    level    TEXT NOT NULL,
    logger   TEXT,
    text     TEXT NOT NULL,
    PRIMARY KEY (agent_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX harness_logs_by_age ON harness_logs (id);

-- Calls of the hub's tools and their outcome: `done`, or an error code. Ids sort by time.
CREATE TABLE tool_calls (
    id              BLOB NOT NULL PRIMARY KEY,
    caller_kind     TEXT NOT NULL,
    caller_id       BLOB NOT NULL,
    tool            TEXT NOT NULL,
    door            TEXT NOT NULL,
    conversation_id BLOB,
    event_id        BLOB,
    outcome         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tool_calls_by_caller ON tool_calls (caller_id, id);
CREATE INDEX tool_calls_in ON tool_calls (conversation_id, id) WHERE conversation_id IS NOT NULL;
CREATE INDEX tool_calls_about ON tool_calls (event_id, id) WHERE event_id IS NOT NULL;

-- MCP sessions: one owner in one conversation. `subscribed` is a JSON array of document slugs.
CREATE TABLE mcp_sessions (
    id              BLOB NOT NULL PRIMARY KEY,
    owner_kind      TEXT NOT NULL,
    owner_id        BLOB NOT NULL,
    conversation_id BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    last_used_at    INTEGER NOT NULL,
    subscribed      TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX mcp_sessions_by_owner ON mcp_sessions (owner_id, conversation_id, created_at);
CREATE INDEX mcp_sessions_by_use ON mcp_sessions (last_used_at);


-- Conversations

-- `history`: `all`, or `joined` if members read only what was said during their membership.
-- `open_from`: every member may read everything after this sequence number. `oldest`: the first event still stored.
-- `loop_turns`: the owner's limit for loops between agents; 0 means no limit.
CREATE TABLE conversations (
    id          BLOB NOT NULL PRIMARY KEY,
    kind        TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    trace_id    BLOB NOT NULL,
    name        TEXT,
    context     TEXT,
    owner_kind  TEXT,
    owner_id    BLOB,
    history     TEXT NOT NULL DEFAULT 'all',
    archived_at INTEGER,
    keep_days   INTEGER,
    oldest      INTEGER NOT NULL DEFAULT 1,
    loop_turns  INTEGER,
    glyphs      TEXT,
    open_from   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX conversations_by_owner ON conversations (owner_id, kind)
    WHERE owner_id IS NOT NULL AND archived_at IS NULL;

-- One row per stay: a member that leaves and returns has two. A stay covers the events after `joined_seq`, up to
-- `left_seq`. `handle_seq`: the event since which the member has its handle; NULL means since it joined.
CREATE TABLE members (
    conversation_id BLOB NOT NULL,
    member_id       BLOB NOT NULL,
    joined_seq      INTEGER NOT NULL,
    kind            TEXT NOT NULL,
    handle          TEXT NOT NULL,
    handle_key      TEXT NOT NULL,
    roles           TEXT NOT NULL,
    lead            INTEGER NOT NULL,
    joined_at       INTEGER NOT NULL,
    left_seq        INTEGER,
    left_at         INTEGER,
    trace_id        BLOB NOT NULL,
    handle_seq      INTEGER,
    PRIMARY KEY (conversation_id, member_id, joined_seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX members_by_handle ON members (conversation_id, handle_key) WHERE left_seq IS NULL;
CREATE INDEX members_by_member ON members (member_id, conversation_id) WHERE left_seq IS NULL;
CREATE INDEX members_leading ON members (conversation_id, handle_key) WHERE lead = 1 AND left_seq IS NULL;
CREATE INDEX members_former ON members (member_id) WHERE left_seq IS NOT NULL;

-- Current roles, one row per member and role.
CREATE TABLE member_roles (
    conversation_id BLOB NOT NULL,
    role_key        TEXT NOT NULL,
    member_id       BLOB NOT NULL,
    PRIMARY KEY (conversation_id, role_key, member_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX member_roles_by_member ON member_roles (member_id, conversation_id);

-- Invitations into a conversation, or to direct messages (a conversation id of sixteen zeros). The invitee is the
-- email key or account id that the inviter gave, whether or not it exists.
-- `state`: `open`, `declined`, or `hidden` from an invitee that blocks the inviter.
CREATE TABLE invitations (
    id              BLOB NOT NULL PRIMARY KEY,
    inviter_kind    TEXT NOT NULL,
    inviter_id      BLOB NOT NULL,
    invitee         TEXT NOT NULL,
    conversation_id BLOB NOT NULL,
    handle          TEXT,
    roles           TEXT NOT NULL,
    lead            INTEGER NOT NULL,
    state           TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    mailed_at       INTEGER,
    trace_id        BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX invitations_by_inviter ON invitations (inviter_id, invitee, conversation_id);
CREATE INDEX invitations_by_invitee ON invitations (invitee, id);
CREATE INDEX invitations_by_expiry ON invitations (expires_at);

-- Blocked senders: the id of an agent or an account, or an email key. `label` is the text the blocker entered.
CREATE TABLE blocks (
    id         BLOB NOT NULL PRIMARY KEY,
    blocker_id BLOB NOT NULL,
    blocked    TEXT NOT NULL,
    label      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    trace_id   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX blocks_by_blocker ON blocks (blocker_id, blocked);

-- Messages between agents in a row without a person, per conversation.
CREATE TABLE loop_guards (
    conversation_id BLOB NOT NULL PRIMARY KEY,
    turns           INTEGER NOT NULL,
    counted_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How far a person has read a conversation, and the last message there that addressed the person. `asked_at` is
-- its time, until the person has read it or was notified.
CREATE TABLE readings (
    account_id      BLOB NOT NULL,
    conversation_id BLOB NOT NULL,
    read_seq        INTEGER NOT NULL DEFAULT 0,
    asked_seq       INTEGER NOT NULL DEFAULT 0,
    asked_at        INTEGER,
    PRIMARY KEY (account_id, conversation_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX readings_asked ON readings (asked_at, account_id) WHERE asked_at IS NOT NULL;


-- Events

-- Appended by rowid with narrow indexes. Bodies above 64 KiB are in `large_bodies`. Relay envelopes have `seq` 0,
-- because their order is that of the receiver's inbox. `target_id`: the event that an edit, deletion or reaction changes,
-- or that a message replies to.
CREATE TABLE events (
    id              BLOB NOT NULL,
    conversation_id BLOB NOT NULL,
    seq             INTEGER NOT NULL,
    kind            TEXT NOT NULL,
    author_id       BLOB NOT NULL,
    trace_id        BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    body            TEXT,
    author_kind     TEXT NOT NULL DEFAULT 'agent',
    thread_id       BLOB,
    target_id       BLOB
) STRICT;
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
    event_id BLOB NOT NULL PRIMARY KEY,
    body     TEXT NOT NULL
) STRICT;

-- The search index of messages. A term combines the conversation and a word, so that a search reads only the index
-- entries of its own conversations.
CREATE VIRTUAL TABLE search USING fts5 (
    terms, content = '', contentless_delete = 1, tokenize = 'ascii', detail = none
);

-- Versions of documents. `content` and `bytes` come last, so that queries for the other columns do not read them.
-- A document that is not text has `bytes` and an empty `content`.
CREATE TABLE artifacts (
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
    bytes           BLOB,
    PRIMARY KEY (conversation_id, slug, version)
) STRICT;

-- Streamed replies that are not finished: the text so far of a message that is not in the log yet, one per answered
-- delivery. `event_id`: the id the message will have. `tail`: the last, incomplete word. `version`: the position in the
-- conversation's stream of changes to such replies.
CREATE TABLE growing (
    agent_id        BLOB NOT NULL,
    seq             INTEGER NOT NULL,
    conversation_id BLOB NOT NULL,
    event_id        BLOB NOT NULL,
    thread_id       BLOB,
    content         TEXT NOT NULL,
    tail            TEXT NOT NULL,
    version         INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX growing_versions ON growing (conversation_id, version);
CREATE INDEX growing_updated ON growing (updated_at);

-- Messages and edits that wait for a person's approval. `body` is kept while it waits. `edit_of`: the message whose
-- text a held edit would replace; at most one edit of a message waits.
CREATE TABLE approvals (
    id              BLOB NOT NULL PRIMARY KEY,
    conversation_id BLOB NOT NULL,
    author_kind     TEXT NOT NULL,
    author_id       BLOB NOT NULL,
    body            TEXT NOT NULL,
    thread_id       BLOB,
    reply_to        BLOB,
    stream_id       BLOB,
    trace_id        BLOB NOT NULL,
    state           TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    ends_at         INTEGER NOT NULL,
    decided_by      BLOB,
    decided_at      INTEGER,
    reason          TEXT,
    event_id        BLOB,
    edit_of         BLOB
) STRICT;
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
    agent_id       BLOB NOT NULL PRIMARY KEY,
    handed_through INTEGER NOT NULL DEFAULT 0,
    oldest         INTEGER NOT NULL DEFAULT 1,
    session        BLOB,
    node           BLOB,
    open_until     INTEGER NOT NULL DEFAULT 0,
    seen_at        INTEGER NOT NULL DEFAULT 0,
    shows          TEXT,
    sent_through   INTEGER NOT NULL DEFAULT 0,
    closed_at      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX inboxes_by_node ON inboxes (node) WHERE node IS NOT NULL;
CREATE INDEX inboxes_by_open ON inboxes (open_until);
CREATE INDEX inboxes_by_seen ON inboxes (seen_at);

-- One event on its way to one agent. In the order of `seq` they are the agent's inbox.
CREATE TABLE deliveries (
    agent_id    BLOB NOT NULL,
    seq         INTEGER NOT NULL,
    event_id    BLOB NOT NULL,
    kind        TEXT NOT NULL,
    transport   TEXT NOT NULL,
    state       TEXT NOT NULL,
    lease_owner BLOB,
    lease_until INTEGER,
    error_code  TEXT,
    detail      TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    trace_id    BLOB NOT NULL,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_by_lease ON deliveries (lease_until) WHERE lease_until IS NOT NULL;

-- Additional columns of deliveries in conversations: why they go to this agent, when they are tried, and what the
-- agent did with them. They are apart so that relay sends do not pay for these indexes.
-- A delivery is `waiting` if and only if it has a `give_up_at` here. The first waiting one of its conversation has a
-- `due_at`; while it is tried, that is the end of the lease. `not_before`: the earliest retry after a failure.
-- `undelivered`: `dead` or `failed`. `sent`: how often the agent was sent the event. `supersedes`: the event it replaces.
-- `until_at`: the end of a claim or a deferral. `next_at`: when the reconciler looks at it again.
CREATE TABLE chats (
    agent_id           BLOB NOT NULL,
    seq                INTEGER NOT NULL,
    event_id           BLOB NOT NULL,
    conversation_id    BLOB NOT NULL,
    reason             TEXT NOT NULL,
    created_at         INTEGER NOT NULL,
    attempt            INTEGER NOT NULL DEFAULT 0,
    due_at             INTEGER,
    not_before         INTEGER,
    give_up_at         INTEGER,
    undelivered        TEXT,
    handed_at          INTEGER,
    disposition        TEXT,
    disposition_at     INTEGER,
    directedness       TEXT,
    policy             TEXT,
    mode               TEXT,
    priority           TEXT,
    deadline_at        INTEGER,
    mentions           TEXT,
    sent               INTEGER NOT NULL DEFAULT 1,
    supersedes         BLOB,
    acked_at           INTEGER,
    injected_at        INTEGER,
    reminded_at        INTEGER,
    escalated_at       INTEGER,
    until_at           INTEGER,
    next_at            INTEGER,
    disposition_reason TEXT,
    PRIMARY KEY (agent_id, seq)
) STRICT, WITHOUT ROWID;
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
    agent_id   BLOB NOT NULL,
    seq        INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    status     INTEGER,
    latency_ms INTEGER NOT NULL,
    error      TEXT,
    PRIMARY KEY (agent_id, seq, number)
) STRICT, WITHOUT ROWID;

-- When an inbox was delivered through which entry: an entry was delivered at the first mark at or past it.
CREATE TABLE handed (
    agent_id BLOB NOT NULL,
    through  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (agent_id, through)
) STRICT, WITHOUT ROWID;

-- Relay envelopes by sender: in which inbox, at which position.
CREATE TABLE sent (
    sender_id BLOB NOT NULL,
    trace_id  BLOB NOT NULL,
    seq       INTEGER NOT NULL,
    agent_id  BLOB NOT NULL,
    PRIMARY KEY (sender_id, trace_id, seq)
) STRICT, WITHOUT ROWID;

-- New rows for `sent` in the order of time. They move to `sent` in bulk, because writing there for each send costs
-- a page per sender.
CREATE TABLE sent_lately (
    trace_id  BLOB NOT NULL,
    sender_id BLOB NOT NULL,
    seq       INTEGER NOT NULL,
    agent_id  BLOB NOT NULL,
    PRIMARY KEY (trace_id, sender_id, seq)
) STRICT, WITHOUT ROWID;

-- Lines of streamed replies for senders that wait for them. Line 0 says that a sender waits, and until when.
CREATE TABLE reply_lines (
    agent_id BLOB NOT NULL,
    seq      INTEGER NOT NULL,
    line     INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    data     TEXT NOT NULL,
    until_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, seq, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX reply_lines_until ON reply_lines (until_at);

-- Digests due: activity of a channel or work stream after `through`, which the agent that leads it has not been told.
CREATE TABLE digests (
    agent_id BLOB NOT NULL,
    scope_id BLOB NOT NULL,
    kind     TEXT NOT NULL,
    through  INTEGER NOT NULL,
    since_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, scope_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX digests_since ON digests (since_at, agent_id, scope_id);

-- Responses to requests that may be repeated. The id is a hash of the caller and the idempotency key. `shorter`
-- replaces `answer` at `shorter_from`, which removes the receiver's reply.
CREATE TABLE idempotency (
    id           BLOB NOT NULL PRIMARY KEY,
    request      BLOB NOT NULL,
    state        TEXT NOT NULL,
    status       INTEGER,
    answer       TEXT,
    lease_until  INTEGER,
    expires_at   INTEGER,
    shorter      TEXT,
    shorter_from INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX idempotency_by_cut ON idempotency (shorter_from) WHERE shorter_from IS NOT NULL;


-- Attention

-- Claims on events that any one of several agents may take: the first candidate, and the current or last holder.
CREATE TABLE claims (
    event_id        BLOB NOT NULL PRIMARY KEY,
    conversation_id BLOB NOT NULL,
    first_agent     BLOB,
    offered_at      INTEGER NOT NULL,
    holder          BLOB,
    since_at        INTEGER,
    until_at        INTEGER,
    state           TEXT,
    next_at         INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_next ON claims (next_at, event_id) WHERE next_at IS NOT NULL;
CREATE INDEX claims_by_holder ON claims (holder, event_id) WHERE state = 'held';
CREATE INDEX claims_by_conversation ON claims (conversation_id, event_id);
CREATE INDEX claims_by_first ON claims (first_agent, conversation_id) WHERE first_agent IS NOT NULL;

-- Every holder of a claim, and how the claim ended.
CREATE TABLE claim_holders (
    event_id BLOB NOT NULL,
    since_at INTEGER NOT NULL,
    holder   BLOB NOT NULL,
    until_at INTEGER NOT NULL,
    state    TEXT NOT NULL,
    PRIMARY KEY (event_id, since_at, holder)
) STRICT, WITHOUT ROWID;
CREATE INDEX claim_holders_by_holder ON claim_holders (holder, event_id, since_at);

-- A piece of work in one or more conversations.
CREATE TABLE work_streams (
    id         BLOB NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    maker_id   BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    closed_at  INTEGER,
    trace_id   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX work_streams_open ON work_streams (maker_id) WHERE closed_at IS NULL;

CREATE TABLE work_stream_members (
    stream_id BLOB NOT NULL,
    member_id BLOB NOT NULL,
    owns      INTEGER NOT NULL,
    lead      INTEGER NOT NULL,
    PRIMARY KEY (stream_id, member_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX work_stream_members_by_member ON work_stream_members (member_id, stream_id);

CREATE TABLE work_stream_conversations (
    conversation_id BLOB NOT NULL,
    stream_id       BLOB NOT NULL,
    PRIMARY KEY (conversation_id, stream_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX work_stream_conversations_by_stream ON work_stream_conversations (stream_id, conversation_id);

-- Events of a work stream. `place`: the position in the work stream. `seq`: that in the conversation.
CREATE TABLE work_stream_events (
    stream_id       BLOB NOT NULL,
    place           INTEGER NOT NULL,
    event_id        BLOB NOT NULL,
    conversation_id BLOB NOT NULL,
    seq             INTEGER NOT NULL,
    PRIMARY KEY (stream_id, place)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX work_stream_events_by_event ON work_stream_events (event_id);


-- Market

-- Amounts are integers of 0.01 credits. A wallet is used with a key or by an account. `moves` numbers its movements.
-- `issued_to`: the agent whose key was shown when the wallet's key was issued; that key ends when the agent is detached.
CREATE TABLE wallets (
    id         BLOB NOT NULL PRIMARY KEY,
    owner      TEXT NOT NULL,
    account_id BLOB,
    key_hash   BLOB,
    balance    INTEGER NOT NULL CHECK (balance >= 0),
    created_at INTEGER NOT NULL,
    trace_id   BLOB NOT NULL,
    moves      INTEGER NOT NULL DEFAULT 0,
    issued_to  BLOB
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX wallets_by_owner ON wallets (owner);
CREATE UNIQUE INDEX wallets_by_key ON wallets (key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX wallets_by_account ON wallets (account_id, id) WHERE account_id IS NOT NULL;
CREATE INDEX wallets_by_issue ON wallets (issued_to) WHERE issued_to IS NOT NULL;

-- Credits reserved for open jobs.
CREATE TABLE holds (
    job_id    BLOB NOT NULL PRIMARY KEY,
    wallet_id BLOB NOT NULL,
    amount    INTEGER NOT NULL CHECK (amount > 0)
) STRICT, WITHOUT ROWID;
CREATE INDEX holds_by_wallet ON holds (wallet_id, amount);

-- One row per movement: from a wallet, to a wallet, or both. Each wallet numbers its own movements.
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
CREATE INDEX transfers_by_pair ON transfers (from_id, to_id, created_at);

-- The credits an agent's key may spend per day. Without `per_day` the owner's default applies. `spent` belongs to
-- `day`, which counts days since 1970 in UTC.
CREATE TABLE allowances (
    agent_id BLOB NOT NULL PRIMARY KEY,
    per_day  INTEGER CHECK (per_day >= 0),
    day      INTEGER NOT NULL,
    spent    INTEGER NOT NULL CHECK (spent >= 0)
) STRICT, WITHOUT ROWID;

-- Agents that offer skills. `endpoint` is for jobs only. `left_at`: when the agent left, while jobs may be open.
-- `words_due_at`: when the words of its skills became due for indexing; NULL when they are indexed.
CREATE TABLE market_agents (
    agent_id      BLOB NOT NULL PRIMARY KEY,
    wallet_id     BLOB NOT NULL,
    display_name  TEXT NOT NULL,
    endpoint      TEXT,
    reputation    INTEGER NOT NULL,
    changes       INTEGER NOT NULL,
    registered_at INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    trace_id      BLOB NOT NULL,
    left_at       INTEGER,
    words_due_at  INTEGER,
    considered    INTEGER NOT NULL DEFAULT 0,
    declined      INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX market_agents_by_wallet ON market_agents (wallet_id, agent_id);
CREATE INDEX market_agents_leaving ON market_agents (agent_id) WHERE left_at IS NOT NULL;
CREATE INDEX market_agents_by_words_due ON market_agents (words_due_at, agent_id) WHERE words_due_at IS NOT NULL;

-- `shortfall`: the best possible reputation minus the agent's, so that index order is discovery order.
CREATE TABLE skills (
    agent_id      BLOB NOT NULL,
    name          TEXT NOT NULL,
    place         INTEGER NOT NULL,
    description   TEXT,
    cost          INTEGER NOT NULL,
    input_schema  TEXT,
    output_schema TEXT,
    shortfall     INTEGER NOT NULL,
    min_deadline  INTEGER,
    PRIMARY KEY (agent_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX skills_by_name ON skills (name, shortfall, cost, agent_id);
CREATE INDEX skills_by_rank ON skills (shortfall, cost, agent_id, name);

-- The search index of skills: words of the skill's name, of its description and of the agent's name.
CREATE TABLE skill_words (
    word     TEXT NOT NULL,
    agent_id BLOB NOT NULL,
    name     TEXT NOT NULL,
    PRIMARY KEY (word, agent_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX skill_words_by_agent ON skill_words (agent_id);

-- `not_counted`: why a job did not change the reputation. `payer_id` is set for jobs that counted or were
-- declined; a limit per day applies to each payer and agent.
CREATE TABLE reputation_changes (
    agent_id    BLOB NOT NULL,
    number      INTEGER NOT NULL,
    job_id      BLOB NOT NULL,
    status      TEXT NOT NULL,
    old_score   INTEGER NOT NULL,
    new_score   INTEGER NOT NULL,
    arithmetic  TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    not_counted TEXT,
    payer_id    BLOB,
    PRIMARY KEY (agent_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX reputation_changes_by_payer ON reputation_changes (agent_id, payer_id, created_at, not_counted)
    WHERE payer_id IS NOT NULL;

-- `content`: a hash of the request. The terms are those at the time of the request. `event_id`: the event that is
-- delivered to the agent. `callback`: the payer's callback address, encrypted. `excuse`: an outage during the job.
-- `allowance_day`: the day whose allowance paid the budget; NULL without an allowance.
CREATE TABLE jobs (
    id              BLOB NOT NULL PRIMARY KEY,
    content         BLOB NOT NULL,
    orchestrator_id BLOB,
    payer_id        BLOB NOT NULL,
    agent_id        BLOB NOT NULL,
    payee_id        BLOB NOT NULL,
    skill           TEXT NOT NULL,
    price           INTEGER NOT NULL,
    budget          INTEGER NOT NULL,
    output_schema   TEXT,
    status          TEXT NOT NULL,
    paid            INTEGER NOT NULL,
    result          TEXT,
    error_code      TEXT,
    error_message   TEXT,
    event_id        BLOB NOT NULL,
    callback        BLOB,
    deadline_at     INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    trace_id        BLOB NOT NULL,
    note            TEXT,
    handed_at       INTEGER,
    skill_time      INTEGER NOT NULL DEFAULT 30000,
    excuse          TEXT,
    allowance_day   INTEGER
) STRICT, WITHOUT ROWID;
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
    id              BLOB NOT NULL PRIMARY KEY,
    payer_id        BLOB NOT NULL,
    skill           TEXT NOT NULL,
    input           TEXT,
    job_id          BLOB,
    valid_until     INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    trace_id        BLOB NOT NULL,
    answers_until   INTEGER NOT NULL DEFAULT 0,
    orchestrator_id BLOB,
    budget          INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX quotes_by_end ON quotes (valid_until);
CREATE INDEX quotes_by_payer ON quotes (payer_id, valid_until);

-- Agents that do not answer are counted with their listed price.
CREATE TABLE offers (
    quote_id    BLOB NOT NULL,
    place       INTEGER NOT NULL,
    agent_id    BLOB NOT NULL,
    price       INTEGER NOT NULL,
    expected_ms INTEGER,
    reputation  INTEGER NOT NULL,
    answered_at INTEGER,
    declined    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (quote_id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX offers_by_agent ON offers (agent_id);


-- Choir

-- Declared ensembles. One without an owner is edited through a link, of which only the hash is kept, until it is
-- claimed. `ingest`: the unguessable end of the address for signed evidence.
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
CREATE INDEX scores_unclaimed ON scores (updated_at) WHERE owner_id IS NULL;

-- Canonical JSON of each version.
CREATE TABLE score_versions (
    score_id   BLOB NOT NULL,
    version    INTEGER NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (score_id, version)
) STRICT;

-- Signing secrets are derived from the master key, the Score and this id. None is stored.
CREATE TABLE signing_secrets (
    id         BLOB NOT NULL PRIMARY KEY,
    score_id   BLOB NOT NULL,
    prefix     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX signing_secrets_by_score ON signing_secrets (score_id, prefix);

-- Bundles as received, in canonical JSON. The same bundle with the same status is stored once per Score.
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
CREATE INDEX evidence_by_score ON evidence (score_id, id);

-- Public under unguessable ids. `payload` is the canonical JSON that was hashed.
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

-- Leaves of the transparency log.
CREATE TABLE log_leaves (
    place INTEGER NOT NULL PRIMARY KEY,
    leaf  TEXT NOT NULL
) STRICT;

-- Complete subtrees of the log's Merkle tree.
CREATE TABLE log_nodes (
    level INTEGER NOT NULL,
    place INTEGER NOT NULL,
    hash  BLOB NOT NULL,
    PRIMARY KEY (level, place)
) STRICT, WITHOUT ROWID;

-- Public keys that the hub signed with. The private keys are derived from the master key.
CREATE TABLE attestation_keys (
    generation INTEGER NOT NULL PRIMARY KEY,
    public_key BLOB NOT NULL,
    from_at    INTEGER NOT NULL,
    until_at   INTEGER
) STRICT;


-- Activity

-- Actions of accounts, agents and the operator. Rows are only added, and removed by age or when their actor repeated the
-- same action many times. Ids sort by time. `repeats`: how many further actions a row stands for.
CREATE TABLE audit (
    id                BLOB NOT NULL PRIMARY KEY,
    at                INTEGER NOT NULL,
    actor_kind        TEXT NOT NULL,
    actor_id          TEXT NOT NULL,
    action            TEXT NOT NULL,
    subject_kind      TEXT NOT NULL,
    subject_id        TEXT NOT NULL,
    detail            TEXT NOT NULL,
    request_id        TEXT NOT NULL,
    client            TEXT NOT NULL,
    repeats           INTEGER NOT NULL DEFAULT 0,
    client_request_id TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_by_actor ON audit (actor_id, id);
CREATE INDEX audit_by_actor_and_action ON audit (actor_id, action, id);
CREATE INDEX audit_by_action ON audit (action, id);
CREATE INDEX audit_by_subject ON audit (subject_id, id);
