//! Deliveries: events on their way to agents. In the order of their sequence numbers they are an agent's
//! inbox.
//!
//! The table holds the columns of every delivery. Those of conversations have further columns in `chats` under
//! the same key, with their own indexes, so that relay sends do not pay for them. A delivery is `waiting` if
//! and only if its row there has a `give_up_at`.
//!
//! A delivery by inbox is done when it is stored; `inboxes` records how far it was read. A delivery by
//! harness, webhook or connection string is leased to the node that POSTs it; an expired lease belongs to a
//! dead node. A relay send is POSTed once, while its sender waits. Everything else is pushed until it arrives;
//! see `push`.

use crate::clock::MAX_SKEW_MS;
use crate::directory::Agent;
use crate::error::word;
use crate::{Param, Row, StoreError, Tx, TxExt};
use chorus_protocol::attention::Attention;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, TraceId};
pub use chorus_protocol::words::Transport;
use chorus_protocol::words::{DeliveryState, Directedness, EntryKind, Mode, Policy, Priority, Reason};
use uuid::Uuid;

/// The time after which a pushed delivery is given up.
pub const GIVE_UP_MS: i64 = 24 * 60 * 60 * 1000;

/// The route of a delivery to its agent at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Into its inbox, which is open.
    Session,
    /// Into its inbox, until somebody opens it: there is nowhere to POST it to.
    Inbox,
    /// POSTed to its C2A harness.
    Harness,
    /// POSTed to its endpoint.
    Webhook,
    /// POSTed to its connection string.
    Connection,
    /// Nowhere, until somebody mends this.
    WaitForOwner(Hold),
    /// Waits behind this delivery, to keep the order within the conversation.
    WaitBehind(DeliveryId),
}

/// The reason that nothing is POSTed to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It is kept out, and is called nowhere.
    Disabled,
    /// Its owner lets everything wait.
    Paused,
    /// Its connection string is wrong, and it has no endpoint and no harness.
    Broken,
}

/// The way to an agent for which `first_waiting` waits already in the same conversation, if there is one: an open inbox, else
/// the harness, else the endpoint, else the connection string.
pub fn way(agent: &Agent, first_waiting: Option<DeliveryId>, now: i64) -> Way {
    match first_waiting {
        Some(first) => Way::WaitBehind(first),
        None if agent.open_until > now && agent.paused_at.is_none() => Way::Session,
        None => way_of_push(agent),
    }
}

/// The way of what cannot go into an open inbox. `push::find_rerouted` says the same in SQL; a test compares them.
pub fn way_of_push(agent: &Agent) -> Way {
    match (&agent.endpoint, &agent.connection) {
        (None, None) if agent.harness.is_none() => Way::Inbox,
        _ if agent.disabled_at.is_some() => Way::WaitForOwner(Hold::Disabled),
        _ if agent.paused_at.is_some() => Way::WaitForOwner(Hold::Paused),
        _ if agent.harness.is_some() => Way::Harness,
        (Some(_), _) => Way::Webhook,
        (None, _) if agent.broken.is_some() => Way::WaitForOwner(Hold::Broken),
        (None, _) => Way::Connection,
    }
}

/// Returns the transport recorded for a delivery that is POSTed or waits to be. An agent without any address
/// waits for a connection string.
pub(crate) fn push_transport(agent: &Agent) -> Transport {
    let other = if agent.endpoint.is_some() { Transport::Webhook } else { Transport::Channel };
    if agent.harness.is_some() { Transport::Harness } else { other }
}

/// The state of a stored delivery.
#[derive(Debug, Clone, Copy)]
pub struct OnItsWay {
    pub transport: Transport,
    /// By what its agent is reached.
    pub epoch: i64,
}

/// A right to send, for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The node that sends.
    pub owner: Uuid,
    /// The time after which other nodes may take it over.
    pub until: i64,
}

/// A delivery to be stored.
#[derive(Debug)]
pub struct NewDelivery<'a> {
    pub agent: AgentId,
    pub event: EventId,
    pub kind: EntryKind,
    pub transport: Transport,
    pub state: DeliveryState,
    /// The node that sends it, if it is POSTed.
    pub lease: Option<Lease>,
    /// The conversation part; `None` for a relay send.
    pub chat: Option<Chat<'a>>,
    pub trace: TraceId,
}

