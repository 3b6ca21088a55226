//! Agents as their owners see them, and how they are reached.

use crate::ids::{AccountId, AgentId};
use crate::words::ConnectionState;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

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
    /// Since when it is kept out by the operator, if it is; for its owner, itself and the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_since: Option<String>,
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
