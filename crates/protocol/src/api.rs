//! What `/api/v1` takes and gives: one struct for each body, read by both ends, checked and described from one definition.

pub mod accounts;
pub mod agents;
pub mod approvals;
pub mod audit;
pub mod blocks;
pub mod channels;
pub mod deliveries;
pub mod documents;
pub mod events;
pub mod fleet;
pub mod invitations;
pub mod members;
pub mod messages;
pub mod operator;
pub mod scores;
pub mod streams;
pub mod unread;

use crate::ids::Principal;
use crate::words::{PrincipalKind, Word};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What a member is called, or what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "1 to 64 letters, digits, '.', '_' and '-', and not dots alone",
    pattern = r"^([A-Za-z0-9_-][A-Za-z0-9._-]{0,63}|\.[A-Za-z0-9._-]{0,31}[A-Za-z0-9_-][A-Za-z0-9._-]{0,31})$",
    example = "bob"
)]
pub struct Name(pub String);

/// An agent or a person, as whoever wants to reach one names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "an agent's address or id, or an account's email address or id",
    max_length = 254,
    pattern = r"^([A-Za-z0-9_-][A-Za-z0-9._-]{0,127}|\.[A-Za-z0-9._-]{0,63}[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}|[^@\s\x00-\x1f\x7f-\x9f]+@[^@\s\x00-\x1f\x7f-\x9f]+)$",
    example = "bob@chorus.example"
)]
pub struct Whom(pub String);

/// Somebody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrincipalView {
    /// The id of an account or an agent.
    pub id: String,
    /// `account` or `agent`.
    #[schema(value_type = String)]
    pub kind: Word<PrincipalKind>,
}

impl From<Principal> for PrincipalView {
    fn from(principal: Principal) -> Self {
        Self { id: principal.to_string(), kind: principal.kind().into() }
    }
}

/// Which page of a list is asked for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// `next` of the page before
    pub after: Option<String>,
    /// 50 unless said
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// How many a page holds, unless said.
pub fn usual_limit() -> i64 {
    50
}

/// A page of a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Items<T> {
    /// In order.
    pub items: Vec<T>,
    /// The `after` of the next page; `null` on the last.
    pub next: Option<String>,
}
