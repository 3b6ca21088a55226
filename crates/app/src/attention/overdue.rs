//! What time does to what agents were given: reminders, downgrades, escalations, ends. What it does to claims is `offering`'s.
//!
//! Steps of background work: each takes a transaction and the time, finds out for itself how things stand, and is harmless
//! when they are no longer so. One thing at a time, so that no two of them wait for each other. What follows from what is the
//! engine's to say; whom an escalation goes to, too.

use super::deciding::is_for_several;
use super::ways::{shows, takes_again};
use super::{claiming, disposing, envelopes};
use chorus_attention::claims::Open;
use chorus_attention::deadline::{Step, downgraded, escalate_to, escalation};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, ConversationId, DeliveryId, EventId, Principal};
use chorus_protocol::redact::Masked;
use chorus_protocol::words::{Disposition, EntryKind, EventKind, Reason};
use chorus_store::conversation::{self, Act};
use chorus_store::conversations::{self, Conversation, Event};
use chorus_store::deliveries::Bringing;
use chorus_store::members::{self, Member};
use chorus_store::obligations::{self, Obligation};
use chorus_store::{StoreError, Tx, blocks, claims};
use serde_json::{Map, json};

/// What a person has taken on is looked at again after so long, if not before.
const LOOK_AGAIN_MS: i64 = 30_000;

/// Something that an agent was given is due: the next step is taken if it is time for it. `escalation` is the id of an event, should
/// there be one. Whether anything was sent.
pub fn attend(
    tx: &mut dyn Tx,
    now: i64,
    (event, agent): (EventId, AgentId),
    escalation: EventId,
) -> Result<bool, StoreError> {
    let Some(known) = obligations::of(tx, event, agent, now)? else { return Ok(false) };
    // Who answers it holds the conversation, and so does another node that attends to it: how it stands is read once they are done.
    tx.lock(known.conversation.0)?;
    let Some(known) = obligations::of(tx, event, agent, now)? else { return Ok(false) };
    let Some((step, at)) = pending(&known).next_step() else {
        obligations::leave(tx, &known)?;
        return Ok(false);
    };
    if at > now {
        obligations::put_off(tx, &Obligation { next_at: Some(at), ..known })?;
        return Ok(false);
    }
    let said = conversations::event_by_id(tx, event)?;
    if said.as_ref().is_some_and(|said| matches!(said.kind, EventKind::Envelope | EventKind::Foreign)) {
        return attend_direct(tx, known, step, now);
    }
    let member = members::of(tx, known.conversation, agent.into())?;
    let (Some(said), Some(member)) = (said, member) else {
        // Who is not there any more has nothing to answer.
        obligations::dispose(tx, &known, Some(Disposition::Ignored), (None, None), now)?;
        return Ok(false);
    };
    let asks = matches!(step, Step::Redeliver | Step::Remind | Step::Escalate);
    if asks && let Some(until) = held_by_person(tx, known.supersedes.unwrap_or(event), now)? {
        // Whoever gives it back early keeps nobody waiting for long.
        let next_at = Some(until.min(now + LOOK_AGAIN_MS));
        obligations::put_off(tx, &Obligation { next_at, ..known })?;
        return Ok(false);
    }
    match step {
        Step::Redeliver | Step::Remind => {
            let known = Obligation { reminded_at: Some(now), ..known };
            send_again(tx, &said, known, now)
        }
        Step::Escalate => escalate(tx, &said, &member, known, escalation, now),
        Step::Reopen => {
            let was_claimed = known.disposition == Some(Disposition::Claimed);
            obligations::dispose(tx, &known, None, (None, None), now)?;
            let open = Obligation { disposition: None, until_at: None, reminded_at: None, ..known };
            // What was claimed is offered again, by whoever looks after claims.
            if was_claimed { put_off(tx, open) } else { send_again(tx, &said, open, now) }
        }
        Step::End(disposition) => {
            // Whoever has taken it may let it go: until then nobody else has let it pass.
            if disposition == Disposition::Ignored
                && let Some(at) = claim_changes_at(tx, &known)?
            {
                obligations::put_off(tx, &Obligation { next_at: Some(at.max(now) + 1), ..known })?;
                return Ok(false);
            }
            obligations::dispose(tx, &known, Some(disposition), (None, None), now)?;
            Ok(false)
        }
    }
}

