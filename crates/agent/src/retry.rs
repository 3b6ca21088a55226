//! The retry policy: the number of tries and the pauses between them.

use crate::Backoff;
use std::time::Duration;

/// A server that asks for a longer pause is not tried again.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A retry policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The total number of tries, including the first.
    pub tries: u32,
    /// Retries `delivery: failed` too, if its error code is retryable.
    pub failed_deliveries: bool,
    pub backoff: Backoff,
}

impl Default for Retry {
    fn default() -> Self {
        let backoff = Backoff { base_ms: 250, max_ms: 10_000 };
        Self { tries: 4, failed_deliveries: false, backoff }
    }
}

impl Retry {
    /// A single try.
    pub(crate) const ONCE: Self =
        Self { tries: 1, failed_deliveries: false, backoff: Backoff { base_ms: 0, max_ms: 0 } };

    /// Returns the pause after `failures` earlier failures, at least as long as the other side `asked` for.
    /// `None` when it is time to give up. `random` must be uniformly distributed.
    pub(crate) fn pause(&self, failures: u32, asked: Duration, random: u64) -> Option<Duration> {
        let again = failures.saturating_add(1) < self.tries && asked <= LONGEST_PAUSE;
        again.then(|| asked.max(Duration::from_millis(self.backoff.delay_ms(failures, random))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_at_least_what_was_asked_and_end() {
        let retry = Retry { tries: 3, ..Retry::default() };
        assert!(retry.pause(0, Duration::ZERO, 0).is_some_and(|pause| pause >= Duration::from_millis(125)));
        assert_eq!(retry.pause(1, Duration::from_secs(7), 0), Some(Duration::from_secs(7)));
        assert_eq!(retry.pause(2, Duration::ZERO, 0), None);
        assert_eq!(retry.pause(0, Duration::from_secs(61), 0), None);
    }
}
