//! How a hub is, by its own account.
//!
//! The document says only where it is asked, so all of it is ours, and another hub may say none of it.

use serde::{Deserialize, Serialize};

/// What the hub says of its health.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HealthReport {
    /// Always `ok`; a hub that is not well answers 503.
    #[serde(default)]
    #[schema(required)]
    pub status: String,
    /// Of the program.
    #[serde(default)]
    #[schema(required)]
    pub version: String,
    /// Of the envelopes it takes.
    #[serde(default)]
    #[schema(required)]
    pub chorus_version: String,
    /// The host of its addresses.
    #[serde(default)]
    #[schema(required)]
    pub host: String,
    /// The store, which has just written.
    #[serde(default)]
    #[schema(required)]
    pub store: StoreReport,
    /// How long finished history is kept; `null` for ever.
    pub retention_days: Option<u64>,
    /// On this node.
    #[serde(default)]
    #[schema(required)]
    pub open_inboxes: u64,
    /// The hub's clock.
    #[serde(default)]
    #[schema(required)]
    pub time: String,
    /// Since this node started.
    #[serde(default)]
    #[schema(required)]
    pub uptime_s: u64,
    /// Whether the market's ledger added up when it was last looked at; absent until it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market: Option<MarketReport>,
}

/// What the hub says of the market's ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MarketReport {
    /// Whether wallets and holds were together what was minted and not burned.
    pub balanced: bool,
    /// When that was looked at.
    pub checked_at: String,
}

/// What the hub says of its store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StoreReport {
    /// `sqlite` or `postgres`.
    #[serde(default)]
    #[schema(required)]
    pub kind: String,
    /// `full`: success means fsynced. `relaxed`: it means written.
    #[serde(default)]
    #[schema(required)]
    pub durability: String,
    /// How long the proof took.
    #[serde(default)]
    #[schema(required)]
    pub write_latency_ms: u64,
    /// Writes that wait.
    #[serde(default)]
    #[schema(required)]
    pub queued: u64,
}
