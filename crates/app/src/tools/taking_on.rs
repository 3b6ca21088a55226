//! Tools that claim a message, defer an answer and resolve an obligation.

use super::context::Context;
use super::input::{Claim, Defer, Resolve};
use super::output::{Claimed, Recorded};
use super::reading;
use crate::{c2a, conversation};
use chorus_attention::claims::Request;
use chorus_node::Error;
use chorus_protocol::code::Code;
use chorus_protocol::ids::{AgentId, EventId};
use chorus_protocol::time::rfc3339;
use chorus_protocol::words::{ClaimState, Disposition};
use chorus_store::conversation as store;

/// Returns the calling agent, if the message is in this channel.
async fn agent(context: &Context, event: EventId) -> Result<AgentId, Error> {
    let who = context.who;
    // A message of another channel is not found here, even if the caller is a member there too.
    context.read(move |tx, (here, _)| Ok(store::message(tx, &here, who, event).map(drop)?)).await?;
    let only =
        || Error::new(Code::Forbidden, "only agents claim, defer and resolve; people answer as they like");
    context.who.agent().ok_or_else(only)
}

pub(super) async fn claim(context: Context, asked: Claim) -> Result<Claimed, Error> {
    let Claim { event_id, ttl_ms, release } = asked;
    let who = agent(&context, event_id).await?;
    let request = if release { Request::Release } else { Request::Take { ttl_ms: Some(ttl_ms) } };
    let (standing, holder) = conversation::claim(&context.app, who, event_id, request).await?;
    let holds = standing.state == ClaimState::Held;
    let event = if holds { reading::look_at(&context, event_id).await? } else { None };
    Ok(Claimed {
        event,
        event_id: event_id.to_string(),
        state: standing.state.to_string(),
        holder,
        until: rfc3339(standing.until),
    })
}

fn recorded(event: EventId, disposition: Option<Disposition>) -> Recorded {
    Recorded { event_id: event.to_string(), disposition: disposition.map(|known| known.to_string()) }
}

pub(super) async fn defer(context: Context, asked: Defer) -> Result<Recorded, Error> {
    let who = agent(&context, asked.event_id).await?;
    let why = c2a::deferred_why(asked.reason, asked.eta);
    Ok(recorded(asked.event_id, conversation::defer(&context.app, who, asked.event_id, why).await?))
}

pub(super) async fn resolve(context: Context, asked: Resolve) -> Result<Recorded, Error> {
    let who = agent(&context, asked.event_id).await?;
    Ok(recorded(
        asked.event_id,
        conversation::resolve(&context.app, who, asked.event_id, asked.reason).await?,
    ))
}