/// The conversation part of a delivery.
#[derive(Debug, Clone, Copy)]
pub struct Chat<'a> {
    pub conversation: ConversationId,
    /// The attention decision for this agent.
    pub attention: Attention,
    /// If it is pushed: when it is due, unless it waits for another, and when it is given up.
    pub push: Option<(Option<i64>, i64)>,
    pub bringing: Bringing<'a>,
    /// The time the reconciler looks at it.
    pub next_at: Option<i64>,
}

/// The circumstances of bringing an event to an agent.
#[derive(Debug, Clone, Copy)]
pub struct Bringing<'a> {
    /// The names it mentions, such as `agent:bob role:ops`; may be empty.
    pub mentions: &'a str,
    /// The event whose place it takes.
    pub supersedes: Option<EventId>,
    /// The number of times the agent was sent the event, including this time.
    pub sent: i64,
}

impl Bringing<'_> {
    /// For the first time, and of its own.
    pub const FIRST: Self = Self { mentions: "", supersedes: None, sent: 1 };
}

/// The columns that [`attention`] reads from `chats`.
macro_rules! attention_columns {
    ($chats:literal) => {
        concat!(
            $chats,
            ".reason, ",
            $chats,
            ".directedness, ",
            $chats,
            ".policy, ",
            $chats,
            ".mode, ",
            $chats,
            ".priority, ",
            $chats,
            ".deadline_at - ",
            $chats,
            ".created_at AS deadline_ms"
        )
    };
}
pub(crate) use attention_columns;

/// Reads the attention decision.
pub(crate) fn attention(row: &mut Row) -> Result<Attention, StoreError> {
    fn known<W>(text: Option<String>, parse: fn(&str) -> Option<W>, before: W) -> Result<W, StoreError> {
        text.map_or(Ok(before), |text| word(&text, parse))
    }
    Ok(Attention {
        reason: word(&row.text("reason")?, Reason::parse)?,
        directedness: known(row.opt_text("directedness")?, Directedness::parse, Directedness::ToMe)?,
        policy: known(row.opt_text("policy")?, Policy::parse, Policy::MustRespond)?,
        mode: known(row.opt_text("mode")?, Mode::parse, Mode::Immediate)?,
        priority: known(row.opt_text("priority")?, Priority::parse, Priority::Normal)?,
        deadline_ms: row.opt_int("deadline_ms")?,
    })
}

/// Stores a delivery at `seq`, which the caller took with [`Tx::next_seq`] of the agent's inbox.
pub fn append(tx: &mut dyn Tx, delivery: &NewDelivery<'_>, seq: i64, now: i64) -> Result<(), StoreError> {
    tx.append(
        "INSERT INTO deliveries (agent_id, seq, event_id, kind, transport, state, lease_owner, lease_until, created_at,
                                 updated_at, trace_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10)",
        &[
            (&delivery.agent).into(),
            seq.into(),
            (&delivery.event).into(),
            delivery.kind.as_str().into(),
            delivery.transport.as_str().into(),
            delivery.state.as_str().into(),
            delivery.lease.as_ref().map(|lease| &lease.owner).into(),
            delivery.lease.map(|lease| lease.until).into(),
            now.into(),
            (&delivery.trace).into(),
        ],
    )?;
    delivery.chat.map_or(Ok(()), |chat| {
        let id = DeliveryId { agent: delivery.agent, seq };
        tx.append(INSERT_CHAT, &chat_params(&id, &delivery.event, &chat, now))
    })
}

macro_rules! insert_chat {
    ($rest:literal) => {
        concat!(
            "INSERT INTO chats (agent_id, seq, event_id, conversation_id, reason, created_at, due_at, give_up_at, directedness,
                                policy, mode, priority, deadline_at, mentions, supersedes, sent, next_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
            $rest
        )
    };
}
const INSERT_CHAT: &str = insert_chat!("");
/// The same, unless somebody else has done it meanwhile.
const KEEP_CHAT: &str = insert_chat!(" ON CONFLICT (agent_id, seq) DO NOTHING");

