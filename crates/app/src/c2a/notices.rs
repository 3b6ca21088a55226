//! What a harness tells without being answered: what entered a turn of its model, what became of events, how far it came.
//!
//! What it tells of events that its agent was not given changes nothing.

use super::{Harness, read};
use crate::attention::disposing;
use crate::conversation;
use crate::error::{Error, Refused};
use chorus_attention::disposition::Cause;
use chorus_protocol::c2a::{Cancelled, Disposed, Injected, LogMessage, Method, Progress, Typing, WireId};
use chorus_protocol::ids::{AgentId, EventId};
use chorus_protocol::rpc::RpcError;
use chorus_store::{StoreError, Tx, obligations};
use serde_json::{Map, Value};

/// The longest text that says how far something came, in characters.
const MAX_PROGRESS: usize = 500;

/// Takes a notification. An error is for the log: nobody waits for an answer.
pub async fn tell(harness: &Harness, method: &str, params: Map<String, Value>) -> Result<(), RpcError> {
    let told = match Method::parse(method) {
        Some(Method::Injected) => injected(harness, read(params)?).await,
        Some(Method::Disposition) => disposed(harness, read(params)?).await,
        Some(Method::Progress) => progress(harness, read(params)?).await,
        Some(Method::Typing) => typing(harness, read(params)?).await,
        Some(Method::Cancelled) => {
            read::<Cancelled>(params)?;
            Ok(())
        }
        Some(Method::Log) => {
            let LogMessage { level, .. } = read(params)?;
            tracing::debug!(agent = %harness.agent(), %level, "a harness logs something");
            Ok(())
        }
        // A newer harness may tell what we do not know.
        _ => Ok(()),
    };
    told.map_err(|error| super::refusing::rpc(&error))
}

async fn injected(harness: &Harness, told: Injected) -> Result<(), Error> {
    let (agent, now) = (harness.agent(), harness.app.now());
    let events: Vec<EventId> = told.event_ids.iter().filter_map(WireId::event).collect();
    let note = move |tx: &mut dyn Tx| {
        let mut known = 0;
        for event in &events {
            known += u64::from(obligations::inject(tx, *event, agent, now)?);
        }
        Ok(known)
    };
    let injected = harness.app.store.write::<_, StoreError, _>(note).await?;
    harness.app.metrics.injected.inc_by(injected);
    Ok(())
}

async fn disposed(harness: &Harness, told: Disposed) -> Result<(), Error> {
    let (agent, now) = (harness.agent(), harness.app.now());
    let Some(event) = told.event_id.event() else { return Ok(()) };
    let record = move |tx: &mut dyn Tx| {
        let cause = Cause::Noticed(told.disposition);
        match disposing::record(tx, event, agent, cause, None, now) {
            // What policy does not allow did not happen.
            Err(error) if error.refused == Some(Refused::Policy) => Ok(None),
            disposed => disposed,
        }
    };
    harness.app.store.write::<_, Error, _>(record).await.map(drop)
}

/// How far something came is shown as what the agent is doing, where it was asked.
async fn progress(harness: &Harness, told: Progress) -> Result<(), Error> {
    let (agent, Some(event)) = (harness.agent(), told.progress_token.event()) else { return Ok(()) };
    let Some(conversation) = where_given(harness, agent, event).await? else { return Ok(()) };
    let total = told.total.map_or_else(String::new, |total| format!("/{total}"));
    let text = told.message.unwrap_or_default();
    let status: String =
        format!("{}{total} {text}", told.progress).trim().chars().take(MAX_PROGRESS).collect();
    conversation::set_status(&harness.app, agent.into(), conversation, &status).await.map(drop)
}

/// Where an event was said that an agent was given.
async fn where_given(
    harness: &Harness,
    agent: AgentId,
    event: EventId,
) -> Result<Option<chorus_protocol::ids::ConversationId>, Error> {
    let now = harness.app.now();
    let find = move |tx: &mut dyn Tx| {
        let given = obligations::of(tx, event, agent, now)?;
        Ok(given.map(|given| given.conversation))
    };
    Ok(harness.app.store.read::<_, StoreError, _>(find).await?)
}

async fn typing(harness: &Harness, told: Typing) -> Result<(), Error> {
    let Some(conversation) = told.conversation_id.conversation() else { return Ok(()) };
    conversation::show_typing(&harness.app, harness.agent().into(), conversation).await
}
