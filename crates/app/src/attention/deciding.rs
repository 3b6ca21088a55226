//! What something that is said means for each agent that it may concern: what is known of all of them together, what the engine
//! decides for each, and who is asked first of several.

use super::claiming::{self, Offer};
use super::earlier::Earlier;
use super::loop_guard;
use super::ways::{WITHOUT_KNOCKS, is_delivered, shows};
use chorus_attention::capabilities::Capabilities;
use chorus_attention::claims::{Responder, first_of};
use chorus_attention::loop_guard::Loop;
use chorus_attention::{AuthorKind, Classified, Event, Happening, classify};
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::{AgentId, Principal};
use chorus_protocol::words::{Directedness, Intent, Mode, Policy, Priority, Reason};
use chorus_store::conversation::{self, Candidate, Draft, Reach, Recipient};
use chorus_store::obligations::Obligation;
use chorus_store::{StoreError, Tx, directory, obligations};

/// More than this nobody has to do, as far as it matters who is asked first.
const MOST_LOAD: i64 = 1000;

/// Whom a draft reaches, and who is asked first if it is for whoever takes it.
#[derive(Debug, Default)]
pub struct Decided {
    pub reach: Reach,
    pub offer: Option<Offer>,
    /// What a change takes the place of, by agent.
    pub replaces: Vec<Obligation>,
    /// What a change means for agents that find it as it stands, and are not brought it.
    pub changes: Vec<Obligation>,
    /// It goes on with a loop, and wakes nobody because of that.
    pub stopped: Option<Loop>,
}

impl Decided {
    /// Whether it comes to anybody. Everybody else finds it.
    pub fn wakes(&self) -> bool {
        !self.reach.recipients.is_empty() || !self.replaces.is_empty()
    }
}

/// What a message, as it stands after a change, is to those who have it.
#[derive(Default)]
pub(super) struct Changed {
    /// Whom the change is brought.
    pub(super) replaces: Vec<Obligation>,
    /// Who finds it.
    pub(super) found: Vec<Obligation>,
}

/// Whom something reaches that is said, or changed to say it in place of what agents have.
pub(super) fn decide_said(
    tx: &mut dyn Tx,
    draft: &Draft<'_>,
    mut event: Event<'_>,
    candidates: &[Candidate],
    mut changed: Changed,
) -> Result<Decided, StoreError> {
    let known = Known::look_up(tx, draft, candidates)?;
    let mut decided = decide_each(&classify(event), candidates, &known);
    // Who wakes nobody goes on with nothing.
    let wakes = !changed.replaces.is_empty() || decided.iter().any(|one| is_delivered(one.attention.mode));
    let asks = wakes && event.author == AuthorKind::Agent;
    let stopped = if asks { loop_guard::look_for_loop(tx, draft)? } else { None };
    if stopped.is_some() {
        event.damped = true;
        changed = Changed::default();
        decided = decide_each(&classify(event), candidates, &known);
    }
    let (delivered, found): (Vec<_>, Vec<_>) =
        decided.into_iter().partition(|one| is_delivered(one.attention.mode));
    // Bystanders find it too; they are not told of one by one.
    let found = found.into_iter().filter(|one| one.attention.directedness == Directedness::ToMe);
    let reach = conversation::reach(tx, draft.act.author, delivered, found.collect())?;
    let asked = reach.recipients.iter().find(|one| Some(one.agent) == known.first);
    let offer = asked.filter(|one| is_for_several(one.attention.reason));
    let offer = offer.map(|one| Offer { first: one.agent, taken: one.attention.mode != Mode::Notify });
    let Changed { replaces, found: changes } = changed;
    Ok(Decided { reach, offer, replaces, changes, stopped })
}

/// Whether something is for whoever takes it.
pub(super) fn is_for_several(reason: Reason) -> bool {
    matches!(reason, Reason::RoleMention | Reason::StreamOwner)
}

/// What is known of all candidates together.
#[derive(Default)]
pub(super) struct Known {
    /// Who of a named role, or of the owners of a stream, is asked first.
    pub(super) first: Option<AgentId>,
    /// Who holds the claim on the thread.
    pub(super) holder: Option<Principal>,
    /// What the way to each candidate shows, in their order; without knocks where nothing is said.
    pub(super) shows: Vec<Capabilities>,
    /// They have answered what this changes.
    pub(super) answered: bool,
}

impl Known {
    pub(super) fn look_up(
        tx: &mut dyn Tx,
        draft: &Draft<'_>,
        candidates: &[Candidate],
    ) -> Result<Self, StoreError> {
        let now = draft.act.now;
        let mut known = Self::default();
        if let Some(thread) = draft.thread {
            // A person who has taken it on and goes on with it speaks to whoever takes part.
            let holder = claiming::holder(tx, thread, now)?;
            known.holder = holder.filter(|holder| holder.agent().is_some() || *holder != draft.act.author);
        }
        for candidate in candidates {
            known.shows.push(shows(tx, candidate.agent, now)?);
        }
        let asked = if candidates.iter().any(is_asked_by_role) {
            candidates.iter().filter(|candidate| is_asked_by_role(candidate)).collect()
        } else {
            known.owners_to_ask(draft, candidates)
        };
        known.first = first_responder(tx, &asked, now)?;
        Ok(known)
    }

