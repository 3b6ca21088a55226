//! Applies the effects of a decision.

use crate::claims::{self, Claim};
use crate::conversation::{self, Act, Draft};
use crate::deliveries::{Bringing, OnItsWay};
use crate::{StoreError, Tx, conversations, loop_guards, obligations};
use chorus_attention::deadline::escalation;
use chorus_attention::obligation::Obligation;
use chorus_attention::plan::{Effect, EscalationTarget, EventRecipient, inboxes};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{DeliveryId, EventId, StreamId};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{Disposition, EntryKind, EventKind};
use serde_json::{Map, json};

/// The event that a decision is about.
#[derive(Debug, Clone, Copy)]
pub struct Occasion {
    /// The act that appended the event.
    pub act: Act,
    /// The event that agents are given: the message itself, also after an edit.
    pub given: EventId,
}

impl Occasion {
    /// Returns the occasion of an event that was appended before.
    pub fn of(said: &conversations::Event, now: i64) -> Self {
        let (conversation, author, event, trace) = (said.conversation, said.author, said.id, said.trace);
        Self { act: Act { conversation, author, event, trace, now }, given: event }
    }
}

/// The outcome of a decision.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// The new deliveries, and the way that each takes.
    pub delivered: Vec<(EventRecipient, DeliveryId, OnItsWay)>,
    /// The agents that the event is stored for without a delivery.
    pub stored_for: Vec<EventRecipient>,
    /// The deliveries that need no answer any more, each with the reason.
    pub cancelled: Vec<(Obligation, &'static str)>,
    /// At least one effect sent a delivery.
    pub sent: bool,
}

/// An event that was appended, with the outcome of its decision.
#[derive(Debug, Clone)]
pub struct Posted {
    /// The event's position in the conversation.
    pub seq: i64,
    pub thread: Option<EventId>,
    pub stream: Option<StreamId>,
    /// The mentioned names that belong to no member.
    pub unknown: Vec<String>,
    pub applied: Applied,
}

/// Appends a draft, and applies the effects of the decision on it.
pub fn post(tx: &mut dyn Tx, draft: &Draft<'_>, effects: &[Effect]) -> Result<Posted, StoreError> {
    // Several inboxes are locked in ascending order before any of them is written to.
    if effects
        .iter()
        .any(|effect| matches!(effect, Effect::Supersede(_) | Effect::Cancel { wakes: true, .. }))
    {
        conversation::hold_inboxes(tx, inboxes(effects))?;
    }
    let seq = conversation::append_draft(tx, draft)?;
    let occasion = Occasion { act: *draft.act, given: draft.given().event };
    let applied = apply(tx, Some(&occasion), effects, draft.act.now)?;
    let (thread, stream, unknown) = (draft.thread, draft.stream, draft.unknown.clone());
    Ok(Posted { seq, thread, stream, unknown, applied })
}

/// Applies effects in their order. Deliveries come first, in ascending order of inboxes, so that transactions
/// do not deadlock.
pub fn apply(
    tx: &mut dyn Tx,
    occasion: Option<&Occasion>,
    effects: &[Effect],
    now: i64,
) -> Result<Applied, StoreError> {
    let mut applied = Applied::default();
    let mut deliveries: Vec<_> = effects.iter().filter(|one| matches!(one, Effect::Deliver { .. })).collect();
    deliveries.sort_by_key(|one| match one {
        Effect::Deliver { to, .. } => Some(to.agent),
        _ => None,
    });
    if effects.iter().any(|effect| matches!(effect, Effect::Escalate { .. })) {
        conversation::hold_inboxes(tx, inboxes(effects))?;
    }
    let others = effects.iter().filter(|one| !matches!(one, Effect::Deliver { .. }));
    for effect in deliveries.into_iter().chain(others) {
        apply_one(tx, occasion, effect, now, &mut applied)?;
    }
    Ok(applied)
}

