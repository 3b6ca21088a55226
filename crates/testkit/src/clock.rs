//! A clock set by hand, in milliseconds since 1970.
//!
//! Clones share one time. It never moves by itself and wakes nobody; sleeping is not its business.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that stands at `ms`.
    pub fn new(ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(ms)))
    }

    /// The time it shows.
    pub fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Moves it on by `ms`, or back if that is negative.
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// Moves it to `ms`.
    pub fn set(&self, ms: i64) {
        self.0.store(ms, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_time() {
        let clock = ManualClock::new(1_000);
        let other = clock.clone();
        other.advance(500);
        assert_eq!(clock.now(), 1_500);
        clock.set(7);
        assert_eq!(other.now(), 7);
    }
}
