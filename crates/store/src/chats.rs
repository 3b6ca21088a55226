//! Loads the conversation part of inbox entries for a whole page, with a fixed number of queries, except for
//! escalations.

use crate::conversation::{self, ConversationError};
use crate::conversations::{self, Conversation, Event, conversation_columns, event_columns};
use crate::deliveries::{self, Entry, attention_columns};
use crate::members::MembershipInterval;
use crate::{Param, Row, StoreError, Tx, TxExt, log};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId};
use chorus_protocol::words::{EntryKind, EventKind};
use std::collections::HashMap;

/// The most deliveries of one event that are looked at: more than one message wakes.
const MAX_OF_EVENT: i64 = 200;

/// Something that was said in a conversation, as an entry of an inbox.
#[derive(Debug, Clone)]
pub struct ChatEntry {
    /// Its place in the inbox.
    pub seq: i64,
    /// The attention decision for this agent.
    pub attention: Attention,
    pub conversation: Conversation,
    pub event: Event,
    /// Later changes of the event, as far as the agent may read them.
    pub changes: Vec<Event>,
    /// By what the agent is reached now.
    pub epoch: i64,
    /// The agent's handle in the conversation, if it is a member.
    pub handle: Option<String>,
    /// The names the event mentions, such as `agent:bob role:ops`.
    pub mentions: String,
    /// The message that it is about; of a change, what the agent has of it already, whose place it takes.
    pub supersedes: Option<EventId>,
    /// The number of times the agent was sent the event, including this time.
    pub sent: i64,
    /// Something else has taken its place, or nothing has: it is not shown any more.
    pub superseded: bool,
    /// For an escalation, the message that was not answered.
    pub about: Option<EscalatedMessage>,
}

/// A message that another event is about, and what was changed of it since.
#[derive(Debug, Clone)]
pub struct EscalatedMessage {
    pub event: Event,
    pub changes: Vec<Event>,
}

/// The message that an escalation is about, for a member that may read it.
pub fn about(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    agent: AgentId,
    escalation: &Event,
) -> Result<Option<EscalatedMessage>, StoreError> {
    let Some(target) = escalation.target.filter(|_| escalation.kind == EventKind::Escalation) else {
        return Ok(None);
    };
    let event = match conversation::message(tx, conversation, agent.into(), target) {
        Ok(event) => event,
        Err(ConversationError::Store(error)) => return Err(error),
        Err(_) => return Ok(None),
    };
    let stays = log::readable(tx, conversation, agent.into())?;
    let standing = log::stand(tx, conversation, agent.into(), &stays, std::slice::from_ref(&event))?;
    Ok(Some(EscalatedMessage { event, changes: standing.changes }))
}

const CHATS: &str = concat!(
    "SELECT h.seq, a.epoch, ",
    attention_columns!("h"),
    ", h.mentions, h.supersedes, h.sent, CASE WHEN h.disposition = 'superseded' THEN 1 ELSE 0 END AS is_superseded, ",
    conversation_columns!(),
    ", ",
    // The entries have the bodies already.
    event_columns!("''"),
    " FROM chats h JOIN agents a ON a.id = h.agent_id
      JOIN conversations c ON c.id = h.conversation_id AND c.owner_id IS NOT NULL
      JOIN events e ON e.id = h.event_id
      WHERE h.agent_id = $1 AND h.seq BETWEEN $2 AND $3 ORDER BY h.seq"
);

/// Loads the conversation part of the entries of a page of an agent's inbox. Edits may have made texts longer:
/// entries beyond about `max_bytes` are removed from the page, except for the first.
pub fn of_page(
    tx: &mut dyn Tx,
    agent: AgentId,
    entries: &mut Vec<Entry>,
    max_bytes: usize,
) -> Result<Vec<ChatEntry>, StoreError> {
    let chats = entries.iter().filter(|entry| entry.kind == EntryKind::Chat);
    let places: Vec<i64> = chats.map(|entry| entry.seq).collect();
    let Some((first, last)) = places.first().zip(places.last()) else { return Ok(vec![]) };
    let begins = entries.first().map_or(*first, |entry| entry.seq);
    let page = [(&agent).into(), (*first).into(), (*last).into()];
    let (texts, end) = log::texts_of_page(tx, &page, max_bytes)?;
    let keep = entries.iter().take_while(|entry| end.is_none_or(|end| entry.seq < end)).count();
    entries.truncate(keep.max(1));
    let chats = entries.iter().filter(|entry| entry.kind == EntryKind::Chat);
    let bodies: HashMap<i64, &str> = chats.map(|entry| (entry.seq, &*entry.body)).collect();

    let mut found = vec![];
    for row in tx.query(CHATS, &page)? {
        let mut chat = chat(row)?;
        // Entries of other kinds are in the range, but not in `bodies`.
        if let Some(body) = bodies.get(&chat.seq) {
            chat.event.body.push_str(body);
            found.push(chat);
        }
    }
    let stays = intervals(tx, &page)?;
    let mut changes: HashMap<EventId, Vec<Event>> = HashMap::new();
    for change in texts.into_iter().chain(log::reactions_of_page(tx, &page)?) {
        // Former members do not learn of later changes.
        let stays = stays.get(&change.conversation).map_or([].as_slice(), |stays| &stays.intervals);
        if let Some((target, change)) = change.target.zip(log::as_seen(change, stays)) {
            changes.entry(target).or_default().push(change);
        }
    }
    for chat in &mut found {
        chat.handle = stays.get(&chat.conversation.id).and_then(|stays| stays.handle.clone());
        // A page may hold a message and its reminder: each is shown as it reads now.
        chat.changes = changes.get(&chat.event.id).cloned().unwrap_or_default();
        // Rare enough to be looked up one by one.
        if let Some(message) = chat.supersedes.filter(|_| chat.event.kind == EventKind::Edit) {
            chat.supersedes = Some(given_before(tx, agent, message, begins)?.unwrap_or(message));
        }
        // Former members do not learn of it.
        if chat.handle.is_some() {
            chat.about = about(tx, &chat.conversation, agent, &chat.event)?;
        }
    }
    Ok(found)
}

