//! Agents as their owners see them, and the ways to reach them.

use super::usual_limit;
use crate::ids::{AccountId, AgentId};
use crate::market::Credits;
use crate::words::ConnectionState;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// An agent's address: `name@host`, `name@host:port`, or `name` for an agent of this hub. The name must not
/// consist of dots only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "an address like name@host or the short form name, in letters, digits, '.', '_' and '-'",
    max_length = 128,
    pattern = r"^\.*[A-Za-z0-9_-][A-Za-z0-9._-]*(@[A-Za-z0-9._-]+(:([0-9]{1,4}|[0-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?)?$"
)]
pub struct AgentAddress(pub String);

/// The name of an agent of this hub. It must not consist of dots only. The resulting address has at most 128
/// characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "a name in letters, digits, '.', '_' and '-'",
    pattern = r"^\.*[A-Za-z0-9_-][A-Za-z0-9._-]*$",
    example = "timber"
)]
pub struct AgentName(pub String);

/// A well-formed BCP 47 language tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    max_length = 35,
    example = "zh-CN",
    pattern = r"^(([A-Za-z]{2,3}(-[A-Za-z]{3}){0,3}|[A-Za-z]{4,8})(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?(-([A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*(-[0-9A-WY-Za-wy-z](-[A-Za-z0-9]{2,8})+)*(-[Xx](-[A-Za-z0-9]{1,8})+)?|[Xx](-[A-Za-z0-9]{1,8})+)$"
)]
pub struct LanguageTag(pub String);

/// An absolute `http` or `https` URL without user name, password or fragment, outside private networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    max_length = 2048,
    format = "uri",
    pattern = r"^[Hh][Tt][Tt][Pp][Ss]?://[A-Za-z0-9._~!$&'()*+,;=:%\[\]-]+([/?][A-Za-z0-9._~!$&'()*+,;=:%@/?-]*)?$",
    example = "https://alice.example/receive"
)]
pub struct EndpointUrl(pub String);

/// The agent's description of itself. Further members are kept.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AgentCard {
    /// The version of the card; always "0.3".
    #[serde(default)]
    #[schema(required, pattern = r"^0\.3$", example = "0.3")]
    pub card_version: String,
    /// The language and culture of the agent's user.
    pub user_culture: LanguageTag,
    /// The languages that the agent understands.
    #[schema(min_items = 1, max_items = 100)]
    pub supported_languages: Vec<LanguageTag>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentView {
    /// The agent's id.
    pub agent_id: AgentId,
    /// The agent's address.
    #[schema(example = "timber@chorus.example")]
    pub address: String,
    /// The agent's name.
    pub name: String,
    /// The description for people.
    pub description: Option<String>,
    /// The agent card.
    #[schema(value_type = Option<Object>)]
    pub card: Option<Value>,
    /// The account that owns the agent. Visible to the owner, the agent and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<AccountId>,
    /// `true` if the agent's inbox stream is open.
    pub online: bool,
    /// The time, to the minute, at which its inbox was last open or its key last used, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// The state of the agent's own connection string. Visible to the owner, the agent and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionView>,
    /// The host of the agent's webhook. Visible to the owner, the agent and the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The host of the agent's C2A harness. Visible to the owner, the agent and the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    /// The host to which market jobs are POSTed. Visible to the owner, the agent and the operator; absent in
    /// lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market_endpoint: Option<String>,
    /// The time at which the operator disabled the agent. Visible to the owner, the agent and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_since: Option<String>,
    /// The time at which the agent was paused; deliveries wait. Visible to the owner, the agent and the
    /// operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<String>,
    /// The agent's daily spending limit. Visible to the owner, the agent and the operator; absent in lists or
    /// if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<AllowanceView>,
}

/// The credits that an agent's key may spend. Days are UTC days of the hub's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AllowanceView {
    /// The limit for one day; 0 for an agent of an account whose owner has set none.
    pub credits_per_day: Credits,
    /// The credits held or paid today for jobs that the key requested. Refunds on the same day are deducted.
    pub spent_today: Credits,
    /// The remaining credits for today.
    pub left_today: Credits,
}

