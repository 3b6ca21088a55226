//! Accounts: sign-in, tokens, sessions, invitations to the hub and key resets.

use super::operator::AuditParty;
use crate::ids::{AccountId, AgentId, CredentialId};
use crate::words::{Action, PrincipalKind, Word};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// An email address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "an email address: name@host, without spaces",
    max_length = 254,
    pattern = r"^[^@\s\x00-\x1f\x7f-\x9f]+@[^@\s\x00-\x1f\x7f-\x9f]+$",
    example = "ann@mail.example"
)]
pub struct EmailAddress(pub String);

/// A line of text that is not blank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "one line of 1 to 100 characters with something in it",
    min_length = 1,
    max_length = 100,
    pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
)]
pub struct Line(pub String);

/// A request for a sign-in link.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = SignInBody)]
pub struct SignIn {
    /// The address that receives the sign-in link.
    pub email: EmailAddress,
    /// The invitation (`ci_…`). Required where sign-up is by invitation.
    #[serde(rename = "invitation")]
    pub sign_up_code: Option<Line>,
}

/// The response to a sign-in request. It is the same for every address.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// A sentence that tells what happens next.
    pub message: String,
}

/// A token to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = TokenBody)]
pub struct NewToken {
    /// A label that helps you recognise the token.
    pub label: Line,
}

/// A new token. The response shows its secret once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewToken)]
pub struct IssuedToken {
    /// The token's id, which is not secret.
    pub id: CredentialId,
    /// The secret, `ct_…`.
    pub token: String,
    /// The label you gave it.
    pub label: String,
    /// The time of creation.
    pub created_at: String,
}

/// A token without its secret.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = TokenView)]
pub struct Token {
    /// The token's id.
    pub id: CredentialId,
    /// The label you gave it.
    pub label: String,
    /// The time of creation.
    pub created_at: String,
}

/// The query parameters of a list of tokens.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TokenPage {
    /// The `next` cursor of the previous page
    #[param(inline)]
    #[param(value_type = Option<String>, pattern = "^(crd_[0-9a-f]{32})?$")]
    pub after: Option<CredentialId>,
    /// The maximum number of tokens on the page; 50 by default
    #[serde(default = "super::usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// An account to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AccountBody)]
pub struct NewAccount {
    /// The address that receives sign-in links.
    pub email: EmailAddress,
    /// The person's name; the part before the `@` by default.
    pub name: Option<Line>,
}

/// A new account.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewAccount)]
pub struct MadeAccount {
    /// The account's id.
    pub account_id: AccountId,
    /// The address that receives sign-in links.
    pub email: String,
    /// The person's name.
    pub name: String,
    /// An API token, `ct_…`. It is shown once.
    pub api_token: String,
}

/// An invitation to create.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = InvitationBody)]
pub struct NewSignUpCode {
    /// The address that may use the invitation; anyone who has the code may if absent.
    pub email: Option<EmailAddress>,
    /// The number of days for which the invitation is valid; 7 by default.
    #[schema(minimum = 1, maximum = 90)]
    pub days: Option<i64>,
}

/// A new invitation. The response shows its code once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewInvitation)]
pub struct SignUpCode {
    /// The invitation's id, which is not secret.
    pub id: CredentialId,
    /// The invitation code, `ci_…`.
    #[serde(rename = "invitation")]
    pub code: String,
    /// The page on which a person redeems the invitation.
    pub url: String,
    /// The time of expiry.
    pub expires_at: String,
}

/// An unused invitation, without its code.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = OpenInvitation)]
pub struct OpenSignUpCode {
    /// The invitation's id.
    pub id: CredentialId,
    /// The address that may use the invitation; absent if anyone who has the code may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The time of creation.
    pub created_at: String,
    /// The time of expiry.
    pub expires_at: Option<String>,
}

/// Changes to an account. Absent members stay unchanged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = AccountChangeBody)]
pub struct AccountChange {
    /// The person's new name.
    pub name: Option<Line>,
    /// Enables mails about waiting messages while the person is away, at most one an hour.
    pub mails: Option<bool>,
}

/// The query parameters of an account's deletion.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Deletion {
    /// The account's email address, as a safeguard against accidental deletion
    pub confirm: String,
}

