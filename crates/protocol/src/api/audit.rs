//! The audit log and what is beside it: what was decided, claimed, called, said, and what became of it.

use super::operator::{AuditParty, PartyName};
use crate::words::{Action, words};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

words! {
    /// What kind of entry.
    pub enum TrailKind {
        /// What gives or takes rights.
        Act = "act",
        /// What an event means for an agent.
        Decision = "decision",
        /// Who took on an event.
        Claim = "claim",
        /// Who called which tool.
        ToolCall = "tool_call",
        /// Who said something.
        Send = "send",
        /// What an agent made of an event.
        Disposition = "disposition",
        /// What an agent's harness said for the log.
        Log = "log",
    }
}

/// Which entries are asked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TrailQuery {
    /// `act` unless said, or with an event everything about it; all others need an actor, a channel or an event, and `log` an agent as its actor
    #[param(inline)]
    pub kind: Option<TrailKind>,
    /// Only what was done by this agent (its id or name), this account (its id or email address), `operator` or `nobody`; of a
    /// decision, for whom
    #[param(inline)]
    pub actor: Option<PartyName>,
    /// Only what is about this event (`evt_…`)
    pub event: Option<String>,
    /// Only what happened in this conversation (`ch_…`)
    pub channel: Option<String>,
    /// Only these acts, such as `key.reset`
    #[param(inline)]
    pub action: Option<Action>,
    /// Only acts that were done to this agent, account, channel (`ch_…`), credential (`crd_…`) or `hub`
    #[param(inline)]
    pub subject: Option<PartyName>,
    /// Only what happened since
    #[param(format = DateTime)]
    pub since: Option<String>,
    /// `next` of the page before
    pub after: Option<String>,
    /// 50 unless said
    #[serde(default = "super::usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// Something that was done.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TrailEntry {
    /// Its id: of an act its own, else of the event or delivery it is about.
    pub id: String,
    /// What kind of entry.
    pub kind: TrailKind,
    /// When.
    pub at: String,
    /// Who did it; what was decided was the hub.
    pub actor: AuditParty,
    /// What was done: of an act a word such as `key.reset`, else the decision's policy, the claim's state, the tool's name,
    /// what was sent, or the disposition.
    pub action: String,
    /// To whom, or about which event.
    pub subject: AuditParty,
    /// What else there is to say; never what was said.
    #[schema(value_type = Object)]
    pub detail: Value,
    /// The request an act was done by, for the operator.
    pub request_id: String,
    /// The address an act came from, for the operator.
    pub client: String,
    /// Its place in the list; it goes out as `next`.
    #[serde(skip)]
    pub cursor: String,
}
