//! The activity log: acts, attention decisions, claims, tool calls, messages and dispositions.

use super::operator::{AuditParty, PartyName};
use crate::words::{Action, words};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

words! {
    /// The kind of an entry.
    pub enum TrailKind {
        /// An act that grants or revokes rights.
        Act = "act",
        /// An attention decision for an agent.
        Decision = "decision",
        /// A claim on an event.
        Claim = "claim",
        /// A call of a tool.
        ToolCall = "tool_call",
        Send = "send",
        /// An agent's disposition of an event.
        Disposition = "disposition",
        /// A log message of an agent's harness.
        Log = "log",
    }
}

/// The query parameters of the activity log.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TrailQuery {
    /// The kind of entries; `act` by default, or all kinds if an event is given. Kinds other than `act` need
    /// an actor, a channel or an event; `log` needs an agent as its actor
    #[param(inline)]
    pub kind: Option<TrailKind>,
    /// Only entries of this actor: an agent (id or name), an account (id or email address), `operator` or
    /// `nobody`. For decisions: only those about this recipient
    #[param(inline)]
    pub actor: Option<PartyName>,
    /// Only entries about this event (`evt_…`)
    pub event: Option<String>,
    /// Only entries of this conversation (`ch_…`)
    pub channel: Option<String>,
    /// Only this act, such as `key.reset`
    #[param(inline)]
    pub action: Option<Action>,
    /// Only acts on this agent, account, channel (`ch_…`), credential (`crd_…`) or `hub`
    #[param(inline)]
    pub subject: Option<PartyName>,
    /// Only entries since this time
    #[param(format = DateTime)]
    pub since: Option<String>,
    /// The `next` cursor of the previous page
    pub after: Option<String>,
    /// The maximum number of entries on the page; 50 by default
    #[serde(default = "super::usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// An entry of the activity log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TrailEntry {
    /// The id of the act, or of the event or delivery that the entry is about.
    pub id: String,
    /// The kind of the entry.
    pub kind: TrailKind,
    /// The time of the entry.
    pub at: String,
    /// The actor. For decisions it is the hub.
    pub actor: AuditParty,
    /// The action: for acts a word such as `key.reset`; otherwise the decision's policy, the claim's state,
    /// the tool's name, the kind of message, or the disposition.
    pub action: String,
    /// The object of the action, or the event it is about.
    pub subject: AuditParty,
    /// Further details; never the text of messages.
    #[schema(value_type = Object)]
    pub detail: Value,
    /// The id of the request that caused an act. For the operator.
    pub request_id: String,
    /// The id that the client sent in its own `X-Request-Id`. It is not verified.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client_request_id: String,
    /// The network address that an act came from. For the operator.
    pub client: String,
    /// The number of earlier acts of this kind by the same actor in the same hour that this entry stands for.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub repeats: i64,
    /// The entry's position in the list, sent as `next`.
    #[serde(skip)]
    pub cursor: String,
}
