//! Members of conversations, with their handles and stays.
//!
//! A handle belongs to one present member at a time, ignoring letter case. Every stay is a row with its first
//! and last sequence number. A member's read access follows from its stays, so that posting writes nothing per
//! member.

use crate::{Row, StoreError, Tx, TxExt};
use chorus_protocol::ids::{AccountId, ConversationId, EventId, Principal, TraceId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub principal: Principal,
    pub handle: String,
    pub roles: Vec<String>,
    /// True if the member is a lead.
    pub lead: bool,
    /// Events after this one fall into its stay.
    pub joined_seq: i64,
    pub joined_at: i64,
}

/// The sequence numbers of one stay: after `from`, up to `to` if it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MembershipInterval {
    /// Events after this one.
    pub from: i64,
    /// Up to this one.
    pub to: Option<i64>,
}

impl MembershipInterval {
    /// Returns whether one of these stays contains the position `seq`.
    pub fn any_holds(stays: &[Self], seq: i64) -> bool {
        stays.iter().any(|stay| seq > stay.from && stay.to.is_none_or(|to| seq <= to))
    }
}

macro_rules! select_member {
    ($rest:literal) => {
        concat!(
            "SELECT kind, member_id, handle, roles, lead, joined_seq, joined_at FROM members
             WHERE conversation_id = $1 AND left_seq IS NULL AND ",
            $rest
        )
    };
}

pub(crate) fn member(mut row: Row) -> Result<Member, StoreError> {
    let (kind, id) = (row.text("kind")?, row.uuid("member_id")?);
    Ok(Member {
        principal: Principal::new(&kind, id)
            .ok_or_else(|| StoreError::unexpected(format!("a member of kind {kind:?}")))?,
        handle: row.text("handle")?,
        roles: serde_json::from_str(&row.text("roles")?).map_err(StoreError::unexpected)?,
        lead: row.int("lead")? == 1,
        joined_seq: row.int("joined_seq")?,
        joined_at: row.int("joined_at")?,
    })
}

/// The key a handle is found by.
fn handle_key(handle: &str) -> String {
    handle.to_ascii_lowercase()
}

/// Adds a member. The caller has seen, in this transaction, that it is none and that the handle is free.
pub fn insert(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    member: &Member,
    trace: TraceId,
) -> Result<(), StoreError> {
    let roles = serde_json::to_string(&member.roles).map_err(StoreError::unexpected)?;
    tx.execute(
        "INSERT INTO members (conversation_id, member_id, joined_seq, kind, handle, handle_key, roles, lead, joined_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            (&conversation).into(),
            (&member.principal.uuid()).into(),
            member.joined_seq.into(),
            member.principal.kind().as_str().into(),
            member.handle.as_str().into(),
            handle_key(&member.handle).as_str().into(),
            roles.as_str().into(),
            i64::from(member.lead).into(),
            member.joined_at.into(),
            (&trace).into(),
        ],
    )?;
    insert_roles(tx, conversation, member)
}

/// Replaces what can change of a present member. The caller has seen, in this transaction, that the handle is free.
pub fn update(tx: &mut dyn Tx, conversation: ConversationId, member: &Member) -> Result<(), StoreError> {
    let roles = serde_json::to_string(&member.roles).map_err(StoreError::unexpected)?;
    tx.execute(
        "UPDATE members SET handle = $3, handle_key = $4, roles = $5, lead = $6
         WHERE conversation_id = $1 AND member_id = $2 AND left_seq IS NULL",
        &[
            (&conversation).into(),
            (&member.principal.uuid()).into(),
            member.handle.as_str().into(),
            handle_key(&member.handle).as_str().into(),
            roles.as_str().into(),
            i64::from(member.lead).into(),
        ],
    )?;
    tx.execute(
        "DELETE FROM member_roles WHERE conversation_id = $1 AND member_id = $2",
        &[(&conversation).into(), (&member.principal.uuid()).into()],
    )?;
    insert_roles(tx, conversation, member)
}

