//! Notifications of a harness: events injected into a turn of its model, dispositions, progress, typing and
//! log messages.
//!
//! A notification about an event that the agent was not given has no effect.

use super::harness::{Harness, read};
use super::{outside, refusing};
use crate::attention::envelopes;
use crate::conversation;
use chorus_attention::disposition::Cause;
use chorus_node::telemetry::tool_log;
use chorus_node::{App, Error, Refused};
use chorus_protocol::c2a::{Cancelled, Disposed, Injected, Method, Progress, RefusalCode, Typing, WireId};
use chorus_protocol::ids::{AgentId, ConversationId, EventId, JobId};
use chorus_protocol::rpc::RpcError;
use chorus_protocol::words::{Disposition, Signal};
use chorus_store::market::jobs;
use chorus_store::obligations::Obligation;
use chorus_store::{StoreError, Tx, conversations, members, obligations};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The longest progress text, in characters.
const MAX_PROGRESS: usize = 500;

/// Handles a notification. The error is only for the log, because notifications have no answer.
pub async fn tell(harness: &Harness, method: &str, params: Map<String, Value>) -> Result<(), RpcError> {
    let (method, can) = (Method::parse(method), harness.can.utilities);
    let agreed = match method {
        Some(Method::Progress) => can.progress,
        Some(Method::Cancelled) => can.cancellation,
        Some(Method::Log) => can.logging,
        _ => true,
    };
    if !agreed {
        return Err(RpcError::params("this was not agreed on: ask for it in the utilities of initialize"));
    }
    let told = match method {
        Some(Method::Injected) => injected(harness, read(params)?).await,
        Some(Method::Disposition) => disposed(harness, read(params)?).await,
        Some(Method::Progress) => progress(harness, read(params)?).await,
        Some(Method::Typing) => typing(harness, read(params)?).await,
        Some(Method::Cancelled) => {
            read::<Cancelled>(params)?;
            Ok(())
        }
        Some(Method::Log) => {
            let (id, agent, message) = (harness.app.environment.uuid_v7(), harness.agent(), read(params)?);
            if !harness.app.telemetry.harness_log.note(id, agent, &message) {
                tracing::debug!(%agent, "a harness says more than is kept");
            }
            Ok(())
        }
        // Notifications of newer versions are ignored.
        _ => Ok(()),
    };
    told.map_err(|error| refusing::rpc(&error))
}

async fn injected(harness: &Harness, told: Injected) -> Result<(), Error> {
    let (agent, now) = (harness.agent(), harness.app.now());
    let events: Vec<EventId> = told.event_ids.iter().filter_map(WireId::event).collect();
    let note = move |tx: &mut dyn Tx| {
        let (mut known, mut claimed) = (0, vec![]);
        for event in &events {
            // The claim holds the conversation, so it precedes the note in the delivery.
            if outside::find(tx, agent, *event, now)?.is_none() {
                claimed.extend(conversation::go_on(tx, agent, *event, now)?);
            }
            let given = obligations::inject(tx, *event, agent, now)?
                || (envelopes::take_in(tx, *event, agent, now)?.is_some()
                    && obligations::inject(tx, *event, agent, now)?);
            known += u64::from(given);
        }
        Ok((known, claimed))
    };
    let (injected, claimed) = harness.app.store.write::<_, Error, _>(note).await?;
    harness.app.telemetry.metrics.injected.inc_by(injected);
    for (place, message) in claimed {
        conversation::tell_attention(&harness.app, place, message);
    }
    Ok(())
}

async fn disposed(harness: &Harness, told: Disposed) -> Result<(), Error> {
    let (agent, now) = (harness.agent(), harness.app.now());
    let Some(event) = told.event_id.event() else { return Ok(()) };
    let (cause, why) = (Cause::Noticed(told.disposition), told.reason);
    let app = Arc::clone(&harness.app);
    let record = move |tx: &mut dyn Tx| {
        if !enters(tx, event, agent, now)? {
            return Ok(None);
        }
        let before = obligations::disposition(tx, event, agent)?;
        let report = outside::DispositionReport { event, agent, cause, until: None, why: why.as_deref() };
        let after = outside::record(tx, &app, &report, now)?;
        if after != before && outside::find(tx, agent, event, now)?.is_none() {
            show_end(tx, &app, &report, after, now)?;
        }
        Ok(after)
    };
    let recorded = harness.app.store.write::<_, Error, _>(record).await;
    // A disposition that policy forbids is not recorded. Nobody waits for an answer, so the attempt goes to
    // the tool log.
    if let Err(error) = &recorded
        && error.refused == Some(Refused::Policy)
    {
        let about = tool_log::About { conversation: None, event: Some(event) };
        let (caller, code) = (("c2a", agent.into()), RefusalCode::PolicyForbidden);
        harness.app.telemetry.tool_log.note(
            harness.app.environment.uuid_v7(),
            caller,
            Method::Disposition.as_str(),
            about,
            code.as_str(),
        );
    }
    recorded.map(drop)
}

