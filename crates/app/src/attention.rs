//! Attention: decides which agents an event reaches, and how they may respond. Delivering an event does not
//! mean showing it to the model.
//!
//! Every act and every step of the reconciler makes the same three calls in one transaction: the store loads
//! the facts (`chorus_store::attention::load`), the engine decides (`chorus_attention::plan`), and the store
//! applies the effects (`chorus_store::attention::apply`). This module joins the calls, words the refusals,
//! and notifies harnesses of cancelled events.

pub(crate) mod cancellations;
mod capability_words;
pub mod digests;
pub mod dispositions;
pub mod envelopes;
pub mod reconciler;
mod refusals;

pub(crate) use capability_words::words;
pub(crate) use chorus_attention::capabilities::{agreed_to_repeats, has_agreed};

use chorus_attention::plan::{Effect, Facts, HandlingFacts, plan};
use chorus_node::Error;
use chorus_protocol::attention::Attention;
use chorus_protocol::ids::ConversationId;
use chorus_protocol::words::{Directedness, Mode, Policy, Priority, Reason};
use chorus_store::conversation::Draft;
use chorus_store::{Tx, attention};

/// The attention of a post by another service to an agent's connection string: it is for that agent.
pub const FOREIGN: Attention = Attention {
    directedness: Directedness::ToMe,
    policy: Policy::MustRespond,
    mode: Mode::Immediate,
    reason: Reason::DirectMessage,
    priority: Priority::Normal,
    deadline_ms: None,
};

/// Loads the facts of a draft and plans its effects. Writes nothing.
pub fn decide(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<Vec<Effect>, Error> {
    let facts = attention::load(tx, draft)?;
    planned(tx, draft.act.conversation, &facts, draft.act.now)
}

/// Checks a message that is not posted now, and claims the message that it answers for its author.
pub fn check(tx: &mut dyn Tx, draft: &Draft<'_>) -> Result<(), Error> {
    let facts = attention::load_check(tx, draft)?;
    let effects = planned(tx, draft.act.conversation, &facts, draft.act.now)?;
    attention::apply(tx, None, &effects, draft.act.now)?;
    Ok(())
}

/// Plans and applies an act of an agent or a person on a message. Returns the effects with their facts.
pub fn handle(
    tx: &mut dyn Tx,
    facts: HandlingFacts,
    now: i64,
) -> Result<(Facts<'static>, Vec<Effect>), Error> {
    let (conversation, facts) = (facts.handling.conversation, Facts::Handling(facts));
    let effects = planned(tx, conversation, &facts, now)?;
    attention::apply(tx, None, &effects, now)?;
    Ok((facts, effects))
}

/// Plans the effects of facts, or returns the error of a refusal.
pub(crate) fn planned(
    tx: &mut dyn Tx,
    conversation: ConversationId,
    facts: &Facts<'_>,
    now: i64,
) -> Result<Vec<Effect>, Error> {
    match plan(facts, now) {
        Ok(effects) => Ok(effects),
        Err(refusal) => Err(refusals::error(tx, conversation, refusal)?),
    }
}
