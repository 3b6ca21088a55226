//! Rate limits, as a pure engine: the generic cell rate algorithm, time as an argument.
//!
//! Each caller has one number, the time at which its allowance is whole again. A request moves that time onward by
//! one interval and is refused when it would lie further ahead than the burst allows. Limits hold per node.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Past this many callers, those with a whole allowance are forgotten; it is what a new one would have.
const MAX_CALLERS: usize = 50_000;
/// A caller may use up this much of its allowance at once, in milliseconds' worth.
const BURST_MS: i64 = 10_000;
const MINUTE_US: i64 = 60_000_000;

/// The allowance of callers of one kind.
pub(crate) struct Limiter<K> {
    /// Microseconds each request costs.
    interval_us: i64,
    /// Microseconds' worth that may be used up at once.
    burst_us: i64,
    /// Microseconds since 1970 at which each caller's allowance is whole again.
    whole_at: Mutex<HashMap<K, i64>>,
}

impl<K: Eq + Hash> Limiter<K> {
    pub(crate) fn per_minute(requests: u32) -> Self {
        let interval_us = MINUTE_US / i64::from(requests.max(1));
        // Even a tiny limit lets one request through at a time.
        Self { interval_us, burst_us: (BURST_MS * 1000).max(interval_us), whole_at: Mutex::default() }
    }

    /// The same, where all of a minute's may come at once.
    pub(crate) fn per_minute_at_once(requests: u32) -> Self {
        Self { burst_us: MINUTE_US, ..Self::per_minute(requests) }
    }

    /// Takes one request at `now`, or says after how many milliseconds to try again.
    pub(crate) fn take(&self, caller: K, now_ms: i64) -> Result<(), i64> {
        self.take_several(caller, 1, now_ms)
    }

    /// The same for several, all or none. More than the burst never succeed.
    pub(crate) fn take_several(&self, caller: K, count: u32, now_ms: i64) -> Result<(), i64> {
        let mut callers = self.whole_at();
        if callers.len() >= MAX_CALLERS && !callers.contains_key(&caller) {
            callers.retain(|_, whole_at| *whole_at > now_ms * 1000);
            if callers.len() >= MAX_CALLERS {
                // More active callers than we can count: better to refuse a new one than to count none.
                return Err(1000);
            }
        }
        let next = self.next(callers.get(&caller), count, now_ms)?;
        callers.insert(caller, next);
        Ok(())
    }

    /// Whether [`Self::take`] would succeed.
    pub(crate) fn peek(&self, caller: &K, now_ms: i64) -> Result<(), i64> {
        self.next(self.whole_at().get(caller), 1, now_ms).map(|_| ())
    }

    /// When the allowance would be whole again after so many more requests.
    fn next(&self, whole_at: Option<&i64>, count: u32, now_ms: i64) -> Result<i64, i64> {
        let now = now_ms * 1000;
        let next = whole_at.map_or(now, |whole_at| now.max(*whole_at)) + i64::from(count) * self.interval_us;
        let beyond = next - now - self.burst_us;
        if beyond > 0 { Err((beyond / 1000).max(1)) } else { Ok(next) }
    }

    fn whole_at(&self) -> MutexGuard<'_, HashMap<K, i64>> {
        self.whole_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let limiter = Limiter::per_minute(60);
        let granted = (0..100).filter(|_| limiter.take("a", 1_000_000).is_ok()).count();
        assert_eq!(granted, 10);
        assert_eq!(limiter.take("a", 1_000_000), Err(1000));
        assert_eq!(limiter.take("b", 1_000_000), Ok(()));
        assert_eq!(limiter.take("a", 1_001_000), Ok(()));
        assert!(limiter.take("a", 1_001_000).is_err());
    }

    #[test]
    fn a_whole_minute_at_once() {
        let limiter = Limiter::per_minute_at_once(30);
        assert_eq!(limiter.take_several("a", 29, 0), Ok(()));
        assert_eq!(limiter.take_several("a", 2, 0), Err(2000), "all or none");
        assert_eq!(limiter.take("a", 0), Ok(()));
        assert_eq!(limiter.take("a", 0), Err(2000));
        assert_eq!(limiter.take("a", 2000), Ok(()));
    }

    #[test]
    fn a_tiny_limit_still_lets_one_through() {
        let limiter = Limiter::per_minute(1);
        assert_eq!(limiter.take("a", 0), Ok(()));
        assert_eq!(limiter.take("a", 0), Err(60_000));
        assert_eq!(limiter.take("a", 60_000), Ok(()));
    }

    #[test]
    fn memory_is_bounded() {
        let limiter = Limiter::per_minute(6000);
        for n in 0..MAX_CALLERS {
            limiter.take(n, 0).unwrap();
        }
        assert!(limiter.take(usize::MAX, 0).is_err());
        assert!(limiter.take(usize::MAX, 60_000).is_ok());
        assert!(limiter.whole_at.lock().unwrap().len() < MAX_CALLERS);
    }

    proptest::proptest! {
        /// Whatever the pattern, no window of a minute grants more than the rate and one burst.
        #[test]
        fn never_more_than_rate_and_burst(gaps in proptest::collection::vec(0i64..200, 1..600)) {
            let limiter = Limiter::per_minute(600);
            let (mut now, mut granted) = (0, 0);
            for gap in gaps {
                now += gap;
                granted += i64::from(limiter.take((), now).is_ok());
            }
            proptest::prop_assert!(granted <= 100 + now / 100 + 1);
        }
    }
}