/// Shows in the conversation of an event that the agent is done with it: its status ends, and a failure is told.
fn show_end(
    tx: &mut dyn Tx,
    app: &App,
    report: &outside::DispositionReport<'_>,
    disposition: Option<Disposition>,
    now: i64,
) -> Result<(), Error> {
    let Some(given) = obligations::of(tx, report.event, report.agent, now)?.filter(Obligation::is_over)
    else {
        return Ok(());
    };
    let act = conversation::act(app, report.agent.into(), given.conversation);
    match conversations::event_by_id(tx, given.message())? {
        Some(message) if disposition == Some(Disposition::Failed) => {
            conversation::tell_failure(tx, &act, &message, report.why)
        }
        _ => conversation::end_status(tx, &act),
    }
}

/// Locks the conversation in which the agent was given an event. Returns `false` if the agent has left it, and
/// may no longer report on the event.
fn enters(tx: &mut dyn Tx, event: EventId, agent: AgentId, now: i64) -> Result<bool, StoreError> {
    if outside::find(tx, agent, event, now)?.is_some() {
        return Ok(true);
    }
    let Some(given) = obligations::of(tx, event, agent, now)? else { return Ok(false) };
    tx.lock(given.conversation.into())?;
    Ok(members::of(tx, given.conversation, agent.into())?.is_some())
}

/// Shows progress as the agent's status in the conversation of the event. For an event from outside it only
/// records that the agent works on it.
async fn progress(harness: &Harness, told: Progress) -> Result<(), Error> {
    let agent = harness.agent();
    let Some(event) = begun(harness, agent, &told.progress_token).await? else { return Ok(()) };
    let Some((conversation, is_outside)) = where_given(harness, agent, event).await? else { return Ok(()) };
    if is_outside {
        return outside::dispose(harness, event, Cause::Reacted(Signal::Working), None).await.map(drop);
    }
    let now = harness.app.now();
    let renew = move |tx: &mut dyn Tx| conversation::go_on(tx, agent, event, now);
    if let Some((place, message)) = harness.app.store.write::<_, Error, _>(renew).await? {
        conversation::tell_attention(&harness.app, place, message);
    }
    let total = told.total.map_or_else(String::new, |total| format!("/{total}"));
    let text = told.message.unwrap_or_default();
    let status: String =
        format!("{}{total} {text}", told.progress).trim().chars().take(MAX_PROGRESS).collect();
    conversation::set_status(&harness.app, agent.into(), conversation, &status).await.map(drop)
}

/// Resolves a progress token: a delivered event, or a job of the agent.
async fn begun(harness: &Harness, agent: AgentId, token: &WireId) -> Result<Option<EventId>, Error> {
    if let Some(event) = token.event() {
        return Ok(Some(event));
    }
    let Some(job) = JobId::parse(&token.0) else { return Ok(None) };
    let find = move |tx: &mut dyn Tx| {
        let job = jobs::by_id(tx, job)?.filter(|job| job.agreed.agent == agent);
        Ok(job.map(|job| job.agreed.event))
    };
    Ok(harness.app.store.read::<_, StoreError, _>(find).await?)
}

/// Returns the conversation of an event that the agent was given, and `true` if the event came from outside
/// the conversations of this hub.
async fn where_given(
    harness: &Harness,
    agent: AgentId,
    event: EventId,
) -> Result<Option<(ConversationId, bool)>, Error> {
    let now = harness.app.now();
    let find = move |tx: &mut dyn Tx| {
        if let Some(found) = outside::find(tx, agent, event, now)? {
            return Ok(Some((found.conversation, true)));
        }
        let given = obligations::of(tx, event, agent, now)?;
        Ok(given.map(|given| (given.conversation, false)))
    };
    Ok(harness.app.store.read::<_, StoreError, _>(find).await?)
}

async fn typing(harness: &Harness, told: Typing) -> Result<(), Error> {
    let Some(conversation) = told.conversation_id.conversation() else { return Ok(()) };
    let thread = told.thread_id.as_ref().and_then(WireId::event);
    conversation::show_typing(&harness.app, harness.agent().into(), conversation, thread).await
}
