//! The plan of an edit and of a deletion: what becomes of the versions that agents were given, and whom the edit reaches anew.
//!
//! A harness gets an edit under its own id, in place of the version that it has, also when it comes back later. An agent without a
//! C2A session reads the message where it is. An agent that has answered is knocked: it may answer again. If the message asks nothing
//! of an agent any more, its version is cancelled. Agents that the edit names for the first time are given the message.

use super::Effect;
use super::audience::{Audience, Candidate, decide_each};
use super::handling::record_passively;
use crate::capabilities::is_delivered;
use crate::disposition::Cause;
use crate::event::{Event, classify};
use crate::obligation::Obligation;
use chorus_protocol::ids::{AgentId, Principal};
use chorus_protocol::words::{AuthorKind, Reason};

const ASKS_NOTHING: &str = "the message was changed, and asks nothing of you any more";
const DELETED: &str = "the message was deleted";

/// Everything that the plan of an edit needs.
#[derive(Debug)]
pub struct EditFacts<'a> {
    /// The edited message, and the agents that it names and that were not given it.
    pub audience: Audience<'a>,
    /// The versions that agents were given and that the edit concerns, by the ids of the agents.
    pub versions: Vec<Version>,
    /// The message says besides its text whom it is for. An edit does not change that.
    pub has_recipients: bool,
}

/// A version of a message that an agent was given.
#[derive(Debug)]
pub struct Version {
    pub obligation: Obligation,
    /// The agent's relation to the edited message. `in_named_role` is set if the edit names a role of the agent and not the
    /// agent itself.
    pub candidate: Candidate,
}

impl Version {
    /// Returns `true` if the harness is sent edits under their own ids.
    fn gets_edits(&self) -> bool {
        self.candidate.abilities.shows.notify
    }
}

impl EditFacts<'_> {
    /// Returns the agents that the edit wakes and whose exchanges with its author the loop guard has to look at.
    pub fn partners(&self, now: i64) -> Vec<AgentId> {
        if self.audience.event.author != AuthorKind::Agent {
            return vec![];
        }
        let holder = self.audience.holder(self.audience.thread_claim.as_ref(), now);
        let revised = self.revised(holder).into_iter();
        let told = revised.filter(|(revised, gets_edits)| *gets_edits && is_told(revised));
        let told = told.map(|(revised, _)| revised.id.agent);
        self.audience.partners(holder).into_iter().chain(told).collect()
    }

    /// Returns the versions with what the message means by now, and whether the agent gets edits.
    fn revised(&self, holder: Option<Principal>) -> Vec<(Obligation, bool)> {
        self.versions.iter().map(|version| (self.revise(version, holder), version.gets_edits())).collect()
    }

    /// Decides anew for an agent, as if the message were posted with this text. The member of a role that is asked does not change.
    fn revise(&self, version: &Version, holder: Option<Principal>) -> Obligation {
        let (known, candidate) = (&version.obligation, &version.candidate);
        let mut revised = known.clone();
        let is_asked_by_role = known.attention.reason == Reason::RoleMention && candidate.in_named_role;
        if is_asked_by_role && !known.was_answered() {
            revised.mentions.clone_from(&self.audience.mentions);
            return revised;
        }
        // An agent that has answered may do so again.
        let in_named_role = candidate.in_named_role && known.was_answered();
        let candidate = [Candidate { in_named_role, ..candidate.clone() }];
        let names_somebody = self.audience.event.names_somebody || self.has_recipients;
        let event = classify(Event { names_somebody, ..self.audience.event });
        if let Some(decided) = decide_each(&event, &candidate, None, holder, known.was_answered()).pop() {
            revised.attention = decided.attention;
        }
        if !self.has_recipients {
            revised.mentions.clone_from(&self.audience.mentions);
        }
        revised
    }
}

/// Returns `true` if an agent that gets edits is told of this one. An agent that is done with the message, and is asked nothing,
/// is left alone.
fn is_told(revised: &Obligation) -> bool {
    !revised.is_over() || is_delivered(revised.attention.mode)
}

pub(super) fn plan(facts: &EditFacts<'_>, now: i64) -> Vec<Effect> {
    let audience = &facts.audience;
    let holder = audience.holder(audience.thread_claim.as_ref(), now);
    let reach = audience.reach(holder, now);
    let mut effects = reach.effects;
    for (version, gets_edits) in facts.revised(holder) {
        let asks = is_delivered(version.attention.mode);
        match (gets_edits, asks) {
            _ if reach.damped.contains(&version.id.agent) => {}
            (true, true) => effects.push(Effect::Supersede(version)),
            _ if version.is_over() => {}
            (false, true) => {
                let next_at = version.pending().next_step().map(|(_, at)| at.max(now));
                effects.push(Effect::Revise(Obligation { next_at, ..version }));
            }
            (_, false) => withdraw(version, Cause::Edited, ASKS_NOTHING, gets_edits, now, &mut effects),
        }
    }
    if audience.event.author == AuthorKind::Agent {
        effects.extend(Effect::count_turns(&effects));
    }
    effects
}

/// Every version that an agent is not done with is withdrawn.
pub(super) fn plan_deletion(given: &[Obligation], now: i64) -> Vec<Effect> {
    let mut effects = vec![];
    for known in given.iter().filter(|known| !known.is_over()) {
        withdraw(known.clone(), Cause::Deleted, DELETED, false, now, &mut effects);
    }
    effects
}

fn withdraw(
    known: Obligation,
    cause: Cause,
    reason: &'static str,
    wakes: bool,
    now: i64,
    effects: &mut Vec<Effect>,
) {
    record_passively(&known, &mut None, cause, now, effects);
    effects.push(Effect::Cancel { obligation: known, reason, wakes });
}
