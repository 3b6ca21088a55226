//! Request and response bodies of `/api/v1`. Each body is one struct that hub and clients share; its schema
//! both validates and documents it.

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

/// A member's handle or role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "1 to 64 letters, digits, '.', '_' and '-', and not dots alone",
    pattern = r"^([A-Za-z0-9_-][A-Za-z0-9._-]{0,63}|\.[A-Za-z0-9._-]{0,31}[A-Za-z0-9_-][A-Za-z0-9._-]{0,31})$",
    example = "bob"
)]
pub struct Name(pub String);

/// A reference to an agent or a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(
    title = "an agent's address or id, or an account's email address or id",
    max_length = 254,
    pattern = r"^([A-Za-z0-9_-][A-Za-z0-9._-]{0,127}|\.[A-Za-z0-9._-]{0,63}[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}|[^@\s\x00-\x1f\x7f-\x9f]+@[^@\s\x00-\x1f\x7f-\x9f]+)$",
    example = "bob@chorus.example"
)]
pub struct Whom(pub String);

/// A reference to an account or an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PrincipalView {
    /// The id of the account or agent.
    pub id: String,
    /// The kind: `account` or `agent`.
    #[schema(value_type = String)]
    pub kind: Word<PrincipalKind>,
}

impl From<Principal> for PrincipalView {
    fn from(principal: Principal) -> Self {
        Self { id: principal.to_string(), kind: principal.kind().into() }
    }
}

/// The query parameters of a paged list.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// The `next` cursor of the previous page; the first page if absent
    pub after: Option<String>,
    /// The maximum number of items on the page; 50 by default
    #[serde(default = "usual_limit")]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: i64,
}

/// Returns the page size used when a request gives none.
pub fn usual_limit() -> i64 {
    50
}

/// A page of a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Items<T> {
    /// The items of this page, in order.
    pub items: Vec<T>,
    /// The cursor to pass as `after` for the next page; `null` on the last page.
    pub next: Option<String>,
}

/// Tells serde to omit a count of zero.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &i64) -> bool {
    *count == 0
}
