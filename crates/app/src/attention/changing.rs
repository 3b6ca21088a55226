//! What a change of a message means for those who were given it and are not done with it.
//!
//! A message that is taken back is nobody's any more, and a harness that is connected here, or has an address, is told. A message that is changed
//! comes to a harness under the change's own id, in place of what it has, also when it is away and comes back; who is reached
//! otherwise finds it changed, as everybody who looks does. A harness that has answered it is knocked: it may answer again. Whom it names now, and who was given nothing of it, is given the message as it stands: a mention
//! that is added wakes as a new one does. What it means for who has it is decided anew: if it asks nothing of that one any
//! more, it is cancelled.

use super::cancelling::tell_cancelled;
use super::deciding::{Changed, Decided, Known, decide_each, decide_said, message};
use super::ways::{is_delivered, shows};
use super::{claiming, disposing};
use crate::app::AppState;
use chorus_attention::capabilities::Capabilities;
use chorus_attention::disposition::Cause;
use chorus_attention::{Event, Happening, classify};
use chorus_protocol::ids::{AgentId, DeliveryId, EventId};
use chorus_protocol::words::{Directedness, Disposition, EntryKind, EventKind, Intent, Priority, Reason};
use chorus_store::conversation::{self, Candidate, Draft, DraftKind};
use chorus_store::deliveries::Bringing;
use chorus_store::members::{self, MembershipInterval};
use chorus_store::obligations::{self, Obligation};
use chorus_store::{StoreError, Tx, blocks, conversations, log};
use serde_json::Value;

/// The most agents that a change is told.
const MAX_TOLD: i64 = 200;

/// Whom a change of a message reaches.
pub(super) fn decide(tx: &mut dyn Tx, draft: &Draft<'_>, target: EventId) -> Result<Decided, StoreError> {
    let (act, mut given, mut have) = (draft.act, vec![], vec![]);
    for (event, agent) in obligations::of_message(tx, target, MAX_TOLD)? {
        let known = obligations::of(tx, event, agent, act.now)?;
        let shows = shows(tx, agent, act.now)?;
        // Whom an earlier change asked nothing more may be asked again: who knows changes by another, others by the message.
        if known.as_ref().is_some_and(was_withdrawn) && !shows.notify {
            continue;
        }
        given.push(agent);
        // That somebody has not answered stays so whatever the message says; whoever was told reads it as it stands.
        let is_change = event == target || is_edit(tx, event)?;
        if let Some(known) = known.filter(|_| is_change)
            && (!disposing::is_over(known.disposition) || was_answered(&known) || was_withdrawn(&known))
            && members::of(tx, act.conversation, agent.into())?.is_some()
            && !blocks::keeps_out(tx, agent.into(), act.author)?
        {
            have.push((known, shows));
        }
    }
    let said = conversations::event_by_id(tx, target)?
        .ok_or_else(|| StoreError::Unexpected("a change of no message".into()))?;
    // Whom of a role it is for is settled once.
    let is_settled = claiming::of(tx, target)?.is_some();
    let mut named = vec![];
    for candidate in draft.candidates.iter().filter(|candidate| !given.contains(&candidate.agent)) {
        let in_named_role = candidate.in_named_role && !is_settled;
        if !candidate.named && !in_named_role {
            continue;
        }
        // Who came later may not read the message, and could not answer it.
        let stays = log::readable(tx, &draft.conversation, candidate.agent.into())?;
        if MembershipInterval::any_holds(&stays, said.seq) {
            named.push(Candidate { in_named_role, ..candidate.clone() });
        }
    }
    // Only what it says is changed, not what it was said to be.
    let declared: Value =
        serde_json::from_str(&said.body).map_err(|error| StoreError::Unexpected(error.into()))?;
    let word = |name: &str| declared[name].as_str();
    let event = Event {
        happening: Happening::Edit,
        intent: word("intent").and_then(Intent::parse),
        directedness: word("directedness").and_then(Directedness::parse),
        priority: word("priority").and_then(Priority::parse),
        deadline_ms: declared["deadline_ms"].as_i64(),
        ..message(draft)?
    };
    let mut changed = Changed::default();
    for (mut known, shows) in have {
        decide_anew(tx, draft, event, (&said, &declared), &mut known, shows)?;
        let is_over = disposing::is_over(known.disposition);
        match (shows.notify, is_over) {
            (true, false) => changed.replaces.push(known),
            // Who is done with it, and is asked nothing, is left alone.
            (true, true) if is_delivered(known.attention.mode) => changed.replaces.push(known),
            (false, false) => changed.found.push(known),
            (_, true) => {}
        }
    }
    decide_said(tx, draft, event, &named, changed)
}

fn is_edit(tx: &mut dyn Tx, event: EventId) -> Result<bool, StoreError> {
    Ok(conversations::event_by_id(tx, event)?.is_some_and(|event| event.kind == EventKind::Edit))
}

/// Whether an agent has said what it had to say to it.
fn was_answered(known: &Obligation) -> bool {
    matches!(known.disposition, Some(Disposition::Responded | Disposition::Acknowledged))
}

/// Whether what it was given asks nothing of an agent any more, and nothing took its place.
fn was_withdrawn(known: &Obligation) -> bool {
    known.disposition == Some(Disposition::Superseded)
}