fn apply_one(
    tx: &mut dyn Tx,
    occasion: Option<&Occasion>,
    effect: &Effect,
    now: i64,
    applied: &mut Applied,
) -> Result<(), StoreError> {
    let about = || occasion.ok_or_else(|| StoreError::unexpected("a delivery of no event"));
    match effect {
        // The note is part of the message.
        Effect::Damp(_) => {}
        Effect::Store(to) => applied.stored_for.push(to.clone()),
        Effect::Deliver { to, mentions, claimed_until } => {
            let Occasion { act, given } = *about()?;
            let bringing = Bringing { mentions, ..Bringing::FIRST };
            let act = Act { event: given, ..act };
            if let Some((id, way)) = bring(tx, &act, to, bringing)? {
                if let Some(until) = *claimed_until {
                    let (claimed, until) = (Some(Disposition::Claimed), (Some(until), Some(until.max(now))));
                    obligations::set_disposition(tx, given, id, claimed, until, now)?;
                }
                applied.delivered.push((to.clone(), id, way));
                applied.sent = true;
            }
        }
        Effect::Supersede(known) => {
            let Occasion { act, given } = *about()?;
            let bringing = Bringing { mentions: &known.mentions, supersedes: Some(given), ..Bringing::FIRST };
            if bring(tx, &act, &recipient(known, known.attention), bringing)?.is_some() {
                let edited = chorus_attention::disposition::Cause::Edited;
                if let Ok(Some(after)) = known.after(edited, None, now) {
                    obligations::save_disposition(tx, &after, now)?;
                }
            }
        }
        Effect::Redeliver(known) => applied.sent |= redeliver(tx, known, now)?,
        Effect::Dispose(after) => obligations::save_disposition(tx, after, now)?,
        Effect::Reschedule(known) => obligations::put_off(tx, known)?,
        Effect::Revise(known) => obligations::change(tx, known)?,
        Effect::Unschedule(known) => obligations::leave(tx, known)?,
        Effect::Cancel { obligation, reason, .. } => applied.cancelled.push((obligation.clone(), reason)),
        Effect::SaveClaim { conversation, event, claim, next_at } => {
            claims::put(tx, &Claim::row(*conversation, *event, claim, *next_at))?;
        }
        Effect::Escalate { event, target, silent, message, original } => {
            escalate(tx, &about()?.act, *event, target, silent, (*message, *original))?;
            applied.sent = true;
        }
        Effect::CountTurn => {
            let conversation = about()?.act.conversation;
            loop_guards::count(tx, conversation, now - super::audience::EXCHANGE_MS, now)?;
        }
        Effect::ResetTurns => loop_guards::reset(tx, about()?.act.conversation)?,
    }
    Ok(())
}

fn recipient(known: &Obligation, attention: Attention) -> EventRecipient {
    EventRecipient { agent: known.id.agent, handle: String::new(), attention }
}

/// Delivers an event to an agent. Returns `None` if the agent is gone.
fn bring(
    tx: &mut dyn Tx,
    act: &Act,
    to: &EventRecipient,
    bringing: Bringing<'_>,
) -> Result<Option<(DeliveryId, OnItsWay)>, StoreError> {
    let id = DeliveryId { agent: to.agent, seq: tx.next_seq(to.agent.into())? };
    let way = conversation::deliver(tx, act, id, EntryKind::Chat, to.attention, bringing)?;
    Ok(way.map(|way| (id, way)))
}

/// Delivers an event again, and reschedules it. Returns `false` if the event or the agent is gone.
fn redeliver(tx: &mut dyn Tx, known: &Obligation, now: i64) -> Result<bool, StoreError> {
    let Some(said) = conversations::event_by_id(tx, known.event)? else { return Ok(false) };
    let act = Occasion::of(&said, now).act;
    let bringing = Bringing { mentions: &known.mentions, supersedes: known.supersedes, sent: known.sent + 1 };
    let Some((id, _)) = bring(tx, &act, &recipient(known, known.attention), bringing)? else {
        return Ok(false);
    };
    obligations::leave(tx, known)?;
    let again = Obligation { id, ..known.clone() };
    obligations::put_off(tx, &again)?;
    if again.disposition.is_some() {
        obligations::save_disposition(tx, &again, now)?;
    }
    Ok(true)
}

/// Appends an escalation of an event, in the name of its author, and delivers it if it goes to an agent. A person finds it in the
/// conversation.
fn escalate(
    tx: &mut dyn Tx,
    said: &Act,
    event: EventId,
    target: &EscalationTarget,
    silent: &str,
    (message, original): (EventId, EventId),
) -> Result<(), StoreError> {
    let text = format!("{silent} has not answered in time; it goes to {} now", target.handle);
    let body = Masked::new(Map::from_iter([
        ("content".to_owned(), json!(text)),
        ("escalates".to_owned(), json!(original.to_string())),
        ("to".to_owned(), json!([target.handle])),
    ]));
    let thread = conversations::event_by_id(tx, said.event)?.and_then(|said| said.thread);
    let act = Act { event, ..*said };
    conversation::append(tx, &act, EventKind::Escalation, thread, Some(original), &body)?;
    if let Some(agent) = target.principal.agent() {
        let mentions = format!("agent:{}", target.handle);
        // This reference allows the agent to answer the message.
        let bringing = Bringing { mentions: &mentions, supersedes: Some(message), ..Bringing::FIRST };
        let to = EventRecipient { agent, handle: target.handle.clone(), attention: escalation() };
        bring(tx, &act, &to, bringing)?;
    }
    Ok(())
}