/// Notes since which event a present member is called what it is called.
pub(crate) fn call_since(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    principal: Principal,
    seq: i64,
) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE members SET handle_seq = $3 WHERE conversation_id = $1 AND member_id = $2 AND left_seq IS NULL",
        &[(&conversation).into(), (&principal.uuid()).into(), seq.into()],
    )?;
    Ok(())
}

/// Since which event a present member is called what it is called: who was named before was another.
pub fn called_since(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    principal: Principal,
) -> Result<i64, StoreError> {
    let sql = "SELECT COALESCE(handle_seq, joined_seq) AS since_seq FROM members
               WHERE conversation_id = $1 AND member_id = $2 AND left_seq IS NULL";
    let row = tx.first(sql, &[(&conversation).into(), (&principal.uuid()).into()])?;
    row.map_or(Ok(i64::MAX), |mut row| row.int("since_seq"))
}

/// The roles of a member, to be found by.
fn insert_roles(tx: &mut dyn Tx, conversation: ConversationId, member: &Member) -> Result<(), StoreError> {
    for role in &member.roles {
        tx.execute(
            "INSERT INTO member_roles (conversation_id, role_key, member_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            &[
                (&conversation).into(),
                handle_key(role).as_str().into(),
                (&member.principal.uuid()).into(),
            ],
        )?;
    }
    Ok(())
}

/// Gives somebody who has left every conversation another name there: under it stands what it said.
pub(crate) fn rename_former(tx: &mut dyn Tx, principal: Principal, handle: &str) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE members SET handle = $2, handle_key = $3 WHERE member_id = $1 AND left_seq IS NOT NULL",
        &[(&principal.uuid()).into(), handle.into(), handle_key(handle).as_str().into()],
    )?;
    Ok(())
}

/// Present members that have a role, in the order of their handles.
pub fn in_role(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    role: &str,
    limit: i64,
) -> Result<Vec<Member>, StoreError> {
    tx.query(
        "SELECT m.kind, m.member_id, m.handle, m.roles, m.lead, m.joined_seq, m.joined_at
         FROM member_roles r CROSS JOIN members m
         WHERE r.conversation_id = $1 AND r.role_key = $2 AND m.conversation_id = $1 AND m.member_id = r.member_id
           AND m.left_seq IS NULL ORDER BY m.handle_key LIMIT $3",
        &[(&conversation).into(), handle_key(role).as_str().into(), limit.into()],
    )?
    .into_iter()
    .map(member)
    .collect()
}

/// Ends a member's stay at `seq`, and says whether there was one.
pub fn end(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    principal: Principal,
    seq: i64,
    now: i64,
) -> Result<bool, StoreError> {
    let ended = tx.execute(
        "UPDATE members SET left_seq = $3, left_at = $4
         WHERE conversation_id = $1 AND member_id = $2 AND left_seq IS NULL",
        &[(&conversation).into(), (&principal.uuid()).into(), seq.into(), now.into()],
    )?;
    for sql in [
        "DELETE FROM member_roles WHERE conversation_id = $1 AND member_id = $2",
        // A returning member's digests begin at its return.
        "DELETE FROM digests WHERE scope_id = $1 AND agent_id = $2",
    ] {
        tx.execute(sql, &[(&conversation).into(), (&principal.uuid()).into()])?;
    }
    Ok(ended == 1)
}

/// The conversations somebody is in now, in the order of their ids.
pub fn conversations_of(tx: &mut dyn Tx, principal: Principal) -> Result<Vec<ConversationId>, StoreError> {
    tx.query(
        "SELECT conversation_id FROM members WHERE member_id = $1 AND left_seq IS NULL ORDER BY conversation_id",
        &[(&principal.uuid()).into()],
    )?
    .into_iter()
    .map(|mut row| Ok(ConversationId(row.uuid("conversation_id")?)))
    .collect()
}

