//! The ladder of an event: its recipients, the reason and the way of each delivery, and its progress.
//!
//! A rung is shown only if it was reached, and with its time only if the time was recorded.

use super::attempts;
use crate::attention::envelopes;
use crate::views::{self, EventView};
use chorus_node::App;
use chorus_node::Error;
use chorus_node::secrets::MasterKey;
use chorus_protocol::api::deliveries::{LadderDelivery, Recipient, Rung, StepView};
use chorus_protocol::attention::{Attention, Classification};
use chorus_protocol::ids::{EventId, Principal};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{ClaimState, DeliveryState, Disposition, EventKind, Transport};
use chorus_store::attention::classify_stored;
use chorus_store::conversations::{Conversation, Event};
use chorus_store::members::MembershipInterval;
use chorus_store::push::{self, Record};
use chorus_store::{StoreError, Tx, claims, conversation, conversations, log, members, obligations};
use serde::Serialize;
use serde_json::Map;

/// The most deliveries that are shown of an event, and the most attempts of each.
const MAX_DELIVERIES: i64 = 200;
const MAX_ATTEMPTS: i64 = 500;

/// An event with its deliveries and claims.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LadderView {
    /// The event.
    pub event: EventView,
    /// The intent that the message was taken for; `null` for other events.
    #[schema(nullable)]
    pub classification: Option<Classification>,
    /// The deliveries of the event, one per recipient.
    pub deliveries: Vec<LadderDelivery>,
    /// The claims on the event, the oldest first.
    pub claims: Vec<ClaimView>,
}

/// A claim on an event.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ClaimView {
    /// The holder's handle in the conversation.
    pub holder: String,
    /// The time of the claim.
    pub since: String,
    /// The time at which the claim expires.
    pub until: String,
    /// The state of the claim: `held`, `released`, `resolved` or `expired`.
    #[schema(value_type = String)]
    pub state: ClaimState,
}

/// Returns the ladder of an event. The caller must be a member who may read it, or one of the two agents of an
/// envelope.
pub async fn ladder(app: &App, who: Principal, id: &str) -> Result<LadderView, Error> {
    let missing = || Error::not_found("event");
    let (id, now) = (EventId::parse(id).ok_or_else(missing)?, app.now());
    let key = app.config.master_key.clone();
    let show = move |tx: &mut dyn Tx| {
        let event = conversations::event_by_id(tx, id)?.ok_or_else(missing)?;
        if event.seq == conversations::UNPLACED {
            let view = outside(tx, who, &event, now)?.ok_or_else(missing)?;
            let mut deliveries = deliveries(&key, tx, id)?;
            if deliveries.is_empty() && event.kind == EventKind::Envelope {
                deliveries.extend(unkept(&key, tx, &event, now)?);
            }
            return Ok(LadderView { event: view, classification: None, deliveries, claims: vec![] });
        }
        let (conversation, _) =
            conversation::as_reader(tx, event.conversation, who).map_err(|_| missing())?;
        let stays = log::readable(tx, &conversation, who)?;
        if !MembershipInterval::any_holds(&stays, event.seq) {
            return Err(missing());
        }
        let classification = classify_stored(tx, event.id)?;
        let events = [event];
        let standing = log::stand(tx, &conversation, who, &stays, &events)?;
        let event = views::events(&events, &standing.changes, &standing.replies).remove(0);
        let claims = claims(tx, &conversation, id, now)?;
        Ok(LadderView { event, classification, deliveries: deliveries(&key, tx, id)?, claims })
    };
    app.store.read::<_, Error, _>(show).await
}

fn deliveries(key: &MasterKey, tx: &mut dyn Tx, event: EventId) -> Result<Vec<LadderDelivery>, StoreError> {
    let records = push::of_event(tx, event, MAX_DELIVERIES)?;
    records.into_iter().map(|record| delivery(key, tx, record)).collect()
}

/// Returns the delivery of an envelope that has no stored obligation yet.
fn unkept(
    key: &MasterKey,
    tx: &mut dyn Tx,
    envelope: &Event,
    now: i64,
) -> Result<Option<LadderDelivery>, StoreError> {
    let Some(record) = push::of_envelope(tx, envelope)? else { return Ok(None) };
    let attention = envelopes::meaning_for(tx, envelope, record.id.agent, now)?;
    let acked = record.handed || record.state == DeliveryState::Delivered;
    let (attention, disposition) = envelopes::stands(attention, record.created_at, acked, now);
    delivery(key, tx, Record { attention, disposition, ..record }).map(Some)
}

/// Returns an event from outside any conversation, for the agents it is between. An envelope is shown as it
/// was sent, and the decision about a message that awaited approval with its outcome. Other kinds are shown
/// without content: posts of other services are sealed, and jobs are shown by the market.
fn outside(
    tx: &mut dyn Tx,
    who: Principal,
    event: &Event,
    now: i64,
) -> Result<Option<EventView>, StoreError> {
    let Some(agent) = who.agent() else { return Ok(None) };
    let is_its = match event.kind {
        EventKind::Envelope => event.author == who || envelopes::is_to(event, agent),
        // The decision about a message that awaited approval is shown while the agent is a member.
        EventKind::Reaction if members::of(tx, event.conversation, who)?.is_none() => false,
        _ => obligations::of(tx, event.id, agent, now)?.is_some(),
    };
    let mut view = views::event(event);
    match event.kind {
        EventKind::Envelope => view.content = Some(envelopes::text(&event.body)),
        EventKind::Reaction => {}
        _ => (view.content, view.more) = (None, Map::new()),
    }
    Ok(Some(view).filter(|_| is_its))
}