/// The parameters of the conversation part of a delivery that is stored at `now`.
fn chat_params<'a>(id: &'a DeliveryId, event: &'a EventId, chat: &'a Chat<'a>, now: i64) -> [Param<'a>; 17] {
    let attention = chat.attention;
    [
        (&id.agent).into(),
        id.seq.into(),
        event.into(),
        (&chat.conversation).into(),
        attention.reason.as_str().into(),
        now.into(),
        chat.push.and_then(|(due_at, _)| due_at).into(),
        chat.push.map(|(_, give_up_at)| give_up_at).into(),
        attention.directedness.as_str().into(),
        attention.policy.as_str().into(),
        attention.mode.as_str().into(),
        attention.priority.as_str().into(),
        attention.deadline_ms.map(|deadline| now.saturating_add(deadline)).into(),
        Some(chat.bringing.mentions).filter(|mentions| !mentions.is_empty()).into(),
        chat.bringing.supersedes.as_ref().into(),
        chat.bringing.sent.into(),
        chat.next_at.into(),
    ]
}

/// Stores what a delivery that is there has of its conversation, since `now`; nothing changes if that is stored already.
pub(crate) fn keep_chat(
    tx: &mut dyn Tx,
    id: DeliveryId,
    event: EventId,
    chat: &Chat<'_>,
    now: i64,
) -> Result<(), StoreError> {
    tx.execute(KEEP_CHAT, &chat_params(&id, &event, chat, now)).map(drop)
}

/// Records how a leased delivery ended, and says whether it was still this lease's to end.
pub fn finish(
    tx: &mut dyn Tx,
    id: DeliveryId,
    lease: Lease,
    state: DeliveryState,
    failure: Option<(Code, &str)>,
    now: i64,
) -> Result<bool, StoreError> {
    let ended = tx.execute(
        "UPDATE deliveries SET state = $3, error_code = $4, detail = $5, updated_at = $6,
                               lease_owner = NULL, lease_until = NULL
         WHERE agent_id = $1 AND seq = $2 AND lease_owner = $7 AND lease_until IS NOT NULL",
        &[
            (&id.agent).into(),
            id.seq.into(),
            state.as_str().into(),
            failure.map(|(code, _)| code.as_str()).into(),
            failure.map(|(_, detail)| detail).into(),
            now.into(),
            (&lease.owner).into(),
        ],
    )?;
    Ok(ended == 1)
}

/// Marks relay sends of dead nodes as failed, because it is unknown whether they arrived. Pushed deliveries
/// are tried again instead.
pub fn fail_abandoned(tx: &mut dyn Tx, now: i64) -> Result<u64, StoreError> {
    tx.execute(
        "UPDATE deliveries SET state = 'failed', error_code = 'ERR_AGENT_UNREACHABLE',
                detail = 'the hub stopped before the outcome was known', updated_at = $1,
                lease_owner = NULL, lease_until = NULL
         WHERE lease_until < $1 AND state = 'sending'",
        &[now.into()],
    )
}

/// One entry of an inbox, with its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the inbox.
    pub seq: i64,
    /// The SSE event it becomes.
    pub kind: EntryKind,
    /// The transport. Entries sent by webhook appear in the history only.
    pub transport: Transport,
    pub state: DeliveryState,
    pub trace: TraceId,
    pub created_at: i64,
    pub event: EventId,
    pub conversation: ConversationId,
    /// The author's name, if it is an agent.
    pub author: Option<String>,
    /// The body as JSON.
    pub body: String,
}

macro_rules! select_entries {
    ($rest:literal) => {
        concat!(
            "SELECT d.seq, d.kind, d.transport, d.state, d.trace_id, d.created_at, a.name, COALESCE(e.body, b.body) AS body, e.id,
                    e.conversation_id
             FROM deliveries d
             JOIN events e ON e.id = d.event_id
             LEFT JOIN agents a ON a.id = e.author_id
             LEFT JOIN large_bodies b ON b.event_id = d.event_id ",
            $rest
        )
    };
}

fn entry(mut row: Row) -> Result<Entry, StoreError> {
    Ok(Entry {
        seq: row.int("seq")?,
        kind: word(&row.text("kind")?, EntryKind::parse)?,
        transport: word(&row.text("transport")?, Transport::parse)?,
        state: word(&row.text("state")?, DeliveryState::parse)?,
        trace: TraceId(row.uuid("trace_id")?),
        created_at: row.int("created_at")?,
        author: row.opt_text("name")?,
        body: row.text("body")?,
        event: EventId(row.uuid("id")?),
        conversation: ConversationId(row.uuid("conversation_id")?),
    })
}

