//! The operator's API: accounts, the hub's settings and the audit log.

use crate::ids::{AccountId, AuditId};
use crate::words::{Action, Word};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// An account as the operator sees it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AccountView)]
pub struct Account {
    /// The account's id.
    pub account_id: AccountId,
    /// The address that receives sign-in links; `null` once the account is deleted.
    pub email: Option<String>,
    /// The person's name.
    pub name: String,
    /// The time of creation.
    pub created_at: String,
    /// The time at which the account was disabled, if it is.
    pub disabled_since: Option<String>,
    /// The time of deletion, if it was deleted.
    pub deleted_at: Option<String>,
}

/// The query parameters of a search for accounts.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AccountSearch {
    /// A part of the email address or the name
    #[param(max_length = 100)]
    pub q: Option<String>,
    /// The `next` cursor of the previous page
    #[param(inline)]
    #[param(value_type = Option<String>, pattern = "^(acc_[0-9a-f]{32})?$")]
    pub after: Option<AccountId>,
    /// The maximum number of accounts on the page; 50 by default
    #[serde(default = "super::usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// The settings and load of the hub.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// The public URL of the hub.
    pub public_url: String,
    /// The sign-up policy: `open`, `invite` or `closed`.
    pub signup: String,
    /// `true` if endpoints must echo a challenge before anything else is sent to them.
    pub endpoint_challenge: bool,
    /// The number of open connections on this node.
    pub connections: i64,
    /// The number of open inbox streams on this node.
    pub open_inboxes: usize,
    /// The number of writes waiting for the store.
    pub queued_writes: usize,
    /// The configured quotas by setting; `null` for no limit.
    pub quotas: BTreeMap<String, Option<u64>>,
    /// Warnings about dangerous settings.
    pub warnings: Vec<Danger>,
}

/// A warning to the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Danger {
    /// A stable code for the warning.
    pub code: String,
    /// The danger.
    pub message: String,
    /// The remedy.
    pub advice: String,
}

/// A filter by a party of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "an id, a name or an address of at most 254 characters",
    max_length = 254,
    pattern = "^[!-~]*$"
)]
pub struct PartyName(pub String);

/// The query parameters of the audit log.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Only acts of this actor: an agent (id or name), an account (id or email address), `operator` or
    /// `nobody`
    #[param(inline)]
    pub actor: Option<PartyName>,
    /// Only this act, such as `key.reset`
    #[param(inline)]
    pub action: Option<Action>,
    /// Only acts on this agent, account, channel (`ch_…`), credential (`crd_…`), Score (`sc_…`) or `hub`
    #[param(inline)]
    pub subject: Option<PartyName>,
    /// Only acts since this time
    #[param(format = DateTime)]
    pub since: Option<String>,
    /// The `next` cursor of the previous page
    #[param(inline)]
    #[param(value_type = Option<String>, pattern = "^(aud_[0-9a-f]{32})?$")]
    pub after: Option<AuditId>,
    /// The maximum number of acts on the page; 50 by default
    #[serde(default = "super::usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// An act in the audit log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditView)]
pub struct RecordedAct {
    /// The id of the act.
    pub id: AuditId,
    /// The time of the act.
    pub at: String,
    /// The actor.
    pub actor: AuditParty,
    /// The kind of act, such as `key.reset`.
    #[schema(value_type = String)]
    pub action: Word<Action>,
    /// The object of the act.
    pub subject: AuditParty,
    /// Further details.
    #[schema(value_type = Object)]
    pub detail: Value,
    /// The id of the request (`X-Request-Id`); empty if the act was not a request, for example a new master
    /// key.
    pub request_id: String,
    /// The id that the client sent in its own `X-Request-Id`. It is not verified.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub client_request_id: String,
    /// The network address of the client; empty if the act was not a request.
    pub client: String,
    /// The number of earlier acts of this kind by the same actor in the same hour that this one stands for.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub repeats: i64,
}

/// A party of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditParty {
    /// The kind of party. Actors are `agent`, `account`, `owner`, `operator` or `nobody`; subjects are
    /// `agent`, `account`, `channel`, `credential`, `score`, `stream` or `hub`.
    pub kind: String,
    /// The party's id. For the operator, nobody and the hub it repeats the kind.
    pub id: String,
}
