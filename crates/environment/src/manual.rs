//! A manual clock and a deterministic random generator.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A clock for simulations, in milliseconds. Clones share the time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Creates a clock that shows `now_ms`.
    pub fn new(now_ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(now_ms)))
    }

    /// Returns the time that the clock shows.
    pub fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn advance(&self, by_ms: i64) {
        self.0.fetch_add(by_ms, Ordering::Relaxed);
    }

    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }
}

/// Returns a SplitMix64 generator, which makes eight bytes per step of its counter.
pub(crate) fn generator(seed: u64) -> impl Fn(&mut [u8]) {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let counter = AtomicU64::new(seed);
    move |bytes| {
        for piece in bytes.chunks_mut(8) {
            let mut mixed = counter.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let mixed = (mixed ^ (mixed >> 31)).to_le_bytes();
            piece.copy_from_slice(&mixed[..piece.len()]);
        }
    }
}
