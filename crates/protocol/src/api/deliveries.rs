//! Deliveries as owners see them: what is on its way, and what is tried anew.

use crate::words::{DeliveryState, EntryKind, Reason, Transport};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A delivery.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct DeliveryView {
    /// Its id.
    #[schema(example = "dlv_0190a3c4d5e67f8090a1b2c3d4e5f607_12")]
    pub id: String,
    /// Of which event.
    pub event_id: String,
    /// In which conversation.
    pub channel: String,
    /// To whom.
    pub agent: RecipientAgent,
    /// `chat`, or `channel` for another service's message.
    #[schema(value_type = String)]
    pub kind: EntryKind,
    /// `inbox`, `webhook` or `channel`.
    #[schema(value_type = String)]
    pub transport: Transport,
    /// `queued`, `delivered_sse`, `waiting`, `delivered`, `failed` or `dead`.
    #[schema(value_type = String)]
    pub state: DeliveryState,
    /// Why it goes to this agent.
    #[schema(value_type = Option<String>)]
    pub reason: Option<Reason>,
    /// How often it was tried, since it was replayed if it was.
    pub attempts: i64,
    /// When it is tried next.
    pub next_try: Option<String>,
    /// What went wrong last.
    pub error: Option<String>,
    /// When it was stored.
    pub created_at: String,
    /// Its place in the list; it goes out as `next`.
    #[serde(skip)]
    pub cursor: String,
}

/// To whom.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RecipientAgent {
    /// The agent's id.
    pub id: String,
    /// Its address.
    pub address: String,
}

/// A delivery that is tried anew.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReplayView {
    /// Which.
    pub id: String,
    /// `waiting`.
    #[schema(value_type = String)]
    pub state: DeliveryState,
}

/// How many deliveries are tried anew.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ReplayedView {
    /// So many.
    pub replayed: u64,
    /// Whether there are more: at most 1000 are replayed at a time.
    pub more: bool,
}