/// The authenticated caller.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// The kind of caller: `account`, `agent`, `owner` or `operator`.
    #[schema(value_type = String)]
    pub kind: Word<PrincipalKind>,
    /// The id of the account, agent or wallet; `operator` for the operator.
    #[serde(default)]
    #[schema(required)]
    pub id: String,
    /// The name of the account or agent; the kind for other callers.
    #[serde(default)]
    #[schema(required)]
    pub name: String,
    /// The email address of an account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The address of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// For accounts: `true` if mails about waiting messages are enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mails: Option<bool>,
    /// Quotas by name: `account_bytes` (including its agents), `agents` and `channels` for an account;
    /// `agent_bytes` and `channels` for an agent; none for the operator. An owner key shows the quotas that count for its wallet.
    #[serde(default)]
    #[schema(required)]
    pub quotas: BTreeMap<String, Quota>,
}

/// A quota and its use.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = QuotaView)]
pub struct Quota {
    /// The amount in use.
    pub used: u64,
    /// The limit; `null` if there is none.
    pub limit: Option<u64>,
}

/// The query parameters of signing out everywhere.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Tokens {
    /// Revokes all API tokens as well, since an attacker may have created one
    #[serde(default)]
    #[param(required = false)]
    pub tokens: bool,
}

/// The result of signing out everywhere.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EndedSessions {
    /// The number of sessions that were ended.
    pub ended: u64,
    /// The number of tokens that were revoked, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tokens: Option<u64>,
    /// The traces that a thief of an ended credential may have left, if there are any and tokens were revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub review: Option<AccountReview>,
}

/// The rights that ended with an account's credentials, and acts of the account that outlive them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AccountReviewView)]
pub struct AccountReview {
    /// The number of agents whose allowance was removed. They spend nothing until you set it again.
    pub allowances: u64,
    /// The owners whose market keys (`cw_…`) were revoked, because they pay from this account.
    pub owner_keys: Vec<String>,
    /// Acts of this account since the oldest ended credential was made: agents, keys, connections, members and secrets that
    /// stay. The newest first, at most 100.
    pub acts: Vec<LastingAct>,
}

/// An act of an account that outlives its credentials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = LastingActView)]
pub struct LastingAct {
    /// The time of the act.
    pub at: String,
    /// The kind of the act, such as `key.reset`.
    #[schema(value_type = String)]
    pub action: Word<Action>,
    /// The object of the act.
    pub subject: AuditParty,
    /// Further details, without secrets.
    #[schema(value_type = Object)]
    pub detail: Value,
    /// The network address that the act came from.
    pub client: String,
}

/// Options of resetting an agent's key.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = ResetBody)]
pub struct KeyReset {
    /// Removes every other way to reach the agent: its endpoints (relay, harness, market), its own connection
    /// string, the one this hub issued, both webhook secrets, its skills and offers on the market, and the
    /// owner keys issued for its old key. `false` by default.
    #[serde(default)]
    #[schema(nullable)]
    pub detach: bool,
    /// Removes the agent's owner. Only the operator may set it. `false` by default.
    #[serde(default)]
    #[schema(nullable)]
    pub release: bool,
}

/// An agent's new key, which is shown once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewKeyView)]
pub struct NewKey {
    /// The agent's id.
    pub agent_id: AgentId,
    /// The agent's address.
    pub address: String,
    /// The new key. The old key no longer works.
    #[schema(example = "ca_0123456789abcdef0123456789abcdef")]
    pub api_key: String,
    /// The connections that were removed, if `detach` was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub detached: Option<DetachReport>,
}

/// The connections that were removed from an agent. Of URLs only the host is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DetachView)]
pub struct DetachReport {
    /// The host of its webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The host of its C2A harness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    /// The host of its own connection string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The host to which its jobs were POSTed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market_endpoint: Option<String>,
    /// The number of skills that it offered.
    pub skills: u64,
    /// The number of open offers that were withdrawn.
    pub offers: u64,
    /// The number of jobs that it asked for and whose results were to be POSTed to a `callback_url`.
    #[serde(default)]
    pub job_callbacks: u64,
    /// The owners whose keys were revoked, because they were issued for the agent's old key.
    pub owner_keys: Vec<String>,
}

/// The secret that signs requests to an agent.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = WebhookSecretView)]
pub struct WebhookSecret {
    /// The secret for signatures by Standard Webhooks. It is shown once.
    #[schema(example = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")]
    pub webhook_secret: String,
    /// The time until which requests are also signed with the previous secret.
    pub previous_until: Option<String>,
}
