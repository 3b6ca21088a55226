//! Rate limits as a pure engine: the generic cell rate algorithm, with time as an argument.
//!
//! Each caller has one number, the time at which its allowance is full again. A request moves that time
//! forward by one interval, and is refused if it would exceed the burst. Limits hold per node. Time is
//! monotonic: a clock that is set back would block everybody.
//!
//! A full table refuses nobody: it forgets the callers with the least use. Callers at their limit are
//! remembered longest.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Past this many callers, those with a whole allowance are forgotten; it is what a new one would have. If these are too
/// few, so is the half that used least.
const MAX_CALLERS: usize = 50_000;
/// A caller may use up this much of its allowance at once, in milliseconds' worth.
const BURST_MS: i64 = 10_000;
const MINUTE_US: i64 = 60_000_000;

/// The allowance of callers of one kind.
pub struct Limiter<K> {
    /// Microseconds each request costs.
    interval_us: i64,
    /// Microseconds' worth that may be used up at once.
    burst_us: i64,
    /// Microseconds at which each caller's allowance is whole again.
    whole_at: Mutex<HashMap<K, i64>>,
}

impl<K: Eq + Hash> Limiter<K> {
    pub fn per_minute(requests: u32) -> Self {
        let interval_us = interval(MINUTE_US, requests.into());
        // Even a tiny limit lets one request through at a time.
        Self { interval_us, burst_us: (BURST_MS * 1000).max(interval_us), whole_at: Mutex::default() }
    }

    /// The same, where all of a minute's may come at once.
    pub fn per_minute_at_once(requests: u32) -> Self {
        Self { burst_us: MINUTE_US, ..Self::per_minute(requests) }
    }

    /// Creates a limiter of `requests` per period, all of which may come at once.
    pub fn at_once(requests: u64, period: Duration) -> Self {
        let period_us = period.as_micros() as i64;
        Self { interval_us: interval(period_us, requests), burst_us: period_us, whole_at: Mutex::default() }
    }

    /// The same, where no more than some come at once.
    pub fn some_at_once(some: u64, requests: u64, period: Duration) -> Self {
        let all = Self::at_once(requests, period);
        let some_us = all.interval_us.saturating_mul(i64::try_from(some).unwrap_or(i64::MAX));
        Self { burst_us: some_us.min(all.burst_us), ..all }
    }

    /// Takes one request at `now`, or says after how many milliseconds to try again.
    pub fn take(&self, caller: K, now_ms: i64) -> Result<(), i64> {
        self.take_several(caller, 1, now_ms)
    }

    /// The same for several, all or none. More than the burst never succeed.
    pub fn take_several(&self, caller: K, count: u32, now_ms: i64) -> Result<(), i64> {
        let mut callers = self.whole_at();
        if callers.len() >= MAX_CALLERS && !callers.contains_key(&caller) {
            make_room(&mut callers, now_ms * 1000);
        }
        let next = self.next(callers.get(&caller), count, now_ms)?;
        callers.insert(caller, next);
        Ok(())
    }

    /// Returns the callers that would be refused now, each with the milliseconds left, the longest first and
    /// at most `most`.
    pub fn at_limit(&self, now_ms: i64, most: usize) -> Vec<(K, i64)>
    where
        K: Clone,
    {
        let callers = self.whole_at();
        let refused = |(caller, whole_at): (&K, &i64)| {
            Some((caller.clone(), self.next(Some(whole_at), 1, now_ms).err()?))
        };
        let mut found: Vec<_> = callers.iter().filter_map(refused).collect();
        found.sort_unstable_by_key(|(_, wait)| std::cmp::Reverse(*wait));
        found.truncate(most);
        found
    }

    /// Returns the sustained rate per minute.
    pub fn in_a_minute(&self) -> u64 {
        (MINUTE_US / self.interval_us).max(0) as u64
    }

    /// Returns the time at which the allowance would be full again after `count` more requests, or the wait as
    /// the error.
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

/// Returns the interval of each of `requests` in a period.
fn interval(period_us: i64, requests: u64) -> i64 {
    (period_us / i64::try_from(requests.max(1)).unwrap_or(i64::MAX)).max(1)
}

/// Forgets those whose allowance is whole, and if that leaves more than half, the half that used least. It is long work, so
/// it makes room for many.
fn make_room<K>(callers: &mut HashMap<K, i64>, now_us: i64) {
    callers.retain(|_, whole_at| *whole_at > now_us);
    let over = callers.len().saturating_sub(MAX_CALLERS / 2);
    if over == 0 {
        return;
    }
    let mut times: Vec<_> = callers.values().copied().collect();
    let (_, last, _) = times.select_nth_unstable(over - 1);
    let (last, mut left) = (*last, over);
    // As many as there must be and no more, however many share a time.
    callers.retain(|_, whole_at| {
        let goes = *whole_at <= last && left > 0;
        left -= usize::from(goes);
        !goes
    });
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
        assert_eq!(limiter.at_limit(1_000_000, 9), [("a", 1000)]);
        assert_eq!((limiter.at_limit(1_000_000, 0), limiter.at_limit(1_001_000, 9)), (vec![], vec![]));
        assert_eq!(limiter.in_a_minute(), 60);
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

    /// A full table refuses no caller, and callers at the limit stay there.
    #[test]
    fn a_full_table_locks_nobody_out() {
        let limiter = Limiter::per_minute(6000);
        assert_eq!(limiter.take_several(usize::MAX, 1000, 0), Ok(()));
        for n in 0..3 * MAX_CALLERS {
            assert_eq!(limiter.take(n, 0), Ok(()), "{n}");
        }
        assert!(limiter.whole_at().len() <= MAX_CALLERS);
        assert!(limiter.take(usize::MAX, 0).is_err());
    }

    #[test]
    fn so_many_in_an_hour() {
        let limiter = Limiter::at_once(5, Duration::from_hours(1));
        assert_eq!((0..9).filter(|_| limiter.take("a", 0).is_ok()).count(), 5);
        assert_eq!(limiter.take("a", 12 * 60_000), Ok(()));
        assert!(limiter.take("a", 12 * 60_000).is_err());
        assert_eq!(Limiter::at_once(u64::MAX, Duration::from_hours(1)).take("a", 0), Ok(()));
        let some = Limiter::some_at_once(2, 5, Duration::from_hours(1));
        assert_eq!((0..9).filter(|_| some.take("a", 0).is_ok()).count(), 2);
        assert_eq!((0..9).filter(|_| some.take("a", 12 * 60_000).is_ok()).count(), 1);
    }

    proptest::proptest! {
        /// For every pattern, no window of a minute grants more than the rate and one burst.
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