/// Returns the id by which an agent knows a message, given a position in its inbox: that of the last version
/// it was sent before. Versions on the same page do not count.
fn given_before(
    tx: &mut dyn Tx,
    agent: AgentId,
    message: EventId,
    seq: i64,
) -> Result<Option<EventId>, StoreError> {
    let row = tx.first(
        "SELECT g.event_id FROM
             (SELECT event_id, seq FROM chats WHERE event_id = $1 AND agent_id = $2
              UNION ALL SELECT event_id, seq FROM chats WHERE supersedes = $1 AND agent_id = $2) g
             JOIN deliveries d ON d.agent_id = $2 AND d.seq = g.seq JOIN events e ON e.id = g.event_id
         WHERE g.seq < $3 AND e.kind <> 'escalation' AND (d.transport = 'inbox' OR d.state = 'delivered')
         ORDER BY g.seq DESC LIMIT 1",
        &[(&message).into(), (&agent).into(), seq.into()],
    )?;
    row.map(|mut row| row.uuid("event_id").map(EventId)).transpose()
}

fn chat(mut row: Row) -> Result<ChatEntry, StoreError> {
    Ok(ChatEntry {
        seq: row.int("seq")?,
        attention: deliveries::attention(&mut row)?,
        epoch: row.int("epoch")?,
        mentions: row.opt_text("mentions")?.unwrap_or_default(),
        supersedes: row.opt_bytes("supersedes")?.as_deref().and_then(EventId::from_slice),
        sent: row.int("sent")?,
        superseded: row.int("is_superseded")? == 1,
        about: None,
        handle: None,
        conversation: conversations::conversation(&mut row)?,
        event: conversations::event(row)?,
        changes: vec![],
    })
}

/// An agent in a conversation.
#[derive(Debug, Default)]
struct Stays {
    /// The oldest first.
    intervals: Vec<MembershipInterval>,
    handle: Option<String>,
}

/// Returns the stays of the agent in the conversations of a page.
fn intervals(tx: &mut dyn Tx, page: &[Param<'_>]) -> Result<HashMap<ConversationId, Stays>, StoreError> {
    let mut stays: HashMap<_, Stays> = HashMap::new();
    let rows = tx.query(
        "SELECT m.conversation_id, m.joined_seq, m.left_seq, m.handle FROM members m
         WHERE m.member_id = $1 AND m.conversation_id IN
               (SELECT h.conversation_id FROM chats h WHERE h.agent_id = $1 AND h.seq BETWEEN $2 AND $3)
         ORDER BY m.joined_seq",
        page,
    )?;
    for mut row in rows {
        let stay = MembershipInterval { from: row.int("joined_seq")?, to: row.opt_int("left_seq")? };
        let known = stays.entry(ConversationId(row.uuid("conversation_id")?)).or_default();
        known.intervals.push(stay);
        known.handle = Some(row.text("handle")?).filter(|_| stay.to.is_none());
    }
    Ok(stays)
}

/// The deliveries of a message, and of its changes.
pub fn of_message(tx: &mut dyn Tx, message: EventId) -> Result<Vec<DeliveryId>, StoreError> {
    tx.query(
        "SELECT g.agent_id, g.seq FROM
             (SELECT agent_id, seq FROM chats WHERE event_id = $1
              UNION ALL SELECT agent_id, seq FROM chats WHERE supersedes = $1) g LIMIT $2",
        &[(&message).into(), MAX_OF_EVENT.into()],
    )?
    .into_iter()
    .map(|mut row| Ok(DeliveryId { agent: AgentId(row.uuid("agent_id")?), seq: row.int("seq")? }))
    .collect()
}