    /// Of several owners of a stream whom nothing else concerns one is asked first, of those that can be knocked. One alone is
    /// knocked without being offered anything.
    fn owners_to_ask<'a>(&self, draft: &Draft<'_>, candidates: &'a [Candidate]) -> Vec<&'a Candidate> {
        let owns = |(one, shows): &(&Candidate, &Capabilities)| {
            let takes_part = one.owns_thread || one.participates || one.last_in_thread;
            one.owns_stream && !one.named && shows.notify && !(draft.thread.is_some() && takes_part)
        };
        let owners: Vec<_> = candidates.iter().zip(&self.shows).filter(owns).map(|(one, _)| one).collect();
        if draft.names_somebody || owners.len() < 2 { vec![] } else { owners }
    }
}

fn is_asked_by_role(candidate: &Candidate) -> bool {
    candidate.in_named_role && !candidate.named
}

/// Who of several is asked first: who can be reached, has the least to do, and waits longest for something.
fn first_responder(
    tx: &mut dyn Tx,
    candidates: &[&Candidate],
    now: i64,
) -> Result<Option<AgentId>, StoreError> {
    let mut agents = vec![];
    for candidate in candidates {
        if let Some(agent) = directory::by_id(tx, candidate.agent)? {
            agents.push(agent);
        }
    }
    choose(tx, &agents, now)
}

/// Whom of several something is offered to first.
pub(super) fn choose(
    tx: &mut dyn Tx,
    agents: &[directory::Agent],
    now: i64,
) -> Result<Option<AgentId>, StoreError> {
    let mut responders = vec![];
    for agent in agents {
        let (load, active_at_ms) = obligations::load(tx, agent.id, MOST_LOAD)?;
        let load = u32::try_from(load).unwrap_or(u32::MAX);
        let can_be_reached = agent.open_until > now
            || agent.harness.is_some()
            || agent.endpoint.is_some()
            || agent.working_connection().is_some();
        let responder = Responder { agent: agent.id, address: &agent.name, load, active_at_ms };
        let takes_work = agent.disabled_at.is_none() && agent.paused_at.is_none();
        responders.push((can_be_reached && takes_work, responder));
    }
    let reached: Vec<_> = responders.iter().filter(|(reached, _)| *reached).map(|(_, one)| *one).collect();
    let all = || responders.iter().map(|(_, one)| *one).collect::<Vec<_>>();
    Ok(first_of(&if reached.is_empty() { all() } else { reached }))
}

/// A draft of a message, as the engine reads it.
pub(super) fn message<'a>(draft: &'a Draft<'_>) -> Result<Event<'a>, StoreError> {
    let body = &*draft.body;
    let answers = draft.answers.as_ref().map(|answered| Earlier::read(&answered.body)).transpose()?;
    Ok(Event {
        happening: Happening::Message,
        conversation: draft.conversation.kind,
        in_thread: draft.thread.is_some(),
        author: match draft.act.author {
            Principal::Account(_) => AuthorKind::Human,
            Principal::Agent(_) => AuthorKind::Agent,
        },
        author_leads: draft.author_leads,
        text: body.text("content"),
        names_somebody: draft.names_somebody,
        intent: Intent::parse(body.text("intent")),
        directedness: Directedness::parse(body.text("directedness")),
        priority: Priority::parse(body.text("priority")),
        deadline_ms: body.integer("deadline_ms"),
        answers: answers.map(|answered| answered.intent()),
        damped: false,
    })
}

/// What the engine decides for each, and how that is shown by the way to it.
pub(super) fn decide_each(event: &Classified<'_>, candidates: &[Candidate], all: &Known) -> Vec<Recipient> {
    // What answers an agent is for that one; what a person adds to a thread, for whoever it was about last. An agent that
    // answers somebody else has nothing to say to the others there.
    let answers_agent = candidates.iter().any(|candidate| candidate.said_target);
    let by_person = event.event.author == AuthorKind::Human;
    let decided = candidates.iter().enumerate().map(|(place, candidate)| {
        let is_next = by_person && candidate.last_in_thread;
        let known = chorus_attention::Recipient {
            named: candidate.named,
            in_named_role: candidate.in_named_role,
            offered_to_other: all.first.is_some_and(|first| first != candidate.agent),
            holds_claim: all.holder == Some(candidate.agent.into()),
            claimed_by_other: all.holder.is_some_and(|holder| holder != candidate.agent.into()),
            owns_thread: candidate.owns_thread,
            participates: candidate.participates,
            owns_stream: candidate.owns_stream,
            answered: all.answered,
            asked_in_thread: if answers_agent { candidate.said_target } else { is_next },
            ..chorus_attention::Recipient::default()
        };
        let attention = chorus_attention::decide(event, &known);
        let shows = all.shows.get(place).copied().unwrap_or(WITHOUT_KNOCKS);
        let mode = match shows.fall_back(attention.mode) {
            // Where there are no knocks, whoever is asked first is shown all of it, and has taken it. So is whom a person goes
            // on with in a thread.
            Mode::ToolMailbox
                if attention.mode == Mode::Notify
                    && match attention.reason {
                        Reason::RoleMention => true,
                        Reason::ThreadParticipation => known.is_meant(event.event.author),
                        _ => false,
                    } =>
            {
                shows.fall_back(Mode::Buffered)
            }
            // Nothing keeps an agent from answering what it is sent yet, or two would go on telling each other to stop.
            Mode::Immediate | Mode::Buffered if attention.policy == Policy::MustNotRespond => {
                Mode::ToolMailbox
            }
            mode => mode,
        };
        let attention = Attention { mode, ..attention };
        Recipient { agent: candidate.agent, handle: candidate.handle.clone(), attention }
    });
    decided.collect()
}

#[cfg(test)]
mod tests;