/// The member, if this is one now.
pub fn of(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    principal: Principal,
) -> Result<Option<Member>, StoreError> {
    tx.first(select_member!("member_id = $2"), &[(&conversation).into(), (&principal.uuid()).into()])?
        .map(member)
        .transpose()
}

/// The member of this handle.
pub fn by_handle(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    handle: &str,
) -> Result<Option<Member>, StoreError> {
    tx.first(
        select_member!("handle_key = $2"),
        &[(&conversation).into(), handle_key(handle).as_str().into()],
    )?
    .map(member)
    .transpose()
}

/// Returns the lead; the first by handle if there are several.
pub fn lead(tx: &mut dyn Tx, conversation: ConversationId) -> Result<Option<Member>, StoreError> {
    tx.first(select_member!("lead = 1 ORDER BY handle_key LIMIT 1"), &[(&conversation).into()])?
        .map(member)
        .transpose()
}

/// The people of a conversation, but this one: some of them.
pub fn people_besides(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    who: Principal,
    limit: i64,
) -> Result<Vec<AccountId>, StoreError> {
    tx.query(
        "SELECT member_id FROM members WHERE conversation_id = $1 AND left_seq IS NULL AND kind = 'account'
           AND member_id <> $2 ORDER BY handle_key LIMIT $3",
        &[(&conversation).into(), (&who.uuid()).into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(AccountId(row.uuid("member_id")?)))
    .collect()
}

/// Returns whether a person other than this member is present.
pub fn has_person_besides(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    who: Principal,
) -> Result<bool, StoreError> {
    let found = tx.first(
        "SELECT 1 FROM members WHERE conversation_id = $1 AND left_seq IS NULL AND kind = 'account' AND member_id <> $2 LIMIT 1",
        &[(&conversation).into(), (&who.uuid()).into()],
    )?;
    Ok(found.is_some())
}

/// Present members in the order of their handles, after the handle `after`.
pub fn page(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    after: &str,
    limit: i64,
) -> Result<Vec<Member>, StoreError> {
    tx.query(
        select_member!("handle_key > $2 ORDER BY handle_key LIMIT $3"),
        &[(&conversation).into(), handle_key(after).as_str().into(), limit.into()],
    )?
    .into_iter()
    .map(member)
    .collect()
}

/// As far back as it is looked up who has spoken in a thread, in events.
const THREAD_LOOK_BACK: i64 = 100;

/// The most agents of a thread that something in it may concern.
const MAX_IN_THREAD: i64 = 50;

// The joins are in this order for a planner that knows no numbers: from the thread, and never from the roster.
const AGENTS_IN_THREAD: &str = "WITH thread AS (
        SELECT f.id, f.author_id, f.seq, f.kind FROM events f WHERE f.id = $2
        UNION ALL SELECT l.id, l.author_id, l.seq, l.kind FROM
            (SELECT e.id, e.author_id, e.seq, e.kind FROM events e WHERE e.thread_id = $2 ORDER BY e.seq DESC LIMIT $3) l),
    concerned AS (
        SELECT t.author_id AS agent_id, t.seq, 1 AS spoke FROM thread t WHERE t.kind = 'message'
        UNION ALL SELECT c.agent_id, t.seq, 0 FROM thread t CROSS JOIN chats c
        WHERE c.event_id = t.id AND t.kind = 'message' AND COALESCE(c.directedness, 'to_me') = 'to_me'),
    latest AS (
        SELECT c.agent_id, MAX(c.seq) AS place, MAX(c.spoke) AS spoke FROM concerned c GROUP BY c.agent_id)
    SELECT m.kind, m.member_id, m.handle, m.roles, m.lead, m.joined_seq, m.joined_at,
           CASE WHEN m.member_id = (SELECT b.author_id FROM events b WHERE b.id = $2) THEN 1 ELSE 0 END AS began_it,
           l.spoke, l.place
    FROM latest l CROSS JOIN members m
    WHERE m.member_id = l.agent_id AND m.conversation_id = $1 AND m.left_seq IS NULL AND m.kind = 'agent'
    ORDER BY began_it DESC, l.place DESC, m.handle_key LIMIT $4";