fn claims(
    tx: &mut dyn Tx,
    conversation: &Conversation,
    event: EventId,
    now: i64,
) -> Result<Vec<ClaimView>, StoreError> {
    let mut views = vec![];
    for held in claims::holders(tx, event, MAX_DELIVERIES)? {
        let member = members::of(tx, conversation.id, held.holder)?;
        // Expiry is computed here, not stored.
        let expired = held.state == ClaimState::Held && held.until <= now;
        views.push(ClaimView {
            holder: member.map_or_else(|| held.holder.to_string(), |member| member.handle),
            since: rfc3339(held.since),
            until: rfc3339(held.until),
            state: if expired { ClaimState::Expired } else { held.state },
        });
    }
    Ok(views)
}

fn delivery(key: &MasterKey, tx: &mut dyn Tx, record: Record) -> Result<LadderDelivery, StoreError> {
    let member = members::of(tx, record.conversation, record.id.agent.into())?;
    let attempts = push::attempts(tx, record.id, MAX_ATTEMPTS)?;
    let attempts = attempts.into_iter().map(attempts::view);
    let Attention { directedness, policy, mode, reason, .. } = record.attention;
    Ok(LadderDelivery {
        directedness,
        policy,
        mode,
        id: key.delivery_name(record.id),
        recipient: Recipient {
            id: record.id.agent.to_string(),
            handle: member.map_or_else(|| record.agent.clone(), |member| member.handle),
        },
        transport: record.transport,
        state: record.state,
        rungs: rungs(&record),
        attempts: attempts.collect(),
        sent: record.sent,
        disposition: record.disposition.map(|(disposition, _)| disposition),
        disposition_reason: record.disposition_reason,
        reason: Some(reason),
    })
}

fn rungs(record: &Record) -> Vec<StepView> {
    let ended = |last| (last, Some(record.updated_at), record.detail.as_deref());
    let mut rungs = vec![(Rung::Stored, Some(record.created_at), None)];
    let is_taken = record.acked_at.is_some() || record.injected_at.is_some();
    let is_withdrawn = matches!(record.disposition, Some((Disposition::Superseded | Disposition::Failed, at))
        if !is_taken && record.handed_at.is_some_and(|handed_at| handed_at > at));
    // The position of the inbox passes an event that was withdrawn before it was handed over.
    if record.handed && !is_withdrawn {
        rungs.push((Rung::Handed, record.handed_at, None));
    }
    match record.state {
        DeliveryState::Delivered if record.transport != Transport::Inbox && record.acked_at.is_none() => {
            rungs.push((Rung::Acked, record.handed_at, None));
        }
        DeliveryState::Failed => rungs.push(ended(Rung::Failed)),
        DeliveryState::Dead => rungs.push(ended(Rung::Dead)),
        DeliveryState::Delivered
        | DeliveryState::DeliveredSse
        | DeliveryState::Queued
        | DeliveryState::Sending
        | DeliveryState::Waiting => {}
    }
    if let Some(at) = record.acked_at {
        rungs.push((Rung::Acked, Some(at), None));
    }
    if let Some(at) = record.injected_at {
        rungs.push((Rung::Injected, Some(at), None));
    }
    if let Some((disposition, at)) = &record.disposition {
        rungs.push((Rung::Dispositioned, Some(*at), Some(disposition.as_str())));
    }
    let mut times: Vec<_> = rungs.iter().map(|(_, at, _)| *at).collect();
    put_in_order(&mut times);
    let shown = rungs.into_iter().zip(times).map(|((rung, _, reason), at)| StepView {
        rung,
        at: at.map(rfc3339),
        reason: reason.map(str::to_owned),
    });
    shown.collect()
}

/// Lowers times that are later than those of later rungs. A rung was reached at the latest when the next one was: the position
/// of an inbox, which tells that an event was handed over, is recorded with a delay.
pub(crate) fn put_in_order(times: &mut [Option<i64>]) {
    let first = times.first().copied().flatten();
    let mut latest = None;
    for at in times.iter_mut().skip(1).rev().flatten() {
        *at = (*at).min(latest.unwrap_or(*at)).max(first.unwrap_or(*at));
        latest = Some(*at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_never_go_backwards_in_time() {
        for (times, expected) in [
            (vec![Some(1), Some(9), Some(5), Some(7)], vec![Some(1), Some(5), Some(5), Some(7)]),
            (vec![Some(1), Some(9), None, Some(4)], vec![Some(1), Some(4), None, Some(4)]),
            (vec![Some(3), Some(9), Some(2)], vec![Some(3), Some(3), Some(3)]),
            (vec![Some(1), Some(2), Some(3)], vec![Some(1), Some(2), Some(3)]),
            (vec![Some(1)], vec![Some(1)]),
        ] {
            let mut found = times.clone();
            put_in_order(&mut found);
            assert_eq!(found, expected, "{times:?}");
        }
    }
}