impl Entry {
    /// Returns whether the sender asked for a streamed reply.
    pub fn is_streamed(&self) -> bool {
        self.transport == Transport::Inbox
    }
}

/// Entries of an inbox after `after`, in order: at most `limit`, and no more once they hold `max_bytes`.
pub fn page(
    tx: &mut dyn Tx,
    agent: AgentId,
    after: i64,
    limit: i64,
    max_bytes: usize,
) -> Result<Vec<Entry>, StoreError> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    tx.each(
        select_entries!("WHERE d.agent_id = $1 AND d.seq > $2 ORDER BY d.seq LIMIT $3"),
        &[(&agent).into(), after.into(), limit.into()],
        &mut |row| {
            let entry = entry(row)?;
            bytes += entry.body.len();
            entries.push(entry);
            Ok(bytes < max_bytes)
        },
    )?;
    Ok(entries)
}

/// The number of inbox entries that are scanned for entries of one kind.
const LOOKED_AT: i64 = 2000;

/// The next entries of one kind after `after`, as in [`page`], and up to where was looked: not through the whole of a long
/// inbox that holds few of them.
pub fn page_of_kind(
    tx: &mut dyn Tx,
    agent: AgentId,
    kind: EntryKind,
    after: i64,
    limit: i64,
    max_bytes: usize,
) -> Result<(Vec<Entry>, i64), StoreError> {
    let (mut entries, mut bytes, until) = (Vec::new(), 0, after.saturating_add(LOOKED_AT));
    let mut looked = until;
    tx.each(
        select_entries!(
            "WHERE d.agent_id = $1 AND d.seq > $2 AND d.seq <= $3 AND d.kind = $4 ORDER BY d.seq LIMIT $5"
        ),
        &[(&agent).into(), after.into(), until.into(), kind.as_str().into(), limit.into()],
        &mut |row| {
            let entry = entry(row)?;
            bytes += entry.body.len();
            entries.push(entry);
            Ok(bytes < max_bytes)
        },
    )?;
    if let Some(last) = entries.last()
        && (entries.len() as i64 == limit || bytes >= max_bytes)
    {
        looked = last.seq;
    }
    Ok((entries, looked))
}

/// The place in an inbox after which the first entry from `since` on comes, found by halving: times rise with places, but for
/// what the clocks of nodes differ by.
pub fn place_before(tx: &mut dyn Tx, agent: AgentId, since: i64) -> Result<i64, StoreError> {
    let early = since.saturating_sub(MAX_SKEW_MS);
    let (mut before, mut from) = (0, tx.head(agent.into())? + 1);
    while from - before > 1 {
        let middle = before + (from - before) / 2;
        let sql =
            "SELECT seq, created_at FROM deliveries WHERE agent_id = $1 AND seq >= $2 ORDER BY seq LIMIT 1";
        let found = tx.first(sql, &[(&agent).into(), middle.into()])?;
        let found = found
            .map(|mut row| Ok::<_, StoreError>((row.int("seq")?, row.int("created_at")?)))
            .transpose()?;
        match found {
            Some((seq, at)) if at < early => before = seq.min(from - 1),
            _ => from = middle,
        }
    }
    let sql = "SELECT seq FROM deliveries WHERE agent_id = $1 AND seq > $2 AND created_at >= $3 ORDER BY seq LIMIT 1";
    let first = tx.first(sql, &[(&agent).into(), before.into(), since.into()])?;
    first.map_or_else(|| tx.head(agent.into()), |mut row| Ok(row.int("seq")? - 1))
}

/// The event of a delivery, of whichever kind.
pub fn event_of(tx: &mut dyn Tx, id: DeliveryId) -> Result<Option<EventId>, StoreError> {
    tx.first(
        "SELECT event_id FROM deliveries WHERE agent_id = $1 AND seq = $2",
        &[(&id.agent).into(), id.seq.into()],
    )?
    .map(|mut row| row.uuid("event_id").map(EventId))
    .transpose()
}