/// A present agent that has lately spoken in a thread, or was asked something there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InThread {
    pub member: Member,
    /// It began the thread.
    pub began_it: bool,
    /// It has spoken there.
    pub spoke: bool,
    /// No other agent has spoken there or was asked after it.
    pub is_last: bool,
}

/// The present agents that a thread concerned lately, whoever began it first, then the latest.
pub fn agents_in_thread(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    thread: EventId,
) -> Result<Vec<InThread>, StoreError> {
    let rows = tx.query(
        AGENTS_IN_THREAD,
        &[(&conversation).into(), (&thread).into(), THREAD_LOOK_BACK.into(), MAX_IN_THREAD.into()],
    )?;
    let mut last = 0;
    let mut agents = vec![];
    for mut row in rows {
        let (began_it, spoke, place) = (row.int("began_it")? == 1, row.int("spoke")? == 1, row.int("place")?);
        last = last.max(place);
        agents.push((place, InThread { member: member(row)?, began_it, spoke, is_last: false }));
    }
    Ok(agents.into_iter().map(|(place, agent)| InThread { is_last: place == last, ..agent }).collect())
}

/// All times that somebody was there, the oldest first.
pub fn intervals(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    principal: Principal,
) -> Result<Vec<MembershipInterval>, StoreError> {
    tx.query(
        "SELECT joined_seq, left_seq FROM members WHERE conversation_id = $1 AND member_id = $2 ORDER BY joined_seq",
        &[(&conversation).into(), (&principal.uuid()).into()],
    )?
    .into_iter()
    .map(|mut row| Ok(MembershipInterval { from: row.int("joined_seq")?, to: row.opt_int("left_seq")? }))
    .collect()
}

/// Counts the present members of a conversation.
pub fn count(tx: &mut dyn Tx, conversation: ConversationId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM members WHERE conversation_id = $1 AND left_seq IS NULL";
    tx.first(sql, &[(&conversation).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// Counts the present agents of a conversation.
pub fn count_agents(tx: &mut dyn Tx, conversation: ConversationId) -> Result<i64, StoreError> {
    let sql = "SELECT COUNT(*) AS count FROM members WHERE conversation_id = $1 AND left_seq IS NULL AND kind = 'agent'";
    tx.first(sql, &[(&conversation).into()])?.map_or(Ok(0), |mut row| row.int("count"))
}

/// Returns whether two principals are in the same conversation now. For an agent only channels count: anybody
/// may begin a direct conversation with it, but joining a channel takes permission.
pub fn share(tx: &mut dyn Tx, one: Principal, other: Principal) -> Result<bool, StoreError> {
    let pairs = i64::from(one.agent().is_none() && other.agent().is_none());
    let found = tx.first(
        "SELECT 1 FROM members m JOIN members n ON n.conversation_id = m.conversation_id
         JOIN conversations c ON c.id = m.conversation_id
         WHERE m.member_id = $1 AND m.left_seq IS NULL AND n.member_id = $2 AND n.left_seq IS NULL
           AND (c.kind = 'channel' OR CAST($3 AS BIGINT) = 1) LIMIT 1",
        &[(&one.uuid()).into(), (&other.uuid()).into(), pairs.into()],
    )?;
    Ok(found.is_some())
}

#[cfg(test)]
mod tests {
    use super::AGENTS_IN_THREAD;

    /// Participants of a thread are found by the thread's index, without scanning the members.
    #[tokio::test]
    async fn a_thread_is_looked_up_by_its_index() {
        let plan = crate::push::plan_of(AGENTS_IN_THREAD, 4).await;
        assert!(plan.contains("SEARCH m USING PRIMARY KEY (conversation_id=? AND member_id=?)"), "{plan}");
        assert!(plan.contains("events_by_thread (thread_id=?)") && !plan.contains("SCAN e"), "{plan}");
        assert!(plan.contains("chats_by_event (event_id=?)"), "{plan}");
    }
}
