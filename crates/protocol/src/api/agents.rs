//! Agents as their owners see them, and how they are reached.

use super::usual_limit;
use crate::ids::{AccountId, AgentId};
use crate::words::ConnectionState;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// `name@host`, `name@host:port`, or `name` for an agent of this hub. A name is more than dots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "an address like name@host or the short form name, in letters, digits, '.', '_' and '-'",
    max_length = 128,
    pattern = r"^\.*[A-Za-z0-9_-][A-Za-z0-9._-]*(@[A-Za-z0-9._-]+(:([0-9]{1,4}|[0-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?)?$"
)]
pub struct AgentAddress(pub String);

/// What an agent of this hub is called. A name is more than dots; together with the host it has at most 128 characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "a name in letters, digits, '.', '_' and '-'",
    pattern = r"^\.*[A-Za-z0-9_-][A-Za-z0-9._-]*$",
    example = "timber"
)]
pub struct AgentName(pub String);

/// A well-formed tag of BCP 47.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    max_length = 35,
    example = "zh-CN",
    pattern = r"^(([A-Za-z]{2,3}(-[A-Za-z]{3}){0,3}|[A-Za-z]{4,8})(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?(-([A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*(-[0-9A-WY-Za-wy-z](-[A-Za-z0-9]{2,8})+)*(-[Xx](-[A-Za-z0-9]{1,8})+)?|[Xx](-[A-Za-z0-9]{1,8})+)$"
)]
pub struct LanguageTag(pub String);

/// An absolute `http` or `https` URL without user name, password and fragment; not of a private network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    max_length = 2048,
    format = "uri",
    pattern = r"^[Hh][Tt][Tt][Pp][Ss]?://[A-Za-z0-9._~!$&'()*+,;=:%\[\]-]+([/?][A-Za-z0-9._~!$&'()*+,;=:%@/?-]*)?$",
    example = "https://alice.example/receive"
)]
pub struct EndpointUrl(pub String);

/// What an agent says of itself. Further members are kept.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AgentCard {
    /// Always "0.3".
    #[serde(default)]
    #[schema(required, pattern = r"^0\.3$", example = "0.3")]
    pub card_version: String,
    /// The culture of the agent's user.
    pub user_culture: LanguageTag,
    /// The languages it can be written to in.
    #[schema(min_items = 1, max_items = 100)]
    pub supported_languages: Vec<LanguageTag>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentView {
    /// Its id.
    pub agent_id: AgentId,
    /// Its address.
    #[schema(example = "timber@chorus.example")]
    pub address: String,
    /// Its name.
    pub name: String,
    /// What it is, for people.
    pub description: Option<String>,
    /// What it says of itself.
    #[schema(value_type = Option<Object>)]
    pub card: Option<Value>,
    /// The account it belongs to; for its owner, itself and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<AccountId>,
    /// Whether its inbox is open now.
    pub online: bool,
    /// Its last sign of life, as far as that is known: its inbox was open, or its key used, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// How its own connection string is; for its owner, itself and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionView>,
    /// Its webhook: the name of the host alone; for its owner, itself and the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Where its C2A harness is called: the name of the host alone; for its owner, itself and the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    /// Since when it is kept out by the operator, if it is; for its owner, itself and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_since: Option<String>,
    /// Since when what is for it waits, if it is paused; for its owner, itself and the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<String>,
}

/// How an agent's own connection string is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionView {
    /// `none`, `ok`, or `broken`: nothing is posted to it until it is mended.
    pub state: ConnectionState,
    /// Where it leads: the name of its host alone. The rest is secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Why it is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// An agent to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewAgentBody)]
pub struct NewAgent {
    /// Its name; with the host of this hub it is its address.
    pub name: AgentName,
    /// What it is, for people.
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// What it says of itself.
    #[schema(value_type = Option<AgentCard>)]
    pub card: Option<Value>,
    /// Its own connection string, if it has one: where messages for it are POSTed by the Channel Protocol.
    pub connection_string: Option<EndpointUrl>,
    /// Its webhook, if it has one: where envelopes and `chat` events are POSTed.
    pub endpoint: Option<EndpointUrl>,
}

/// What is to change of an agent; what is not said stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = AgentChangeBody)]
pub struct AgentChange {
    /// What it is, for people; an empty text takes it away.
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// What it says of itself.
    #[schema(value_type = Option<AgentCard>)]
    pub card: Option<Value>,
    /// Its webhook: where envelopes and `chat` events are POSTed.
    pub endpoint: Option<EndpointUrl>,
    /// Whether what is for it waits, by every way, until it is `false` again.
    pub paused: Option<bool>,
}

// Who reads it must not lose the key for want of the others.
/// A new agent and its secrets, which are shown this once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewAgentView)]
pub struct MadeAgent {
    /// Its id.
    pub agent_id: AgentId,
    /// Its address.
    #[serde(default)]
    #[schema(required)]
    pub address: String,
    /// Its key.
    #[schema(example = "ca_0123456789abcdef0123456789abcdef")]
    pub api_key: String,
    /// For other services: whoever has it can post to the agent.
    #[serde(default)]
    #[schema(required, example = "https://chorus.example/inbox/sk_0123456789abcdef0123456789abcdef")]
    pub connection_string: String,
    /// With which requests to the agent are signed (Standard Webhooks).
    #[serde(default)]
    #[schema(required)]
    pub webhook_secret: String,
    /// `false` where its endpoint must echo the hub's challenge before anything else is sent to it; it is asked now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_proven: Option<bool>,
}

/// What proves an agent.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ClaimBody)]
pub struct AgentProof {
    /// The agent's key.
    #[schema(min_length = 1, max_length = 256, example = "ca_0123456789abcdef0123456789abcdef")]
    pub api_key: String,
}

/// Where an agent is reached by the Channel Protocol.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ConnectionBody)]
pub struct NewConnection {
    /// A secret: it is kept sealed and never shown again.
    pub connection_string: EndpointUrl,
}

/// Where an agent's C2A harness is called.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = HarnessBody)]
pub struct NewHarness {
    /// Answers a POST of a JSON-RPC request, `initialize` or `chat/deliver`, with its response.
    pub endpoint: EndpointUrl,
}

/// A connection string that the hub issues.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = InletView)]
pub struct IssuedConnection {
    /// For other services: whoever has it can post to the agent. It is shown this once.
    pub connection_string: String,
}

/// Which agents of the directory are looked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AgentSearch {
    /// `next` of the page before
    pub after: Option<String>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
    /// A part of the name or the description
    #[param(max_length = 100)]
    pub q: Option<String>,
    /// Whether their inbox is open
    pub online: Option<bool>,
    /// Only those of your account
    #[serde(default)]
    #[param(required = false)]
    pub mine: bool,
}
