//! Digests: reports to an agent on the activity in a channel or work stream that it leads.
//!
//! Nothing is written when something is posted, because the log holds the activity. A row holds the position
//! up to which the agent was told; later events are counted when a digest is due. Events that the agent was
//! sent or posted itself do not count, and events of a work stream do not count for its channel. The engine
//! decides when a digest is due and what it says.

use crate::deliveries::{self, Bringing, Chat, GIVE_UP_MS, NewDelivery, Way};
use crate::error::word;
use crate::{Row, StoreError, Tx, TxExt, conversations, directory, push};
use chorus_attention::digest::attention;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, TraceId};
use chorus_protocol::words::{DeliveryState, EntryKind, EventKind, PrincipalKind, Transport};
use uuid::Uuid;

/// So many places are counted for one digest; the rest is for the next one.
const MAX_PLACES: i64 = 10_000;

/// The subject of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestScope {
    Channel,
    Stream,
}

impl DigestScope {
    fn as_str(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Stream => "stream",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Channel, Self::Stream].into_iter().find(|scope| scope.as_str() == text)
    }
}

/// The position up to which an agent was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestPosition {
    pub agent: AgentId,
    /// Of what: the id of a channel or a work stream.
    pub id: Uuid,
    pub scope: DigestScope,
    /// Up to this place.
    pub through: i64,
    /// The time of the last digest, or since when the agent leads.
    pub since_at: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DigestEvents {
    /// Counts by kind of event and kind of author.
    pub counts: Vec<(EventKind, PrincipalKind, i64)>,
    /// The newest messages of it, the newest first.
    pub newest: Vec<EventId>,
    /// Up to which place.
    pub through: i64,
}

/// Somebody begins to lead: what happened before is not counted.
pub fn begin(tx: &mut dyn Tx, told: &DigestPosition) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO digests (agent_id, scope_id, kind, through, since_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (agent_id, scope_id) DO NOTHING",
        &[
            (&told.agent).into(),
            (&told.id).into(),
            told.scope.as_str().into(),
            told.through.into(),
            told.since_at.into(),
        ],
    )?;
    Ok(())
}

/// It was told up to this place, or had nothing to be told.
pub fn advance(tx: &mut dyn Tx, agent: AgentId, id: Uuid, through: i64, now: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE digests SET through = $3, since_at = $4 WHERE agent_id = $1 AND scope_id = $2",
        &[(&agent).into(), (&id).into(), through.into(), now.into()],
    )?;
    Ok(())
}

/// It leads there no more.
pub fn end(tx: &mut dyn Tx, agent: AgentId, id: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM digests WHERE agent_id = $1 AND scope_id = $2";
    tx.execute(sql, &[(&agent).into(), (&id).into()])?;
    Ok(())
}

fn told(mut row: Row) -> Result<DigestPosition, StoreError> {
    Ok(DigestPosition {
        agent: AgentId(row.uuid("agent_id")?),
        id: row.uuid("scope_id")?,
        scope: word(&row.text("kind")?, DigestScope::parse)?,
        through: row.int("through")?,
        since_at: row.int("since_at")?,
    })
}

/// Returns the position up to which an agent was told.
pub fn of(tx: &mut dyn Tx, agent: AgentId, id: Uuid) -> Result<Option<DigestPosition>, StoreError> {
    let sql = "SELECT agent_id, scope_id, kind, through, since_at FROM digests WHERE agent_id = $1 AND scope_id = $2";
    tx.first(sql, &[(&agent).into(), (&id).into()])?.map(told).transpose()
}

/// Those who were told last before this time and have a session or a harness that shows digests; whoever waits longest first.
/// Nobody who cannot be told now is among them: whoever comes after would wait for it.
pub fn due(tx: &mut dyn Tx, before: i64, now: i64, limit: i64) -> Result<Vec<(AgentId, Uuid)>, StoreError> {
    tx.query(
        "SELECT d.agent_id, d.scope_id FROM digests d JOIN inboxes i ON i.agent_id = d.agent_id
                JOIN agents a ON a.id = d.agent_id
         WHERE d.since_at <= $1 AND a.paused_at IS NULL AND a.disabled_at IS NULL
           AND CASE WHEN i.open_until > $2 THEN i.shows ELSE a.harness_shows END LIKE '%digest%'
           AND NOT EXISTS (SELECT 1 FROM chats c WHERE c.agent_id = d.agent_id AND c.conversation_id = d.scope_id
                           AND c.give_up_at IS NOT NULL AND c.due_at IS NOT NULL)
         ORDER BY d.since_at, d.agent_id, d.scope_id LIMIT $3",
        &[before.into(), now.into(), limit.into()],
    )?
    .into_iter()
    .map(|mut row| Ok((AgentId(row.uuid("agent_id")?), row.uuid("scope_id")?)))
    .collect()
}

/// The conditions on an event `e` that both scopes share: the agent was not sent it and did not post it.
macro_rules! untold {
    () => {
        " AND e.author_id <> $1
          AND NOT EXISTS (SELECT 1 FROM chats h WHERE h.event_id = e.id AND h.agent_id = $1) "
    };
}

