//! Caches of a node. Each is bounded and may be lost at any time.

pub mod callers;
pub mod market;

use self::callers::CallerCache;
use self::market::MarketCache;
use std::sync::Arc;

#[derive(Default)]
pub struct Caches {
    /// Shared with the store, which drops revoked keys from it.
    pub callers: Arc<CallerCache>,
    pub market: MarketCache,
}
