//! A clock set by hand, in milliseconds since 1970, and beside it one that says only how much time has passed.
//!
//! Clones share their times. They never move by themselves and wake nobody; sleeping is not their business.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// See the [module](self).
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: Arc<AtomicI64>,
    elapsed: Arc<AtomicI64>,
}

impl ManualClock {
    /// A clock that stands at `ms`.
    pub fn new(ms: i64) -> Self {
        Self { now: Arc::new(AtomicI64::new(ms)), elapsed: Arc::default() }
    }

    /// The time it shows.
    pub fn now(&self) -> i64 {
        self.now.load(Ordering::SeqCst)
    }

    /// How much time has passed.
    pub fn elapsed(&self) -> i64 {
        self.elapsed.load(Ordering::SeqCst)
    }

    /// So much time passes.
    pub fn advance(&self, ms: i64) {
        self.elapsed.fetch_add(ms, Ordering::SeqCst);
        self.now.fetch_add(ms, Ordering::SeqCst);
    }

    /// So much time passes that it shows `ms`.
    pub fn set(&self, ms: i64) {
        self.advance(ms - self.now());
    }

    /// Somebody sets it on by `ms`, or back if that is negative. No time passes.
    pub fn step(&self, ms: i64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
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
        assert_eq!((clock.now(), clock.elapsed()), (1_500, 500));
        clock.step(-1_000);
        assert_eq!((other.now(), other.elapsed()), (500, 500));
    }
}