/// The events of a channel that the agent may read: `$2` is the channel, `$3` and `$4` are the positions.
macro_rules! in_channel {
    () => {
        concat!(
            " FROM events e JOIN conversations c ON c.id = e.conversation_id
              WHERE e.conversation_id = $2 AND e.seq > $3 AND e.seq <= $4",
            untold!(),
            "AND EXISTS (SELECT 1 FROM members n WHERE n.conversation_id = e.conversation_id AND n.member_id = $1
                         AND n.left_seq IS NULL)
             AND (e.seq > c.open_from OR EXISTS (SELECT 1 FROM members m WHERE m.conversation_id = e.conversation_id
                  AND m.member_id = $1 AND m.joined_seq < e.seq AND (m.left_seq IS NULL OR m.left_seq >= e.seq)))
             AND NOT EXISTS (SELECT 1 FROM work_stream_events w JOIN digests g ON g.scope_id = w.stream_id AND g.agent_id = $1
                             WHERE w.event_id = e.id) "
        )
    };
}

/// The events of a work stream that the agent may read.
macro_rules! in_stream {
    () => {
        concat!(
            " FROM work_stream_events w JOIN events e ON e.id = w.event_id JOIN conversations c ON c.id = w.conversation_id
              WHERE w.stream_id = $2 AND w.place > $3 AND w.place <= $4",
            untold!(),
            "AND EXISTS (SELECT 1 FROM members n WHERE n.conversation_id = w.conversation_id AND n.member_id = $1
                         AND n.left_seq IS NULL)
             AND (w.seq > c.open_from OR EXISTS (SELECT 1 FROM members m WHERE m.conversation_id = w.conversation_id
                  AND m.member_id = $1 AND m.joined_seq < w.seq AND (m.left_seq IS NULL OR m.left_seq >= w.seq))) "
        )
    };
}

const GROUPED: [&str; 2] = [
    concat!(
        "SELECT e.kind, e.author_kind, COUNT(*) AS count",
        in_channel!(),
        "GROUP BY e.kind, e.author_kind"
    ),
    concat!(
        "SELECT e.kind, e.author_kind, COUNT(*) AS count",
        in_stream!(),
        "GROUP BY e.kind, e.author_kind"
    ),
];
const NEWEST: [&str; 2] = [
    concat!("SELECT e.id", in_channel!(), "AND e.kind = 'message' ORDER BY e.seq DESC LIMIT $5"),
    concat!("SELECT e.id", in_stream!(), "AND e.kind = 'message' ORDER BY w.place DESC LIMIT $5"),
];
const HEAD: [&str; 2] = [
    "SELECT COALESCE(MAX(seq), 0) AS head FROM events WHERE conversation_id = $1",
    "SELECT COALESCE(MAX(place), 0) AS head FROM work_stream_events WHERE stream_id = $1",
];

/// The last place of a channel or a work stream.
pub fn head(tx: &mut dyn Tx, scope: DigestScope, id: Uuid) -> Result<i64, StoreError> {
    tx.first(HEAD[scope as usize], &[(&id).into()])?.map_or(Ok(0), |mut row| row.int("head"))
}

/// Returns the activity since the last digest, with at most `newest` messages.
pub fn happened(tx: &mut dyn Tx, told: &DigestPosition, newest: i64) -> Result<DigestEvents, StoreError> {
    let through = head(tx, told.scope, told.id)?.min(told.through.saturating_add(MAX_PLACES));
    let of = [(&told.agent).into(), (&told.id).into(), told.through.into(), through.into()];
    let mut counts = vec![];
    for mut row in tx.query(GROUPED[told.scope as usize], &of)? {
        let (kind, author) = (row.text("kind")?, row.text("author_kind")?);
        counts.push((
            word(&kind, EventKind::parse)?,
            word(&author, PrincipalKind::parse)?,
            row.int("count")?,
        ));
    }
    let of = [(&told.agent).into(), (&told.id).into(), told.through.into(), through.into(), newest.into()];
    let newest = tx.query(NEWEST[told.scope as usize], &of)?;
    let newest = newest.into_iter().map(|mut row| Ok(EventId(row.uuid("id")?)));
    Ok(DigestEvents { counts, newest: newest.collect::<Result<_, StoreError>>()?, through })
}

/// Puts a digest on its way into an open session, or else to the harness of who is to be told; whether it has one of them, and
/// nothing waits there before it. It is outside of any order, as a job is; and one that waits is enough.
pub fn deliver(
    tx: &mut dyn Tx,
    told: &DigestPosition,
    event: EventId,
    trace: TraceId,
    body: &str,
    now: i64,
) -> Result<bool, StoreError> {
    let conversation = ConversationId(told.id);
    let Some(agent) = directory::by_id(tx, told.agent)? else { return Ok(false) };
    let first = push::first_waiting(tx, told.agent, conversation)?;
    let (transport, state, push) = match deliveries::way(&agent, first, now) {
        Way::Session => (Transport::Inbox, DeliveryState::DeliveredSse, None),
        Way::Harness => (Transport::Harness, DeliveryState::Waiting, Some((Some(now), now + GIVE_UP_MS))),
        Way::Inbox | Way::Webhook | Way::Connection | Way::WaitForOwner(_) | Way::WaitBehind(_) => {
            return Ok(false);
        }
    };
    let author = told.agent.into();
    let said = conversations::NewEvent { id: event, conversation, author, trace, thread: None, target: None };
    conversations::append_digest(tx, &said, body, now)?;
    let id = DeliveryId { agent: told.agent, seq: tx.next_seq(told.agent.into())? };
    let delivery = NewDelivery {
        agent: told.agent,
        event,
        kind: EntryKind::Digest,
        transport,
        state,
        lease: None,
        // Nobody answers it: what becomes of it is known at once, as of everything that is not answered.
        chat: Some(Chat {
            conversation,
            attention: attention(false),
            push,
            bringing: Bringing::FIRST,
            next_at: Some(now),
        }),
        trace,
    };
    deliveries::append(tx, &delivery, id.seq, now)?;
    Ok(true)
}
