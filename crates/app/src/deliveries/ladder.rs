//! The ladder of an event: to whom it went, why, how, and how far it came.
//!
//! A rung is shown only when it was reached, and with its time only where that was noted.

use super::attempts;
use crate::app::App;
use crate::attention::envelopes;
use crate::error::Error;
use crate::secrets::MasterKey;
use crate::views::{self, EventView};
use chorus_protocol::api::deliveries::{LadderDelivery, Recipient, Rung, StepView};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{EventId, Principal};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{ClaimState, DeliveryState, EventKind, Transport};
use chorus_store::conversations::{Conversation, Event};
use chorus_store::members::MembershipInterval;
use chorus_store::push::{self, Record};
use chorus_store::{StoreError, Tx, claims, conversation, conversations, log, members, obligations};
use serde::Serialize;
use serde_json::Map;

/// The most deliveries and tries that are shown of one event.
const MAX_DELIVERIES: i64 = 200;
const MAX_ATTEMPTS: i64 = 500;

/// An event and what became of it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LadderView {
    /// The event.
    pub event: EventView,
    /// To whom it went.
    pub deliveries: Vec<LadderDelivery>,
    /// Who took it on, the first one first.
    pub claims: Vec<ClaimView>,
}

/// That somebody took an event on.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ClaimView {
    /// What it is called there.
    pub holder: String,
    /// Since when.
    pub since: String,
    /// Until when.
    pub until: String,
    /// What became of it: `held`, `released`, `resolved` or `expired`.
    #[schema(value_type = String)]
    pub state: ClaimState,
}

/// What became of an event, for members of its conversation who may read it.
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
            return Ok(LadderView { event: view, deliveries, claims: vec![] });
        }
        let (conversation, _) =
            conversation::as_reader(tx, event.conversation, who).map_err(|_| missing())?;
        let stays = log::readable(tx, &conversation, who)?;
        if !MembershipInterval::any_holds(&stays, event.seq) {
            return Err(missing());
        }
        let events = [event];
        let standing = log::stand(tx, &conversation, who, &stays, &events)?;
        let event = views::events(&events, &standing.changes, &standing.replies).remove(0);
        let claims = claims(tx, &conversation, id, now)?;
        Ok(LadderView { event, deliveries: deliveries(&key, tx, id)?, claims })
    };
    app.store.read::<_, Error, _>(show).await
}

fn deliveries(key: &MasterKey, tx: &mut dyn Tx, event: EventId) -> Result<Vec<LadderDelivery>, StoreError> {
    let records = push::of_event(tx, event, MAX_DELIVERIES)?;
    records.into_iter().map(|record| delivery(key, tx, record)).collect()
}

/// The delivery of an envelope of which its receiver has said nothing.
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

/// What has no place in a conversation, for the agents it is between: an envelope as it was sent, that a wait for a
/// person is over with what came of it, of everything else only what it is.
/// What another service posted is sealed, and a job is its market's to show.
fn outside(
    tx: &mut dyn Tx,
    who: Principal,
    event: &Event,
    now: i64,
) -> Result<Option<EventView>, StoreError> {
    let Some(agent) = who.agent() else { return Ok(None) };
    let is_its = match event.kind {
        EventKind::Envelope => event.author == who || envelopes::is_to(event, agent),
        // That its wait for a person is over, as long as it is where it waited.
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
        // Nobody has to write down that time has passed.
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
    let rung = |rung, at: Option<i64>, reason: Option<&str>| StepView {
        rung,
        at: at.map(rfc3339),
        reason: reason.map(str::to_owned),
    };
    let ended = |last| rung(last, Some(record.updated_at), record.detail.as_deref());
    let mut rungs = vec![rung(Rung::Stored, Some(record.created_at), None)];
    if record.handed {
        rungs.push(rung(Rung::Handed, record.handed_at, None));
    }
    match record.state {
        DeliveryState::Delivered if record.transport != Transport::Inbox && record.acked_at.is_none() => {
            rungs.push(rung(Rung::Acked, record.handed_at, None));
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
        rungs.push(rung(Rung::Acked, Some(at), None));
    }
    if let Some(at) = record.injected_at {
        rungs.push(rung(Rung::Injected, Some(at), None));
    }
    if let Some((disposition, at)) = &record.disposition {
        rungs.push(rung(Rung::Dispositioned, Some(*at), Some(disposition.as_str())));
    }
    rungs
}
