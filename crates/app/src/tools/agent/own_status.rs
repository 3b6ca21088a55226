//! The agent's own record and its conversations.

use super::AgentContext;
use super::arguments::{ChannelsQuery, OwnStatusQuery};
use crate::{accounts, agents, conversation};
use chorus_node::Error;
use chorus_protocol::api::channels::ConversationPage;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BriefConversation {
    conversation_id: String,
    /// channel or dm.
    kind: String,
    name: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OwnConversations {
    channels: Vec<BriefConversation>,
    /// The `after` of the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OwnStatus {
    agent_id: String,
    name: String,
    /// Your address, by which others reach you.
    address: String,
    /// True if an inbox of yours is open besides this connection.
    online: bool,
    /// The time since which your owner has paused you.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_since: Option<String>,
    /// The whole record and the quotas.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    detail: Option<Value>,
}

pub(super) async fn channels(context: AgentContext, asked: ChannelsQuery) -> Result<OwnConversations, Error> {
    let ChannelsQuery { after, limit, archived } = asked;
    let page = ConversationPage { after, limit, archived };
    let found = conversation::list_conversations(&context.app, context.who(), page).await?;
    let brief = found.items.into_iter().map(|one| BriefConversation {
        conversation_id: one.id,
        kind: one.kind.to_string(),
        name: one.name,
    });
    Ok(OwnConversations { channels: brief.collect(), next: found.next })
}

pub(super) async fn status(context: AgentContext, asked: OwnStatusQuery) -> Result<OwnStatus, Error> {
    let id = context.identity.id.to_string();
    let agent = agents::agent(&context.app, context.caller(), &id).await?;
    let detail = if asked.detail {
        let me = accounts::me(&context.app, context.caller()).await?;
        Some(json!({"agent": agent, "quotas": me.quotas}))
    } else {
        None
    };
    Ok(OwnStatus {
        agent_id: id,
        name: agent.name,
        address: agent.address,
        online: agent.online,
        paused_since: agent.paused_since,
        detail,
    })
}