/// When the claim changes by itself on what is for whoever takes it.
fn claim_changes_at(tx: &mut dyn Tx, known: &Obligation) -> Result<Option<i64>, StoreError> {
    if !is_for_several(known.attention.reason) {
        return Ok(None);
    }
    Ok(claims::of(tx, known.supersedes.unwrap_or(known.event))?.and_then(|claim| claim.next_at))
}

/// Until when a person has taken an event on, if one has: meanwhile no agent is asked again.
fn held_by_person(tx: &mut dyn Tx, event: EventId, now: i64) -> Result<Option<i64>, StoreError> {
    let Some(Open::Held(held)) = claiming::of(tx, event)?.map(|claim| claim.open(now)) else {
        return Ok(None);
    };
    Ok(matches!(held.holder, Principal::Account(_)).then_some(held.until_ms))
}

/// The time of an envelope has come, or of another service's post: an answer is expected no longer, and in the end it was ignored. It
/// is not sent again, because such a send is final; nor escalated, because it is between two.
fn attend_direct(tx: &mut dyn Tx, known: Obligation, step: Step, now: i64) -> Result<bool, StoreError> {
    let known = match step {
        Step::Redeliver | Step::Remind => Obligation { reminded_at: Some(now), ..known },
        Step::Escalate => {
            let attention = envelopes::given_up(known.attention);
            Obligation { escalated_at: Some(now), attention, ..known }
        }
        Step::Reopen => {
            obligations::dispose(tx, &known, None, (None, None), now)?;
            Obligation { disposition: None, until_at: None, ..known }
        }
        Step::End(disposition) => {
            obligations::dispose(tx, &known, Some(disposition), (None, None), now)?;
            return Ok(false);
        }
    };
    put_off(tx, known)
}

/// What a harness does not acknowledge comes again by its own session, and what waits to be posted by the pusher: here nobody is
/// connected.
fn pending(known: &Obligation) -> chorus_attention::deadline::Pending {
    chorus_attention::deadline::Pending { connected: false, ..disposing::pending(known) }
}

/// Keeps how it stands, and when somebody looks again.
fn put_off(tx: &mut dyn Tx, known: Obligation) -> Result<bool, StoreError> {
    let next_at = pending(&known).next_step().map(|(_, at)| at);
    obligations::put_off(tx, &Obligation { next_at, ..known })?;
    Ok(false)
}

/// Sends an event once more to who has it already; who has not taken it yet still has it before itself, and who takes nothing twice
/// is not reminded.
pub(super) fn send_again(
    tx: &mut dyn Tx,
    said: &Event,
    known: Obligation,
    now: i64,
) -> Result<bool, StoreError> {
    let agent = known.id.agent;
    if !known.acked || !takes_again(tx, agent, now)? {
        return put_off(tx, known);
    }
    let bringing = Bringing { mentions: &known.mentions, supersedes: known.supersedes, sent: known.sent + 1 };
    let Some(id) = bring(tx, said, agent, known.attention, bringing, now)? else { return put_off(tx, known) };
    obligations::leave(tx, &known)?;
    let again = Obligation { id, sent_at: now, acked: false, ..known };
    put_off(tx, again)?;
    Ok(true)
}

/// Brings an event to an agent; nothing, if that keeps its author out.
pub(super) fn bring(
    tx: &mut dyn Tx,
    said: &Event,
    agent: AgentId,
    attention: Attention,
    bringing: Bringing<'_>,
    now: i64,
) -> Result<Option<DeliveryId>, StoreError> {
    if blocks::keeps_out(tx, agent.into(), said.author)? {
        return Ok(None);
    }
    let act =
        Act { conversation: said.conversation, author: said.author, event: said.id, trace: said.trace, now };
    let id = DeliveryId { agent, seq: tx.next_seq(agent.0)? };
    let way = conversation::deliver(tx, &act, id, EntryKind::Chat, attention, bringing)?;
    Ok(way.map(|_| id))
}

