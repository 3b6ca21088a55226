//! Applies the effects of a decision.

use super::audience::exchange_lifetime;
use crate::claims::{self, Claim};
use crate::conversation::{self, Act, Draft};
use crate::deliveries::{Bringing, OnItsWay};
use crate::{StoreError, Tx, conversations, loop_guards, obligations, readings};
use chorus_attention::deadline::{escalation, report};
use chorus_attention::obligation::Obligation;
use chorus_attention::plan::{Effect, EscalationTarget, EventRecipient, RequestOutcome, Work, inboxes};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, DeliveryId, EventId, Principal, StreamId};
use chorus_protocol::redact::{Masked, MaskedText};
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
    /// The work that was stopped, each with the reason.
    pub stopped: Vec<(Work, String)>,
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
        Effect::Stop { work, reason } => {
            let Obligation { event, id, .. } = work.obligation;
            obligations::save_disposition(tx, &work.obligation, now)?;
            obligations::explain(tx, event, id.agent, &MaskedText::new(reason.clone()), now)?;
            applied.stopped.push((work.as_ref().clone(), reason.clone()));
        }
        Effect::SaveClaim { conversation, event, claim, next_at } => {
            claims::put(tx, &Claim::row(*conversation, *event, claim, *next_at))?;
        }
        Effect::Escalate { event, outcome, target, author, message, original } => {
            let told = OutcomeNotice { outcome, target: target.as_ref(), author: author.as_ref() };
            escalate(tx, &about()?.act, *event, &told, (*message, *original))?;
            applied.sent = true;
        }
        Effect::CountTurn { with } => count_turns(tx, &about()?.act, with)?,
        Effect::ResetTurns => loop_guards::reset(tx, about()?.act.conversation)?,
    }
    Ok(())
}

/// Counts a turn of the author of an event with each agent that the event woke.
fn count_turns(tx: &mut dyn Tx, act: &Act, with: &[AgentId]) -> Result<(), StoreError> {
    let Some(author) = act.author.agent() else { return Ok(()) };
    let Some(place) = conversations::by_id(tx, act.conversation)? else { return Ok(()) };
    let lifetime = exchange_lifetime(&place, act.now);
    for &other in with {
        loop_guards::count(tx, act.conversation, (author, other), lifetime, act.now)?;
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

/// The outcome of a request, and the members that are told of it.
struct OutcomeNotice<'a> {
    outcome: &'a RequestOutcome,
    /// The member that is to answer instead.
    target: Option<&'a EscalationTarget>,
    author: Option<&'a EscalationTarget>,
}

impl OutcomeNotice<'_> {
    fn text(&self) -> String {
        let what = match self.outcome {
            RequestOutcome::Late(silent) => format!("{silent} has not answered in time"),
            RequestOutcome::Failed(silent) => format!("{silent} has failed to answer"),
            RequestOutcome::Unanswered => "nobody has answered this in time".to_owned(),
        };
        match self.target {
            Some(target) => format!("{what}; it goes to {} now", target.handle),
            None => what,
        }
    }
}

/// Appends an escalation of an event, in the name of its author, and delivers it to the agents that it goes to. People find it in
/// their inbox.
fn escalate(
    tx: &mut dyn Tx,
    said: &Act,
    event: EventId,
    told: &OutcomeNotice<'_>,
    (message, original): (EventId, EventId),
) -> Result<(), StoreError> {
    let to: Vec<_> = told.target.into_iter().chain(told.author).collect();
    let body = Masked::new(Map::from_iter([
        ("content".to_owned(), json!(told.text())),
        ("escalates".to_owned(), json!(original.to_string())),
        ("to".to_owned(), to.iter().map(|one| json!(one.handle)).collect()),
    ]));
    let thread = conversations::event_by_id(tx, said.event)?.and_then(|said| said.thread);
    let act = Act { event, ..*said };
    let seq = conversation::append(tx, &act, EventKind::Escalation, thread, Some(original), &body)?;
    let people: Vec<_> = to
        .iter()
        .filter_map(|one| match one.principal {
            Principal::Account(account) => Some(account),
            Principal::Agent(_) => None,
        })
        .collect();
    readings::ask(tx, &people, said.conversation, seq, said.now)?;
    let mut agents = vec![];
    // This reference allows the agent to answer the message.
    agents.extend(told.target.map(|target| (target, escalation(), Some(message))));
    agents.extend(told.author.map(|author| (author, report(), None)));
    agents.sort_by_key(|(one, ..)| one.principal.agent());
    for (one, attention, supersedes) in agents {
        let Some(agent) = one.principal.agent() else { continue };
        let mentions = format!("agent:{}", one.handle);
        let bringing = Bringing { mentions: &mentions, supersedes, ..Bringing::FIRST };
        bring(tx, &act, &EventRecipient { agent, handle: one.handle.clone(), attention }, bringing)?;
    }
    Ok(())
}
