//! Exponential backoff with jitter.
//!
//! Pure: the caller brings the randomness and does the waiting. Half of each pause is fixed, so that an
//! overloaded hub gets some rest, and half is random, so that its clients do not all reconnect at the same
//! moment.

/// The pauses between tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The longest first pause, in milliseconds.
    pub base_ms: u64,
    /// The upper limit of every pause, in milliseconds.
    pub max_ms: u64,
}

impl Backoff {
    /// Returns the pause after `failures` failures in a row (the first is 0): between half of `base_ms *
    /// 2^failures` and all of it. `random` must be uniformly distributed.
    pub fn delay_ms(self, failures: u32, random: u64) -> u64 {
        let factor = 1_u64.checked_shl(failures).unwrap_or(u64::MAX);
        let full = self.base_ms.saturating_mul(factor).min(self.max_ms);
        let fixed = full / 2;
        fixed + random % (full - fixed + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doubles_up_to_the_limit() {
        let backoff = Backoff { base_ms: 100, max_ms: 1000 };
        let longest: Vec<u64> =
            (0..6).map(|n| (0..=500).map(|random| backoff.delay_ms(n, random)).max().unwrap()).collect();
        assert_eq!(longest, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.delay_ms(0, 0), 50);
    }

    proptest! {
        #[test]
        fn stays_between_half_and_all(base in 0u64..1 << 40, max in 0u64..1 << 40, failures: u32, random: u64) {
            let delay = Backoff { base_ms: base, max_ms: max }.delay_ms(failures, random);
            prop_assert!(delay <= max);
            prop_assert!(delay >= base.min(max) / 2);
        }
    }
}
