//! Events from outside the conversations of this hub, delivered to one agent: envelopes, posts of other
//! services, jobs and digests.
//!
//! Only this agent has them. It defers or resolves them, or reacts, and that is their disposition. Nobody else
//! sees the reaction, and there is nothing to claim. Answers are in [`answering`](super::answering).

use super::harness::Harness;
use crate::attention::{dispositions, envelopes};
use crate::market::declines;
use chorus_attention::disposition::Cause;
use chorus_node::App;
use chorus_node::Error;
use chorus_protocol::c2a::CLAIM_TTL_MS;
use chorus_protocol::ids::{AgentId, EventId};
use chorus_protocol::words::{Disposition, EventKind, Signal};
use chorus_store::conversations::{self, Event, UNPLACED};
use chorus_store::{StoreError, Tx, obligations};
use std::sync::Arc;

/// Returns such an event if it was delivered to this agent.
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
        // The poster is unknown, so the post is stored under the agent itself.
        EventKind::Foreign => found.author == agent.into(),
        // The decision about a message that awaited approval belongs to the conversation of the message.
        EventKind::Reaction => false,
        _ => obligations::of(tx, event, agent, now)?.is_some(),
    };
    Ok(Some(found).filter(|_| is_for))
}

/// Records the disposition of such an event, with a reason if one was given.
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
    let work = move |tx: &mut dyn Tx| {
        let report = DispositionReport { event, agent, cause, until, why: why.as_deref() };
        record(tx, &app, &report, now)
    };
    harness.app.store.write::<_, Error, _>(work).await
}

/// An agent's report about an event from outside.
pub(super) struct DispositionReport<'a> {
    pub(super) event: EventId,
    pub(super) agent: AgentId,
    pub(super) cause: Cause,
    /// The end of the time that it takes for the event.
    pub(super) until: Option<i64>,
    pub(super) why: Option<&'a str>,
}

/// Records the disposition of an event and its reason. A job that the agent declines or could not do fails at
/// once.
pub(super) fn record(
    tx: &mut dyn Tx,
    app: &App,
    &DispositionReport { event, agent, cause, until, why }: &DispositionReport<'_>,
    now: i64,
) -> Result<Option<Disposition>, Error> {
    let declines = cause == Cause::Reacted(Signal::Declined);
    let gives_up = declines || cause == Cause::Noticed(Disposition::Failed);
    // This precedes any change of the inbox, because the end of a job moves credits. The job records its own
    // disposition.
    let disposed = if gives_up && declines::give_up(tx, app, agent, event, declines, why)? {
        Some(Disposition::Failed)
    } else {
        dispositions::record(tx, event, agent, cause, until, now)?
    };
    dispositions::explain(tx, event, agent, why, now)?;
    Ok(disposed)
}
