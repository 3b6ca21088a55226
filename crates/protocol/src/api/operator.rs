//! What the operator sees and does: accounts, the hub as a whole, and the log of what everybody did.

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
    /// Its id.
    pub account_id: AccountId,
    /// Where its sign-in links go; nowhere once it is deleted.
    pub email: Option<String>,
    /// What to call the person.
    pub name: String,
    /// When it was made.
    pub created_at: String,
    /// Since when it is kept out, if it is.
    pub disabled_since: Option<String>,
    /// When it was deleted, if it was.
    pub deleted_at: Option<String>,
}

/// Which accounts the operator looks for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AccountSearch {
    /// A part of the email address or the name
    #[param(max_length = 100)]
    pub q: Option<String>,
    /// `next` of the page before
    #[param(inline)]
    #[param(value_type = Option<String>, pattern = "^(acc_[0-9a-f]{32})?$")]
    pub after: Option<AccountId>,
    /// 50 unless said
    #[serde(default = "super::usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// The hub as its operator sees it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// Where people and agents reach it.
    pub public_url: String,
    /// Who may register: `open`, `invite` or `closed`.
    pub signup: String,
    /// Whether endpoints must answer a challenge before anything is sent to them.
    pub endpoint_challenge: bool,
    /// Open connections on this node.
    pub connections: i64,
    /// Open inboxes on this node.
    pub open_inboxes: usize,
    /// Writes that wait for the store.
    pub queued_writes: usize,
    /// How much anybody may have or do, by setting; `null` for no limit.
    pub quotas: BTreeMap<String, Option<u64>>,
    /// What is dangerous in the present settings.
    pub warnings: Vec<Danger>,
}

/// Something the operator should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Danger {
    /// A stable word for it.
    pub code: String,
    /// What is dangerous.
    pub message: String,
    /// What to do.
    pub advice: String,
}

/// Somebody or something in the log, as a filter names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "an id, a name or an address of at most 254 characters",
    max_length = 254,
    pattern = "^[!-~]*$"
)]
pub struct PartyName(pub String);

/// Which acts of the log are asked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Only what was done by this agent (its id or name), this account (its id or email address), `operator` or `nobody`
    #[param(inline)]
    pub actor: Option<PartyName>,
    /// Only these acts, such as `key.reset`
    #[param(inline)]
    pub action: Option<Action>,
    /// Only what was done to this agent, account, channel (`ch_…`), credential (`crd_…`), Score (`sc_…`) or `hub`
    #[param(inline)]
    pub subject: Option<PartyName>,
    /// Only what was done since
    #[param(format = DateTime)]
    pub since: Option<String>,
    /// `next` of the page before
    #[param(inline)]
    #[param(value_type = Option<String>, pattern = "^(aud_[0-9a-f]{32})?$")]
    pub after: Option<AuditId>,
    /// 50 unless said
    #[serde(default = "super::usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// One act.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditView)]
pub struct RecordedAct {
    /// Its id.
    pub id: AuditId,
    /// When.
    pub at: String,
    /// Who did it.
    pub actor: AuditParty,
    /// What was done: a word such as `key.reset`.
    #[schema(value_type = String)]
    pub action: Word<Action>,
    /// To whom or what.
    pub subject: AuditParty,
    /// What else there is to say.
    #[schema(value_type = Object)]
    pub detail: Value,
    /// The request it was done by: `X-Request-Id`. Empty if it was none, as with a new master key.
    pub request_id: String,
    /// The address it came from; empty if it was no request.
    pub client: String,
}

/// One side of an act.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditParty {
    /// `agent`, `account`, `owner`, `operator` or `nobody`; a subject is an `agent`, `account`, `channel`, `credential`, `score`,
    /// `stream` or the `hub`.
    pub kind: String,
    /// Its id; of the operator, of nobody and of the hub, the same word.
    pub id: String,
}
