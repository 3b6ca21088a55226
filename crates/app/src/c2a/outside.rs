//! What an agent was handed that was said in no conversation of this hub: envelopes, posts of other services, work, digests.
//!
//! They are for this agent alone. It puts them off, says that they are done, or reacts, and that is what became of them; nobody
//! else sees a reaction, and there is nothing to claim. How they are answered is [`answering`](super::answering)'s business.

use super::harness::Harness;
use crate::app::App;
use crate::attention::{disposing, envelopes};
use crate::error::Error;
use crate::market::results;
use chorus_attention::disposition::Cause;
use chorus_protocol::c2a::CLAIM_TTL_MS;
use chorus_protocol::ids::{AgentId, EventId};
use chorus_protocol::words::{Disposition, EventKind, Signal};
use chorus_store::conversations::{self, Event, UNPLACED};
use chorus_store::{StoreError, Tx, obligations};
use std::sync::Arc;

/// Such an event, if it was brought to this agent.
pub(super) fn find(
    tx: &mut dyn Tx,
    agent: AgentId,
    event: EventId,
    now: i64,
) -> Result<Option<Event>, StoreError> {
    let Some(found) = conversations::event_by_id(tx, event)?.filter(|found| found.seq == UNPLACED) else {
        return Ok(None);
    };
    let is_for = match found.kind {
        EventKind::Envelope => envelopes::is_to(&found, agent),
        // Who posts is unknown: it is kept as the agent's own.
        EventKind::Foreign => found.author == agent.into(),
        // What became of a message that waited for a person belongs to the conversation that it waited in.
        EventKind::Reaction => false,
        _ => obligations::of(tx, event, agent, now)?.is_some(),
    };
    Ok(Some(found).filter(|_| is_for))
}

/// Something became of such an event, and why, if that is known.
pub(super) async fn dispose(
    harness: &Harness,
    event: EventId,
    cause: Cause,
    why: Option<String>,
) -> Result<Option<Disposition>, Error> {
    let (agent, now) = (harness.agent(), harness.app.now());
    let until = match cause {
        Cause::Reacted(Signal::Working | Signal::Claimed) => Some(now + CLAIM_TTL_MS),
        _ => None,
    };
    let app = Arc::clone(&harness.app);
    let work = move |tx: &mut dyn Tx| record(tx, &app, (event, agent), cause, (until, why.as_deref()), now);
    harness.app.store.write::<_, Error, _>(work).await
}

/// What an agent made of an event, and why: a job that it will not do, or could not, fails at once.
pub(super) fn record(
    tx: &mut dyn Tx,
    app: &App,
    (event, agent): (EventId, AgentId),
    cause: Cause,
    (until, why): (Option<i64>, Option<&str>),
    now: i64,
) -> Result<Option<Disposition>, Error> {
    let gives_up = matches!(cause, Cause::Reacted(Signal::Declined) | Cause::Noticed(Disposition::Failed));
    // Before anything of the inbox: the end of a job moves money. What became of it is noted with that.
    let disposed = if gives_up && results::given_up(tx, app, agent, event, why)? {
        Some(Disposition::Failed)
    } else {
        disposing::record(tx, event, agent, cause, until, now)?
    };
    disposing::explain(tx, event, agent, why, now)?;
    Ok(disposed)
}
