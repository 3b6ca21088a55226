//! The health report of a hub.
//!
//! The transport document only names its path, so every member is an extension, and other hubs may send none
//! of them.

use crate::market::WalletDiscrepancy;
use serde::{Deserialize, Serialize};

/// The health of the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HealthReport {
    /// Always `ok`. An unhealthy hub responds with status 503.
    #[serde(default)]
    #[schema(required)]
    pub status: String,
    /// The version of the program.
    #[serde(default)]
    #[schema(required)]
    pub version: String,
    /// The version of the envelopes that the hub accepts.
    #[serde(default)]
    #[schema(required)]
    pub chorus_version: String,
    /// The host of the hub's addresses.
    #[serde(default)]
    #[schema(required)]
    pub host: String,
    /// The state of the store, which the report tests with a write.
    #[serde(default)]
    #[schema(required)]
    pub store: StoreReport,
    /// The number of days for which finished history is kept; `null` if it is kept forever.
    pub retention_days: Option<u64>,
    /// The number of open inbox streams on this node.
    #[serde(default)]
    #[schema(required)]
    pub open_inboxes: u64,
    /// The time of the hub's clock.
    #[serde(default)]
    #[schema(required)]
    pub time: String,
    /// The time since this node started, in seconds.
    #[serde(default)]
    #[schema(required)]
    pub uptime_s: u64,
    /// The state of the market's ledger at the last check; absent before the first check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market: Option<MarketReport>,
    /// The state of the transparency log at the last check; absent before the first check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogReport>,
}

/// The state of the transparency log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LogReport {
    /// The number of leaves.
    pub size: u64,
    /// `true` if the head matches the leaves and the newest leaf is in the tree.
    pub ok: bool,
    /// The time of the check.
    #[serde(default)]
    #[schema(required)]
    pub checked_at: String,
}

/// The state of the market's ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MarketReport {
    /// `true` if wallets and holds equal the minted minus the burned credits, and each wallet equals its own
    /// ledger.
    pub balanced: bool,
    /// The time of the check.
    pub checked_at: String,
    /// The wallets that differ from their ledger or their open jobs, up to a hundred. For the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discrepancies: Vec<WalletDiscrepancy>,
}

/// The state of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StoreReport {
    /// The kind of store: `sqlite` or `postgres`.
    #[serde(default)]
    #[schema(required)]
    pub kind: String,
    /// `full` if a successful write is fsynced, `relaxed` if it is only written.
    #[serde(default)]
    #[schema(required)]
    pub durability: String,
    /// The duration of the test write in milliseconds.
    #[serde(default)]
    #[schema(required)]
    pub write_latency_ms: u64,
    /// The number of waiting writes.
    #[serde(default)]
    #[schema(required)]
    pub queued: u64,
}
