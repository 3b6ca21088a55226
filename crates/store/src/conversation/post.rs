//! Appending a draft, with a delivery to each agent that it was decided for.
//!
//! Agents' inboxes are taken after the conversation, the smallest id first, so that no two transactions wait for each other.
//! Ambient events leave no row per member.

use super::draft::{Draft, DraftKind};
use super::{Act, append};
use crate::deliveries::{self, Bringing, Chat, GIVE_UP_MS, NewDelivery, OnItsWay, Way};
use crate::{StoreError, Tx, blocks, directory, push, readings, search, work_streams};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, DeliveryId, EventId, Principal, StreamId};
use chorus_protocol::words::{DeliveryState, EntryKind, Mode, Transport};
use std::collections::BTreeSet;

/// The most agents that one event is delivered to.
const MAX_RECIPIENTS: usize = 50;

/// An agent that an event is to be delivered to, and what was decided for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    /// Which.
    pub agent: AgentId,
    /// What it is called there.
    pub handle: String,
    /// What the event means for it.
    pub attention: Attention,
}

/// Whom an event reaches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// To whom it is delivered.
    pub recipients: Vec<Recipient>,
    /// Who only finds it.
    pub stored_for: Vec<Recipient>,
}

/// What was appended.
#[derive(Debug, Clone)]
pub struct Posted {
    /// Its place.
    pub seq: i64,
    /// The thread it is in.
    pub thread: Option<EventId>,
    /// The work stream it belongs to.
    pub stream: Option<StreamId>,
    /// To whom it is delivered, by which delivery, and by which way that goes.
    pub delivered: Vec<(Recipient, DeliveryId, OnItsWay)>,
    /// Who only finds it.
    pub stored_for: Vec<Recipient>,
    /// Whom it mentions, and nobody here is called so.
    pub unknown: Vec<String>,
}

/// Those of them that an event of this author reaches: delivered to the first of `decided`, as many as one event is delivered
/// to at most, and only found by the others and by `stored_for`.
pub fn reach(
    tx: &mut dyn Tx,
    author: Principal,
    decided: Vec<Recipient>,
    stored_for: Vec<Recipient>,
) -> Result<Reach, StoreError> {
    let mut recipients = reached(tx, author, decided)?;
    let mut found = recipients.split_off(MAX_RECIPIENTS.min(recipients.len()));
    for one in &mut found {
        one.attention.mode = Mode::ToolMailbox;
    }
    found.extend(reached(tx, author, stored_for)?);
    Ok(Reach { recipients, stored_for: found })
}

fn reached(
    tx: &mut dyn Tx,
    author: Principal,
    decided: Vec<Recipient>,
) -> Result<Vec<Recipient>, StoreError> {
    let mut reached = vec![];
    for recipient in decided {
        let Some(agent) = directory::by_id(tx, recipient.agent)? else { continue };
        // Whoever is kept out reaches nobody, wherever he says it.
        if !(agent.has_blocks && blocks::keeps_out(tx, recipient.agent.into(), author)?) {
            reached.push(recipient);
        }
    }
    Ok(reached)
}