/// What the message means as it stands now, for an agent that has it, as if it were said so. Who of a role is asked was settled.
fn decide_anew(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    event: Event<'_>,
    (said, declared): (&conversations::Event, &Value),
    known: &mut Obligation,
    shows: Capabilities,
) -> Result<(), StoreError> {
    let agent = known.id.agent;
    let found = draft.candidates.iter().find(|candidate| candidate.agent == agent).cloned();
    let is_for_role = found.as_ref().is_some_and(|candidate| candidate.in_named_role && !candidate.named);
    if known.attention.reason == Reason::RoleMention && is_for_role && !was_answered(known) {
        known.mentions.clone_from(&draft.mentions);
        return Ok(());
    }
    let Some(member) = members::of(tx, draft.act.conversation, agent.into())? else { return Ok(()) };
    // Whom it is for, and what it answers, does not change.
    let to: Vec<&str> = declared["to"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_for_it = to.iter().any(|handle| handle.eq_ignore_ascii_case(&member.handle));
    let answered = said.target.map_or(Ok(None), |target| conversations::event_by_id(tx, target))?;
    let answers_it = answered.is_some_and(|answered| answered.author == agent.into());
    let candidate = Candidate {
        agent,
        handle: member.handle,
        named: is_for_it || found.as_ref().is_some_and(|found| found.named),
        // Who has answered may do so again.
        in_named_role: is_for_role && was_answered(known),
        owns_thread: found.as_ref().is_some_and(|found| found.owns_thread),
        participates: found.as_ref().is_some_and(|found| found.participates),
        last_in_thread: found.as_ref().is_some_and(|found| found.last_in_thread),
        said_target: answers_it,
        owns_stream: found.as_ref().is_some_and(|found| found.owns_stream),
    };
    let event = Event { names_somebody: event.names_somebody || !to.is_empty(), ..event };
    let mut all = Known::look_up(tx, draft, std::slice::from_ref(&candidate))?;
    (all.shows, all.answered) = (vec![shows], was_answered(known));
    if let Some(decided) = decide_each(&classify(event), &[candidate], &all).pop() {
        known.attention = decided.attention;
    }
    if to.is_empty() {
        known.mentions.clone_from(&draft.mentions);
    }
    Ok(())
}

/// What an agent was given, if it is not done with it.
fn open(tx: &mut dyn Tx, event: EventId, agent: AgentId, now: i64) -> Result<Option<Obligation>, StoreError> {
    let known = obligations::of(tx, event, agent, now)?;
    Ok(known.filter(|known| !disposing::is_over(known.disposition)))
}

/// A message was changed, which takes the place of these, or taken back, in this transaction.
pub fn remember(
    app: &AppState,
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    replaces: &[Obligation],
    changes: &[Obligation],
) -> Result<(), StoreError> {
    let now = draft.act.now;
    let asks_nothing = (Cause::Edited, "the message was changed, and asks nothing of you any more");
    match draft.kind {
        // The smaller inbox first, as everywhere: that is how they were found.
        DraftKind::Edit(target) => {
            for known in replaces {
                if is_delivered(known.attention.mode) {
                    supersede(tx, draft, target, known)?;
                } else {
                    withdraw(app, tx, known, asks_nothing, now)?;
                }
            }
            for known in changes {
                if is_delivered(known.attention.mode) {
                    let next_at = disposing::pending(known).next_step().map(|(_, at)| at.max(now));
                    obligations::change(tx, &Obligation { next_at, ..known.clone() })?;
                } else {
                    withdraw(app, tx, known, asks_nothing, now)?;
                }
            }
            Ok(())
        }
        DraftKind::Deletion(target) => take_back(app, tx, target, draft.act.now),
        DraftKind::Message(_) | DraftKind::Reaction(..) => Ok(()),
    }
}

fn take_back(app: &AppState, tx: &mut dyn Tx, target: EventId, now: i64) -> Result<(), StoreError> {
    for (event, agent) in obligations::of_message(tx, target, MAX_TOLD)? {
        if let Some(known) = open(tx, event, agent, now)? {
            withdraw(app, tx, &known, (Cause::Deleted, "the message was deleted"), now)?;
        }
    }
    Ok(())
}

/// What was given is nobody's any more.
fn withdraw(
    app: &AppState,
    tx: &mut dyn Tx,
    known: &Obligation,
    (cause, reason): (Cause, &str),
    now: i64,
) -> Result<(), StoreError> {
    disposing::record_passively(tx, known.event, known.id.agent, cause, now)?;
    tell_cancelled(app, tx, (known.id, known.event), reason, now)
}

/// Brings the change in place of what was given.
fn supersede(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    target: EventId,
    known: &Obligation,
) -> Result<(), StoreError> {
    let (act, agent) = (draft.act, known.id.agent);
    let id = DeliveryId { agent, seq: tx.next_seq(agent.0)? };
    let bringing = Bringing { mentions: &known.mentions, supersedes: Some(target), ..Bringing::FIRST };
    if conversation::deliver(tx, act, id, EntryKind::Chat, known.attention, bringing)?.is_some() {
        disposing::record_passively(tx, known.event, agent, Cause::Edited, act.now)?;
    }
    Ok(())
}
