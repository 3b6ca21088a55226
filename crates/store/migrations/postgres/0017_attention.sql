-- What a session of an inbox can show its model, as long as it is open: words of modes. None for one that knows no knocks.
ALTER TABLE inboxes ADD COLUMN shows TEXT;
-- Up to here entries were sent to such a session, acknowledged or not.
ALTER TABLE inboxes ADD COLUMN sent_through BIGINT NOT NULL DEFAULT 0;

-- What becomes of a delivery after it was handed. `mentions`: whom its event names (`agent:bob role:ops`). `sent`: how often
-- the agent was sent the event, this time included; of several deliveries of one event the last one counts. `supersedes`: the
-- event whose place it takes. `until_at`: when a claim or a deferral ends. `next_at`: when somebody has to look at it.
ALTER TABLE chats ADD COLUMN mentions TEXT;
ALTER TABLE chats ADD COLUMN sent BIGINT NOT NULL DEFAULT 1;
ALTER TABLE chats ADD COLUMN supersedes BYTEA;
ALTER TABLE chats ADD COLUMN acked_at BIGINT;
ALTER TABLE chats ADD COLUMN injected_at BIGINT;
ALTER TABLE chats ADD COLUMN reminded_at BIGINT;
ALTER TABLE chats ADD COLUMN escalated_at BIGINT;
ALTER TABLE chats ADD COLUMN until_at BIGINT;
ALTER TABLE chats ADD COLUMN next_at BIGINT;
CREATE INDEX chats_next ON chats (next_at, agent_id, seq) WHERE next_at IS NOT NULL;
CREATE INDEX chats_superseding ON chats (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX chats_open ON chats (agent_id, event_id) WHERE next_at IS NOT NULL;

-- The claim on an event that is for whoever takes it: whom it is offered to first, and who holds it or held it last.
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

-- Everybody that ever held one, and what became of it.
CREATE TABLE claim_holders (
    event_id BYTEA NOT NULL,
    since_at BIGINT NOT NULL,
    holder   BYTEA NOT NULL,
    until_at BIGINT NOT NULL,
    state    TEXT NOT NULL,
    PRIMARY KEY (event_id, since_at, holder)
);

-- Who answers for the others.
CREATE INDEX members_leading ON members (conversation_id, handle_key) WHERE lead = 1 AND left_seq IS NULL;

-- Who does what in a conversation, found by what it is.
CREATE TABLE member_roles (
    conversation_id BYTEA NOT NULL,
    role_key        TEXT NOT NULL,
    member_id       BYTEA NOT NULL,
    PRIMARY KEY (conversation_id, role_key, member_id)
);
CREATE INDEX member_roles_by_member ON member_roles (member_id, conversation_id);
INSERT INTO member_roles (conversation_id, role_key, member_id)
    SELECT DISTINCT m.conversation_id, lower(r.value), m.member_id
    FROM members m CROSS JOIN LATERAL json_array_elements_text(CAST(m.roles AS json)) r(value)
    WHERE m.left_seq IS NULL;
