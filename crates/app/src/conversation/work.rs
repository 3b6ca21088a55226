//! Reports that an agent works on events that it was given: its model was shown them, or it reports progress.
//!
//! Such a report claims an event that the agent must answer, or renews its claim, and moves the deadline. The
//! engine bounds this by the longest task of the channel.

use crate::attention::handle;
use chorus_attention::claims::Request;
use chorus_attention::disposition::Cause;
use chorus_attention::plan::{Effect, HandlingRequest};
use chorus_node::Error;
use chorus_protocol::ids::{AgentId, ConversationId, EventId};
use chorus_protocol::words::Disposition;
use chorus_store::attention::load_work;
use chorus_store::{Tx, obligations};

/// Records that an agent works on an event. Returns the message, and its conversation, if its claim changed.
pub fn go_on(
    tx: &mut dyn Tx,
    agent: AgentId,
    event: EventId,
    now: i64,
) -> Result<Option<(ConversationId, EventId)>, Error> {
    let Some(facts) = load_work(tx, event, agent, now)? else { return Ok(None) };
    let changed = (facts.handling.conversation, facts.handling.message);
    let (_, effects) = handle(tx, facts, now)?;
    let is_claimed = effects.iter().any(|effect| matches!(effect, Effect::SaveClaim { .. }));
    Ok(is_claimed.then_some(changed))
}

/// Records that an agent has ended its turn on an event without an answer. The claim that it got by the turn
/// ends; a claim that it took itself stays.
pub fn stop_work(tx: &mut dyn Tx, agent: AgentId, event: EventId, now: i64) -> Result<(), Error> {
    let Some(mut facts) = load_work(tx, event, agent, now)? else { return Ok(()) };
    let is_claimed =
        facts.handling.given.first().and_then(|given| given.disposition) == Some(Disposition::Claimed);
    if !is_claimed {
        return Ok(());
    }
    let begun_at = obligations::begun_at(tx, facts.handling.message, agent)?;
    let own = facts.handling.claim.filter(|claim| claim.holder(now) == Some(agent.into()));
    facts.request = match own.and_then(|claim| claim.held) {
        Some(held) if Some(held.since_ms) != begun_at => return Ok(()),
        Some(_) => HandlingRequest::Claim(Request::Release),
        None => HandlingRequest::Record { cause: Cause::ClaimEnded, until: None },
    };
    handle(tx, facts, now)?;
    Ok(())
}
