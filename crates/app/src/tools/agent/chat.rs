//! The seven chat tools of C2A for a model: compact results of the same functions.

use super::AgentContext;
use super::arguments::{OwnMessage, WithDetail};
use super::mailbox::{BriefEvent, BriefEvents};
use crate::c2a;
use chorus_node::Error;
use chorus_protocol::c2a::{Claim, Defer, ListEvents, React, ReadThread, Recorded, Resolve, Snake, to_snake};
use chorus_protocol::words::{ClaimState, Disposition};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BriefSent {
    /// The message's id, or the approval's id if it is held for approval.
    event_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<String>,
    /// Agents that it was delivered to.
    woken: Vec<String>,
    /// True if it is held until a person approves it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    awaits_approval: bool,
    /// The kinds of credentials that were masked in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    masked: Vec<String>,
    /// Mentioned names that no member has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    unknown: Vec<String>,
    /// The whole result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    detail: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BriefRecord {
    event_id: String,
    /// The disposition recorded for you; absent if the signal does not settle the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    disposition: Option<Disposition>,
}

impl From<Recorded> for BriefRecord {
    fn from(Recorded { event_id, disposition }: Recorded) -> Self {
        Self { event_id: event_id.0, disposition }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BriefClaim {
    event_id: String,
    state: ClaimState,
    /// The holder of the claim.
    holder: String,
    /// The time at which the claim expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// The event that you claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<BriefEvent>,
}

pub(super) async fn list_events(
    context: AgentContext,
    WithDetail { asked, detail }: WithDetail<ListEvents>,
) -> Result<BriefEvents, Error> {
    BriefEvents::new(c2a::list_events(&context.harness(), asked).await?, detail)
}

pub(super) async fn read_thread(
    context: AgentContext,
    WithDetail { asked, detail }: WithDetail<ReadThread>,
) -> Result<BriefEvents, Error> {
    BriefEvents::new(c2a::read_thread(&context.harness(), asked).await?, detail)
}

pub(super) async fn send_message(context: AgentContext, message: OwnMessage) -> Result<BriefSent, Error> {
    let (detail, environment) = (message.detail, &context.app.environment);
    let message = message.complete(|| environment.random_hex());
    let sent = c2a::send(&context.harness(), message).await?;
    let whole =
        if detail { Some(to_snake(serde_json::to_value(&sent).map_err(Error::internal)?)) } else { None };
    Ok(BriefSent {
        event_id: sent.event_id.0,
        thread_id: sent.thread_id.map(|id| id.0),
        woken: sent.attention.woken,
        awaits_approval: sent.awaits_approval,
        masked: sent.masked,
        unknown: sent.unknown,
        detail: whole,
    })
}

pub(super) async fn react(context: AgentContext, Snake(asked): Snake<React>) -> Result<BriefRecord, Error> {
    Ok(c2a::react(&context.harness(), asked).await?.into())
}

pub(super) async fn claim(
    context: AgentContext,
    WithDetail { asked, detail }: WithDetail<Claim>,
) -> Result<BriefClaim, Error> {
    let claimed = c2a::claim(&context.harness(), asked).await?;
    Ok(BriefClaim {
        event_id: claimed.event_id.0,
        state: claimed.state,
        holder: claimed.holder.handle().to_owned(),
        until: claimed.until.map(Into::into),
        event: claimed.event.map(|event| BriefEvent::new(*event, detail)).transpose()?,
    })
}

pub(super) async fn defer(context: AgentContext, Snake(asked): Snake<Defer>) -> Result<BriefRecord, Error> {
    Ok(c2a::defer(&context.harness(), asked).await?.into())
}

pub(super) async fn resolve(
    context: AgentContext,
    Snake(asked): Snake<Resolve>,
) -> Result<BriefRecord, Error> {
    Ok(c2a::resolve(&context.harness(), asked).await?.into())
}
