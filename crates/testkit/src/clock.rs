//! A manual clock in milliseconds since 1970, with a second clock that measures elapsed time only.
//!
//! Clones share both times. The clock never moves by itself and wakes no timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A manual clock; see the [module](self).
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: Arc<AtomicI64>,
    elapsed: Arc<AtomicI64>,
}

impl ManualClock {
    /// Creates a clock that shows `ms`.
    pub fn new(ms: i64) -> Self {
        Self { now: Arc::new(AtomicI64::new(ms)), elapsed: Arc::default() }
    }

    /// Returns the time that the clock shows.
    pub fn now(&self) -> i64 {
        self.now.load(Ordering::SeqCst)
    }

    /// Returns the elapsed time in milliseconds.
    pub fn elapsed(&self) -> i64 {
        self.elapsed.load(Ordering::SeqCst)
    }

    /// Lets `ms` milliseconds pass on both clocks.
    pub fn advance(&self, ms: i64) {
        self.elapsed.fetch_add(ms, Ordering::SeqCst);
        self.now.fetch_add(ms, Ordering::SeqCst);
    }

    /// Lets time pass until the clock shows `ms`.
    pub fn set(&self, ms: i64) {
        self.advance(ms - self.now());
    }

    /// Sets the clock forward by `ms`, or back if negative, without elapsed time.
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
