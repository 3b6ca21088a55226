//! Appending a draft, with a delivery to each agent that it was decided for.
//!
//! Agents' inboxes are taken after the conversation, the smallest id first, so that no two transactions wait for each other.
//! Ambient events leave no row per member.

use super::draft::{Draft, DraftKind};
use super::{Act, append};
use crate::deliveries::{self, Bringing, Chat, GIVE_UP_MS, NewDelivery, OnItsWay, Way};
use crate::{StoreError, Tx, approvals, blocks, directory, push, readings, search, work_streams};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, DeliveryId};
use chorus_protocol::words::{DeliveryState, EntryKind, Transport};
use std::collections::BTreeSet;

/// Appends a draft with the words by which it is found, and notes the people that it asks. Returns its place in the conversation.
pub fn append_draft(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<i64, StoreError> {
    let act = draft.act;
    let (event, target) = (draft.kind.event(), draft.kind.target());
    let seq = append(tx, act, event, draft.thread, target, &draft.body)?;
    if let (DraftKind::Message(_), Some(stream)) = (draft.kind, draft.stream) {
        work_streams::append(tx, stream, act.event, act.conversation, seq)?;
    }
    let text = draft.body.text("content");
    match draft.kind {
        DraftKind::Message(_) => search::put(tx, act.conversation, act.event, text)?,
        DraftKind::Edit(target) => search::put(tx, act.conversation, target, text)?,
        DraftKind::Deletion(target) => {
            search::remove(tx, target)?;
            approvals::end_edit_of(tx, target, act.now)?;
        }
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
    Ok(seq)
}

/// Keeps others from all these inboxes, before the first of several drafts of one transaction is posted. Posted one after the
/// other, each would take its own inboxes in order, but the second some that come before those of the first.
pub fn hold_inboxes(tx: &mut dyn Tx, agents: impl IntoIterator<Item = AgentId>) -> Result<(), StoreError> {
    let agents: BTreeSet<_> = agents.into_iter().collect();
    agents.into_iter().try_for_each(|agent| tx.lock(agent.into()))
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
            // Earlier deliveries go first; each takes its own route, which is the inbox if that is open by
            // now.
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
