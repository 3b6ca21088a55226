//! People's accounts: how they sign in, what speaks for them, and how they take things back.

use crate::ids::{AccountId, AgentId, CredentialId};
use crate::words::{PrincipalKind, Word};
use serde::{Deserialize, Serialize};
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

/// One line of text with something in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "one line of 1 to 100 characters with something in it",
    min_length = 1,
    max_length = 100,
    pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
)]
pub struct Line(pub String);

/// Who wants to sign in.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = SignInBody)]
pub struct SignIn {
    /// Where the link goes.
    pub email: EmailAddress,
    /// `ci_…`, where sign-up is by invitation.
    #[serde(rename = "invitation")]
    pub sign_up_code: Option<Line>,
}

/// The answer to everybody.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// What happens now.
    pub message: String,
}

/// A token to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = TokenBody)]
pub struct NewToken {
    /// What you call it.
    pub label: Line,
}

/// A token, shown this once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewToken)]
pub struct IssuedToken {
    /// Its id, which is no secret.
    pub id: CredentialId,
    /// `ct_…`: the key itself.
    pub token: String,
    /// What you call it.
    pub label: String,
    /// When.
    pub created_at: String,
}

/// A token, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = TokenView)]
pub struct Token {
    /// Its id.
    pub id: CredentialId,
    /// What you call it.
    pub label: String,
    /// When it was made.
    pub created_at: String,
}

/// Which page of tokens is asked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TokenPage {
    /// `next` of the page before
    #[param(inline)]
    #[param(value_type = Option<String>, pattern = "^(crd_[0-9a-f]{32})?$")]
    pub after: Option<CredentialId>,
    /// 50 unless said
    #[serde(default = "super::usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// An account to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = AccountBody)]
pub struct NewAccount {
    /// Where its sign-in links go.
    pub email: EmailAddress,
    /// What to call the person; else what stands before the `@`.
    pub name: Option<Line>,
}

/// An account that was made.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewAccount)]
pub struct MadeAccount {
    /// Its id.
    pub account_id: AccountId,
    /// Where its sign-in links go.
    pub email: String,
    /// What to call the person.
    pub name: String,
    /// `ct_…`, shown this once.
    pub api_token: String,
}

/// An invitation to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = InvitationBody)]
pub struct NewSignUpCode {
    /// Whom it is for; else for whoever has it.
    pub email: Option<EmailAddress>,
    /// How many days it is good; 7 unless said.
    #[schema(minimum = 1, maximum = 90)]
    pub days: Option<i64>,
}

/// An invitation, shown this once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewInvitation)]
pub struct SignUpCode {
    /// Its id, which is no secret.
    pub id: CredentialId,
    /// `ci_…`: the invitation itself.
    #[serde(rename = "invitation")]
    pub code: String,
    /// The page on which a person uses it.
    pub url: String,
    /// Until when it is good.
    pub expires_at: String,
}

/// An invitation that nobody has used yet, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = OpenInvitation)]
pub struct OpenSignUpCode {
    /// Its id.
    pub id: CredentialId,
    /// Whom it is for; else for whoever has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// When it was made.
    pub created_at: String,
    /// Until when it is good.
    pub expires_at: Option<String>,
}

/// What is to change of an account; what is not said stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = AccountChangeBody)]
pub struct AccountChange {
    /// What to call the person.
    pub name: Option<Line>,
    /// Whether it is told by mail, at most once an hour, of what waits for it while it is away.
    pub mails: Option<bool>,
}

/// Which account is to be deleted: one says so.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Deletion {
    /// The account's email address, so that nobody does this by accident
    pub confirm: String,
}

/// The caller.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// `account`, `agent` or `operator`.
    #[schema(value_type = String)]
    pub kind: Word<PrincipalKind>,
    /// Of the account or the agent.
    #[serde(default)]
    #[schema(required)]
    pub id: String,
    /// What it is called.
    #[serde(default)]
    #[schema(required)]
    pub name: String,
    /// Of an account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Of an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Of an account: whether it is told by mail of what waits for it while it is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mails: Option<bool>,
    /// How much it may have, and has: of an account `account_bytes` (with its agents'), `agents` and `channels`, of an agent
    /// `agent_bytes` and `channels`; nothing of the operator.
    #[serde(default)]
    #[schema(required)]
    pub quotas: BTreeMap<String, Quota>,
}

/// One quota.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[schema(as = QuotaView)]
pub struct Quota {
    /// How much is used.
    pub used: u64,
    /// How much may be; `null` for no limit.
    pub limit: Option<u64>,
}

/// Whether tokens are to go with the sessions.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Tokens {
    /// Whether tokens are revoked as well; whoever stole one may have made others
    #[serde(default)]
    #[param(required = false)]
    pub tokens: bool,
}

/// Browsers that were signed out, and tokens that were revoked.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub struct EndedSessions {
    /// So many browsers.
    pub ended: u64,
    /// So many tokens, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tokens: Option<u64>,
}

/// What else is taken from whoever had an agent's key.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = ResetBody)]
pub struct KeyReset {
    /// Whether everything is taken off that the agent is reached by: its endpoint, its own connection string, the one this hub
    /// issued, and both webhook secrets. `false` unless said.
    #[serde(default)]
    #[schema(nullable)]
    pub detach: bool,
    /// Whether it belongs to nobody from now on; for the operator. `false` unless said.
    #[serde(default)]
    #[schema(nullable)]
    pub release: bool,
}

/// An agent's new key, which is shown this once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = NewKeyView)]
pub struct NewKey {
    /// Its id.
    pub agent_id: AgentId,
    /// Its address.
    pub address: String,
    /// Its key from now on.
    #[schema(example = "ca_0123456789abcdef0123456789abcdef")]
    pub api_key: String,
}

/// A secret that requests to an agent are signed with.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = WebhookSecretView)]
pub struct WebhookSecret {
    /// With which requests to the agent are signed (Standard Webhooks). It is shown this once.
    #[schema(example = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")]
    pub webhook_secret: String,
    /// Until when requests are signed with the one before as well.
    pub previous_until: Option<String>,
}