/// What was not answered is asked no longer, and the lead, or else the owner, is told: by an event of its own, which names the
/// original. An agent is given it; a person finds it in the conversation. Who asked knows already.
fn escalate(
    tx: &mut dyn Tx,
    said: &Event,
    silent: &Member,
    known: Obligation,
    event: EventId,
    now: i64,
) -> Result<bool, StoreError> {
    let was_escalation = known.attention.reason == Reason::Escalation;
    let message = known.supersedes.unwrap_or(said.id);
    // The conversation first, then the smaller inbox, as everywhere.
    tx.lock(said.conversation.0)?;
    let place = conversations::by_id(tx, said.conversation)?.filter(|place| place.archived_at.is_none());
    let to = match &place {
        None => None,
        Some(place) => {
            let to = told_of(tx, place, silent.principal, was_escalation, said.author)?;
            let to = to.map_or(Ok(None), |to| members::of(tx, place.id, to))?;
            // Who has said what it has to say is not asked for more.
            let has_answered = match to.as_ref().and_then(|to| to.principal.agent()) {
                Some(agent) => disposing::has_answered(tx, message, agent)?,
                None => false,
            };
            to.filter(|_| !has_answered)
        }
    };
    let agents = [silent.principal.agent(), to.as_ref().and_then(|to| to.principal.agent())];
    conversation::hold_inboxes(tx, agents.into_iter().flatten())?;
    let knocks = shows(tx, known.id.agent, now)?.notify;
    let attention = downgraded(known.attention);
    let known = Obligation { escalated_at: Some(now), attention, ..known };
    let sent = if knocks { send_again(tx, said, known, now)? } else { put_off(tx, known)? };
    let Some(to) = to else { return Ok(sent) };
    let original = if was_escalation { said.target.unwrap_or(said.id) } else { said.id };
    let text = format!("{} has not answered in time; it goes to {} now", silent.handle, to.handle);
    let body = Masked::new(Map::from_iter([
        ("content".to_owned(), json!(text)),
        ("escalates".to_owned(), json!(original.to_string())),
        ("to".to_owned(), json!([to.handle])),
    ]));
    let conversation = said.conversation;
    let act = Act { conversation, author: said.author, event, trace: said.trace, now };
    conversation::append(tx, &act, EventKind::Escalation, said.thread, Some(original), &body)?;
    if let Principal::Agent(agent) = to.principal {
        let told = Event { id: event, ..said.clone() };
        let mentions = format!("agent:{}", to.handle);
        // By what it says of the original, the agent may answer that.
        let bringing = Bringing { mentions: &mentions, supersedes: Some(message), ..Bringing::FIRST };
        bring(tx, &told, agent, escalation(), bringing, now)?;
    }
    Ok(true)
}

/// Who is told that somebody has not answered: not who asked, and nobody who keeps that one out.
fn told_of(
    tx: &mut dyn Tx,
    place: &Conversation,
    silent: Principal,
    was_escalation: bool,
    author: Principal,
) -> Result<Option<Principal>, StoreError> {
    let mut lead = members::lead(tx, place.id)?.map(|lead| lead.principal);
    // A lead that is silent itself has had its turn, whomever it keeps out.
    if let Some(other) = lead.filter(|lead| *lead != silent)
        && blocks::keeps_out(tx, other, author)?
    {
        lead = None;
    }
    let to = escalate_to(&silent, was_escalation, lead, Some(place.owner)).filter(|to| *to != author);
    match to {
        Some(to) if blocks::keeps_out(tx, to, author)? => Ok(None),
        to => Ok(to),
    }
}

/// What is due of both, some of it.
pub fn find(tx: &mut dyn Tx, now: i64, limit: i64) -> Result<Due, StoreError> {
    Ok(Due { given: obligations::due(tx, now, limit)?, claims: claims::due(tx, now, limit)? })
}

/// What time has come for.
#[derive(Debug, Clone, Default)]
pub struct Due {
    pub given: Vec<(EventId, AgentId)>,
    pub claims: Vec<(EventId, ConversationId)>,
}
