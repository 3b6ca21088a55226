//! The plan of a message: whether its author may say it, whom it reaches, and what it settles.

use super::audience::Audience;
use super::reply::{self, ReplyFacts};
use super::stop::{self, StopFacts};
use super::{Effect, PlanRefusal};
use crate::claims::Claim;
use chorus_protocol::ids::{AgentId, Principal};
use chorus_protocol::words::AuthorKind;

/// Everything that the plan of a message needs.
#[derive(Debug)]
pub struct MessageFacts<'a> {
    pub audience: Audience<'a>,
    pub reply: ReplyFacts,
    /// Loaded for a message that stops work if its author may. Its candidates with [`super::Candidate::is_stopped`] are the
    /// agents whose work ends.
    pub stop: Option<StopFacts>,
    /// The message is checked and not posted now: it waits for a person's approval, or is shown without being stored.
    pub only_checked: bool,
}

impl MessageFacts<'_> {
    /// Returns the agents that the message wakes and whose exchanges with its author the loop guard has to look at.
    pub fn partners(&self, now: i64) -> Vec<AgentId> {
        let taken = self.check(now);
        taken.map_or(vec![], |taken| self.audience.partners(self.thread_holder(taken, now)))
    }

    fn check(&self, now: i64) -> Result<Option<Claim>, PlanRefusal> {
        let event = &self.audience.event;
        reply::check(&self.reply, event.text, event.names_somebody, now)
    }

    /// Returns the holder of the claim on the thread. The reply itself may have taken it.
    fn thread_holder(&self, taken: Option<Claim>, now: i64) -> Option<Principal> {
        let taken = taken.filter(|_| match &self.reply {
            ReplyFacts::Message { answered, .. } => self.audience.thread == Some(answered.message),
            _ => false,
        });
        self.audience.holder(taken.or(self.audience.thread_claim).as_ref(), now)
    }
}

pub(super) fn plan(facts: &MessageFacts<'_>, now: i64) -> Result<Vec<Effect>, PlanRefusal> {
    let taken = facts.check(now)?;
    if facts.only_checked {
        return Ok(match (&facts.reply, taken) {
            (ReplyFacts::Message { answered, .. }, Some(claim)) => {
                vec![Effect::save_claim(facts.audience.conversation, answered.message, claim, now)]
            }
            _ => vec![],
        });
    }
    let mut effects = facts.audience.reach(facts.thread_holder(taken, now), now).effects;
    match facts.audience.event.author {
        AuthorKind::Human => effects.push(Effect::ResetTurns),
        AuthorKind::Agent => effects.extend(Effect::count_turns(&effects)),
        AuthorKind::System => {}
    }
    if let Some(stop) = &facts.stop {
        effects.extend(stop::effects(stop, now));
    }
    effects.extend(reply::effects(&facts.reply, facts.audience.conversation, taken, now)?);
    Ok(effects)
}