/// Appends a draft, and delivers it.
pub fn post(tx: &mut dyn Tx, draft: &Draft<'_>, reach: Reach) -> Result<Posted, StoreError> {
    let act = draft.act;
    let (event, target) = (draft.kind.event(), draft.kind.target());
    let seq = append(tx, act, event, draft.thread, target, &draft.body)?;
    if let (DraftKind::Message(_), Some(stream)) = (draft.kind, draft.stream) {
        work_streams::append(tx, stream, act.event, (act.conversation, seq))?;
    }
    let text = draft.body.text("content");
    match draft.kind {
        DraftKind::Message(_) => search::put(tx, act.conversation, act.event, text)?,
        DraftKind::Edit(target) => search::put(tx, act.conversation, target, text)?,
        DraftKind::Deletion(target) => search::remove(tx, target)?,
        DraftKind::Reaction(..) => {}
    }

    if matches!(draft.kind, DraftKind::Message(_)) {
        let mut people = vec![];
        for person in &draft.people {
            if !blocks::keeps_out(tx, (*person).into(), act.author)? {
                people.push(*person);
            }
        }
        readings::ask(tx, &people, act.conversation, seq, act.now)?;
    }

    // The smaller inbox first, so that two that go to the same agents never wait for each other.
    let Reach { mut recipients, stored_for } = reach;
    recipients.sort_by_key(|recipient| recipient.agent);
    let (given, mut delivered) = (draft.given(), vec![]);
    for recipient in recipients {
        let id = DeliveryId { agent: recipient.agent, seq: tx.next_seq(recipient.agent.0)? };
        let bringing = Bringing { mentions: &draft.mentions, ..Bringing::FIRST };
        if let Some(way) = deliver(tx, &given, id, EntryKind::Chat, recipient.attention, bringing)? {
            delivered.push((recipient, id, way));
        }
    }
    Ok(Posted {
        seq,
        thread: draft.thread,
        stream: draft.stream,
        delivered,
        stored_for,
        unknown: draft.unknown.clone(),
    })
}

/// Keeps others from all these inboxes, before the first of several drafts of one transaction is posted. Posted one after the
/// other, each would take its own inboxes in order, but the second some that come before those of the first.
pub fn hold_inboxes(tx: &mut dyn Tx, agents: impl IntoIterator<Item = AgentId>) -> Result<(), StoreError> {
    let agents: BTreeSet<_> = agents.into_iter().collect();
    agents.into_iter().try_for_each(|agent| tx.lock(agent.0))
}

/// Puts an event on its way to an agent, by the best way it has open; one that is gone since it was found gets nothing.
/// The caller took `id.seq` of the agent's stream.
pub fn deliver(
    tx: &mut dyn Tx,
    act: &Act,
    id: DeliveryId,
    kind: EntryKind,
    attention: Attention,
    bringing: Bringing<'_>,
) -> Result<Option<OnItsWay>, StoreError> {
    let Some(agent) = directory::by_id(tx, id.agent)? else { return Ok(None) };
    let first = push::first_waiting(tx, id.agent, act.conversation)?;
    let (pushed, give_up_at) = (deliveries::push_transport(&agent), act.now + GIVE_UP_MS);
    let (transport, state, push) = match deliveries::way(&agent, first, act.now) {
        Way::Session => (Transport::Inbox, DeliveryState::DeliveredSse, None),
        Way::Inbox => (Transport::Inbox, DeliveryState::Queued, None),
        Way::Harness | Way::Webhook | Way::Connection => {
            (pushed, DeliveryState::Waiting, Some((Some(act.now), give_up_at)))
        }
        Way::WaitForOwner(_) => (pushed, DeliveryState::Waiting, Some((Some(give_up_at), give_up_at))),
        Way::WaitBehind(first) => {
            // What waits goes before it, into the inbox if that is open by now: each takes its way when it has its turn.
            if agent.open_until > act.now {
                push::reroute(tx, &[first], act.now)?;
            }
            (pushed, DeliveryState::Waiting, Some((None, give_up_at)))
        }
    };
    // At its deadline somebody looks what became of it. What follows is decided by who looks. Of what other services post, only
    // where there is one: elsewhere it is answered without the hub.
    let deadline_at = act.now.saturating_add(attention.deadline_ms.unwrap_or(0));
    let is_looked_at =
        kind == EntryKind::Chat || kind == EntryKind::Channel && attention.deadline_ms.is_some();
    let next_at = is_looked_at.then_some(deadline_at);
    let delivery = NewDelivery {
        agent: id.agent,
        event: act.event,
        kind,
        transport,
        state,
        lease: None,
        chat: Some(Chat { conversation: act.conversation, attention, push, bringing, next_at }),
        trace: act.trace,
    };
    deliveries::append(tx, &delivery, id.seq, act.now)?;
    Ok(Some(OnItsWay { transport, epoch: agent.epoch }))
}
