//! Loads the facts of an edit and of a deletion: the versions that agents were given.

use super::audience::{audience, event_of, load_candidates, load_exchange};
use super::handling::claim_on;
use super::stored_message::StoredMessage;
use crate::conversation::Draft;
use crate::members::{self, MembershipInterval};
use crate::{StoreError, Tx, blocks, claims, conversations, inboxes, log, obligations};
use chorus_attention::capabilities::Abilities;
use chorus_attention::obligation::Obligation;
use chorus_attention::plan::{Candidate, EditFacts, Version};
use chorus_attention::{Event, Happening};
use chorus_protocol::ids::{AgentId, EventId};
use chorus_protocol::words::{Disposition, EventKind};

/// The most agents that an edit or a deletion is told.
const MAX_TOLD: i64 = 200;

pub(super) fn load_edit<'a>(
    tx: &mut dyn Tx,
    draft: &'a Draft<'_>,
    target: EventId,
) -> Result<EditFacts<'a>, StoreError> {
    let said = conversations::event_by_id(tx, target)?
        .ok_or_else(|| StoreError::unexpected("an edit of no message"))?;
    let declared = StoredMessage::read(&said.body)?;
    let answered = said.target.map_or(Ok(None), |target| conversations::event_by_id(tx, target))?;
    let (mut given, mut versions) = (vec![], vec![]);
    for (event, agent) in obligations::of_message(tx, target, MAX_TOLD)? {
        let known = obligations::of(tx, event, agent, draft.act.now)?;
        let abilities = Abilities::of_words(inboxes::shows(tx, agent, draft.act.now)?.as_deref());
        // An agent of which an earlier edit asked nothing more may be asked again: by an edit, or by the message itself.
        if known.as_ref().is_some_and(was_withdrawn) && !abilities.shows.notify {
            continue;
        }
        given.push(agent);
        let Some(known) = known.filter(is_concerned) else { continue };
        // An escalation stays what it is, whatever the message says.
        if event != target && !is_edit(tx, event)? {
            continue;
        }
        let Some(member) = members::of(tx, draft.act.conversation, agent.into())? else { continue };
        if blocks::keeps_out(tx, agent.into(), draft.act.author)? {
            continue;
        }
        let answers_it = answered.as_ref().is_some_and(|answered| answered.author == agent.into());
        let candidate = relation(draft, agent, member.handle, &declared.recipients(), answers_it);
        versions.push(Version { obligation: known, candidate: Candidate { abilities, ..candidate } });
    }
    let candidates = newly_named(tx, draft, target, said.seq, &given)?;
    let candidates = load_candidates(tx, draft, candidates)?;
    let thread_claim = claim_on(tx, draft.thread)?;
    // Only the text of a message changes, not what its author declared.
    let event = declared.declared(Event { happening: Happening::Edit, ..event_of(draft)? });
    let has_recipients = !declared.recipients().is_empty();
    let audience = audience(draft, event, candidates, thread_claim);
    let mut facts = EditFacts { audience, versions, has_recipients };
    let partners = facts.partners(draft.act.now);
    if !partners.is_empty() {
        facts.audience.exchange = Some(load_exchange(tx, draft, &partners)?);
    }
    Ok(facts)
}

/// Returns `true` if an edit concerns an agent: it is not done with the message, has answered it, or was asked nothing any more.
fn is_concerned(known: &Obligation) -> bool {
    !known.is_over() || known.was_answered() || was_withdrawn(known)
}

fn was_withdrawn(known: &Obligation) -> bool {
    known.disposition == Some(Disposition::Superseded)
}

fn is_edit(tx: &mut dyn Tx, event: EventId) -> Result<bool, StoreError> {
    Ok(conversations::event_by_id(tx, event)?.is_some_and(|event| event.kind == EventKind::Edit))
}

/// Returns the relation of an agent to an edited message. The recipients that it was addressed to, and what it answers, stay.
fn relation(
    draft: &Draft<'_>,
    agent: AgentId,
    handle: String,
    recipients: &[&str],
    answers_it: bool,
) -> Candidate {
    let found = draft.candidates.iter().find(|candidate| candidate.agent == agent);
    let is_recipient = recipients.iter().any(|one| one.eq_ignore_ascii_case(&handle));
    let candidate = found.cloned().unwrap_or_else(|| Candidate::new(agent, handle.clone()));
    Candidate {
        handle,
        in_named_role: candidate.in_named_role && !candidate.named,
        named: candidate.named || is_recipient,
        said_target: answers_it,
        ..candidate
    }
}

/// Returns the agents that an edit names, that were given nothing of the message, and that may read it. The member of a role that
/// is asked is settled once.
fn newly_named(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    message: EventId,
    seq: i64,
    given: &[AgentId],
) -> Result<Vec<Candidate>, StoreError> {
    let is_settled = claims::of(tx, message)?.is_some();
    let mut named = vec![];
    for candidate in draft.candidates.iter().filter(|candidate| !given.contains(&candidate.agent)) {
        let in_named_role = candidate.in_named_role && !is_settled;
        if !candidate.named && !in_named_role {
            continue;
        }
        // An agent that came later may not read the message, and could not answer it.
        let stays = log::readable(tx, &draft.conversation, candidate.agent.into())?;
        if MembershipInterval::any_holds(&stays, seq) {
            named.push(Candidate { in_named_role, ..candidate.clone() });
        }
    }
    Ok(named)
}

/// Loads the versions of a message that is about to be deleted.
pub(super) fn load_deletion(
    tx: &mut dyn Tx,
    target: EventId,
    now: i64,
) -> Result<Vec<Obligation>, StoreError> {
    let mut given = vec![];
    for (event, agent) in obligations::of_message(tx, target, MAX_TOLD)? {
        given.extend(obligations::of(tx, event, agent, now)?);
    }
    Ok(given)
}
