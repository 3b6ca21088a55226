//! Taking an event that is for several, giving it back and being done with it: the claim, and what becomes of the event for who asked.
//!
//! Each function is part of a transaction that holds the conversation, as those of `claiming` are.

use super::claiming::{self, Offer, Standing};
use super::disposing::{self, Disposed};
use crate::error::Error;
use chorus_attention::claims::{Claim, Request};
use chorus_attention::disposition::Cause;
use chorus_protocol::ids::{ConversationId, EventId, Principal};
use chorus_protocol::words::ClaimState;
use chorus_store::Tx;
use chorus_store::conversation::Act;

/// An event that is for whoever takes it was said: somebody is asked first, or has taken it already.
pub fn offer(tx: &mut dyn Tx, act: &Act, offer: Option<Offer>) -> Result<(), Error> {
    let Some(Offer { first, taken }) = offer else { return Ok(()) };
    claiming::keep(tx, act.conversation, act.event, Claim::offered(Some(first), act.now), act.now)?;
    if taken {
        let take = Request::Take { ttl_ms: None };
        ask_and_dispose(tx, (act.conversation, act.event), first.into(), take, act.now)?;
    }
    Ok(())
}

/// Somebody wants something of the claim on an event: how that stands then, and what becomes of the event for whoever asked.
pub fn ask_and_dispose(
    tx: &mut dyn Tx,
    at: (ConversationId, EventId),
    who: Principal,
    request: Request,
    now: i64,
) -> Result<(Standing, Disposed), Error> {
    let standing = claiming::ask(tx, at, who, request, now)?;
    let cause = match request {
        Request::Take { .. } => Cause::Claimed,
        Request::Resolve => Cause::Resolved,
        Request::Release => Cause::ClaimEnded,
    };
    let until = (standing.state == ClaimState::Held).then_some(standing.until);
    let disposed = match who {
        Principal::Agent(agent) => disposing::record_of_message(tx, at.1, agent, cause, until, now)?,
        // Nothing is asked of people, so nothing becomes of it.
        Principal::Account(_) => None,
    };
    Ok((standing, disposed))
}