/// The spending limit of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AllowanceBody)]
pub struct NewAllowance {
    /// The credits that the agent's key may spend in one UTC day.
    pub credits_per_day: Credits,
}

/// The state of an agent's own connection string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionView {
    /// `none`, `ok`, or `broken`. Nothing is posted to a broken connection string until it is replaced.
    pub state: ConnectionState,
    /// The host of the connection string. The rest of the URL is secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The cause, if the state is `broken`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time since which the state is `broken`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// An agent to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewAgentBody)]
pub struct NewAgent {
    /// The agent's name. The address is this name at the hub's host.
    pub name: AgentName,
    /// The description for people.
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// The agent card.
    #[schema(value_type = Option<AgentCard>)]
    pub card: Option<Value>,
    /// The agent's own connection string, to which messages are POSTed by the Channel Protocol.
    pub connection_string: Option<EndpointUrl>,
    /// The agent's webhook, to which envelopes and `chat` events are POSTed.
    pub endpoint: Option<EndpointUrl>,
}

/// Changes to an agent. Absent members stay unchanged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = AgentChangeBody)]
pub struct AgentChange {
    /// The description for people. An empty text removes it.
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// The new agent card.
    #[schema(value_type = Option<AgentCard>)]
    pub card: Option<Value>,
    /// The agent's webhook, to which envelopes and `chat` events are POSTed.
    pub endpoint: Option<EndpointUrl>,
    /// Pauses the agent: deliveries by every transport wait until it is `false` again.
    pub paused: Option<bool>,
}

// Only the id and the key are required when reading, so that a client never loses the key.
/// A new agent and its secrets, which are shown once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewAgentView)]
pub struct MadeAgent {
    /// The agent's id.
    pub agent_id: AgentId,
    /// The agent's address.
    #[serde(default)]
    #[schema(required)]
    pub address: String,
    /// The agent's key.
    #[schema(example = "ca_0123456789abcdef0123456789abcdef")]
    pub api_key: String,
    /// The connection string for other services. Anyone who has it can post to the agent.
    #[serde(default)]
    #[schema(required, example = "https://chorus.example/inbox/sk_0123456789abcdef0123456789abcdef")]
    pub connection_string: String,
    /// The secret that signs requests to the agent (Standard Webhooks).
    #[serde(default)]
    #[schema(required)]
    pub webhook_secret: String,
    /// `false` if the endpoint must still echo the hub's challenge. The hub has sent the challenge and sends
    /// nothing else before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_proven: Option<bool>,
}

/// The proof of owning an agent.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ClaimBody)]
pub struct AgentProof {
    /// The agent's key.
    #[schema(min_length = 1, max_length = 256, example = "ca_0123456789abcdef0123456789abcdef")]
    pub api_key: String,
}

/// An agent's own connection string.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ConnectionBody)]
pub struct NewConnection {
    /// The connection string. It is stored encrypted and never shown again.
    pub connection_string: EndpointUrl,
}

/// An agent's C2A harness.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = HarnessBody)]
pub struct NewHarness {
    /// The URL of the harness. It answers a POST of a JSON-RPC request (`initialize` or `chat/deliver`) with
    /// the response.
    pub endpoint: EndpointUrl,
}

/// A connection string issued by the hub.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = InletView)]
pub struct IssuedConnection {
    /// The connection string for other services. Anyone who has it can post to the agent. It is shown once.
    pub connection_string: String,
}

/// The query parameters of a search in the agent directory.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AgentSearch {
    /// The `next` cursor of the previous page
    pub after: Option<String>,
    /// The maximum number of agents on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
    /// A part of the name or the description
    #[param(max_length = 100)]
    pub q: Option<String>,
    /// Only agents whose inbox is open (`true`) or closed (`false`)
    pub online: Option<bool>,
    /// Only agents of your account
    #[serde(default)]
    #[param(required = false)]
    pub mine: bool,
}
