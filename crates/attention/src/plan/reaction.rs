//! The plan of a reaction: it reaches the agent that wrote the message, if its harness tells reactions from messages.

use super::Effect;
use super::audience::{Candidate, EventRecipient};
use crate::capabilities::{Abilities, is_delivered};
use crate::decide::{Recipient, decide};
use crate::event::{Classified, Event, Happening, classify};
use chorus_protocol::attention::Attention;
use chorus_protocol::words::{AuthorKind, Intent, Signal};

/// Everything that the plan of a reaction needs.
#[derive(Debug)]
pub struct ReactionFacts<'a> {
    /// The reaction. `answers` is the intent of the message, if that is for the one that reacts.
    pub event: Event<'a>,
    /// The agent that wrote the message; nobody for a reaction that is removed.
    pub recipients: Vec<Candidate>,
}

pub(super) fn plan(facts: &ReactionFacts<'_>) -> Vec<Effect> {
    let event = classify(facts.event);
    let recipients = facts.recipients.iter().filter(|one| !one.is_excluded);
    let reached = recipients.filter_map(|one| {
        let attention = meaning(&event, one.abilities)?;
        let to = EventRecipient { agent: one.agent, handle: one.handle.clone(), attention };
        Some(Effect::Deliver { to, mentions: String::new(), claimed_until: None })
    });
    reached.collect()
}

/// Returns what the decision on a message that waited for approval means for its author: it ends the wait.
pub fn outcome(signal: Signal, abilities: Abilities) -> Option<Attention> {
    let happening = Happening::Reaction(signal);
    let answers = Some(Intent::ApprovalRequest);
    let event = Event { happening, author: AuthorKind::Human, answers, ..Event::EMPTY };
    meaning(&classify(event), abilities)
}

/// Returns what a reaction means for the author of the message; `None` if it is not delivered.
fn meaning(event: &Classified<'_>, abilities: Abilities) -> Option<Attention> {
    let decided = decide(event, &Recipient { said_target: true, ..Recipient::default() });
    let attention = Attention { mode: abilities.shows.fall_back(decided.mode), ..decided };
    (abilities.signals && is_delivered(attention.mode)).then_some(attention)
}
