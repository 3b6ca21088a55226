//! Divides a shared quota fairly between sources.
//!
//! A request gets at most a tenth of the rest, and at least one unit while any is left. A source that took
//! much is refused first; a new source is refused only if nothing is left, which takes many sources. Use is
//! forgotten at the end of its period. Tables are bounded. As in `rate`, time is monotonic and limits hold per
//! node.

use crate::config::quotas::OFF;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One source gets at most one part in this many of the rest.
const PART: u64 = 10;
/// The most budgets that are kept at a time; past it those go that were used least.
const MAX_KEPT: usize = 10_000;

/// FairShare of one size, each by its key, used by those who ask.
pub(crate) struct FairShare<K, W> {
    size: u64,
    period_ms: i64,
    used: Mutex<HashMap<K, Used<W>>>,
}

struct Used<W> {
    since: i64,
    total: u64,
    by: HashMap<W, u64>,
}

impl<K: Eq + Hash, W: Eq + Hash> FairShare<K, W> {
    pub(crate) fn new(size: u64, period: Duration) -> Self {
        Self { size, period_ms: period.as_millis() as i64, used: Mutex::default() }
    }

    /// Takes one of a budget, or says after how many milliseconds to try again.
    pub(crate) fn take(&self, key: K, who: W, now_ms: i64) -> Result<(), i64> {
        if self.size == OFF {
            return Ok(());
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= MAX_KEPT && !used.contains_key(&key) {
            make_room(&mut used, now_ms - self.period_ms);
        }
        let fresh = || Used { since: now_ms, total: 0, by: HashMap::new() };
        let used = used.entry(key).or_insert_with(fresh);
        if now_ms - used.since >= self.period_ms {
            *used = fresh();
        }
        let left = self.size - used.total;
        let taken = used.by.get(&who).copied().unwrap_or_default();
        if taken >= left.div_ceil(PART) {
            return Err((used.since + self.period_ms - now_ms).max(1));
        }
        used.total += 1;
        used.by.insert(who, taken + 1);
        Ok(())
    }
}

fn make_room<K, W>(used: &mut HashMap<K, Used<W>>, over: i64) {
    used.retain(|_, used| used.since > over);
    if used.len() < MAX_KEPT / 2 {
        return;
    }
    let mut totals: Vec<_> = used.values().map(|used| used.total).collect();
    let (_, middle, _) = totals.select_nth_unstable(MAX_KEPT / 2 - 1);
    let (middle, mut goes) = (*middle, MAX_KEPT / 2);
    used.retain(|_, used| {
        let stays = used.total > middle || goes == 0;
        goes -= usize::from(!stays);
        stays
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn taken(budgets: &FairShare<u32, u32>, who: u32, tries: usize) -> usize {
        (0..tries).filter(|_| budgets.take(0, who, 0).is_ok()).count()
    }

    #[test]
    fn one_cannot_use_it_up() {
        let budgets = FairShare::new(1000, HOUR);
        assert_eq!(taken(&budgets, 0, 1000), 91);
        assert_eq!(budgets.take(0, 0, 600_000), Err(3_000_000));
        assert_eq!(taken(&budgets, 1, 1000), 83);
        assert_eq!((2..30).map(|who| taken(&budgets, who, 1000)).sum::<usize>(), 773, "twenty-eight more");
        assert!(taken(&budgets, 31, 1000) > 3, "there is still something for the next");
        assert_eq!(budgets.take(1, 0, 0), Ok(()), "another budget is another");
        assert_eq!(budgets.take(0, 0, 3_600_000), Ok(()), "and it is over");
    }

    #[test]
    fn never_more_than_there_is() {
        let budgets = FairShare::new(20, HOUR);
        assert_eq!((0..1000).map(|who| taken(&budgets, who, 3)).sum::<usize>(), 20);
        let off = FairShare::new(OFF, HOUR);
        assert_eq!(taken(&off, 0, 500), 500);
    }

    #[test]
    fn a_full_table_locks_nobody_out() {
        let budgets = FairShare::new(100, HOUR);
        for _ in 0..10 {
            budgets.take(u32::MAX, 0, 0).unwrap();
        }
        for key in 0..3 * MAX_KEPT as u32 {
            assert_eq!(budgets.take(key, 0, 0), Ok(()));
        }
        assert!(budgets.used.lock().unwrap().len() <= MAX_KEPT);
        assert!(budgets.take(u32::MAX, 0, 0).is_err(), "who used most is remembered");
    }
}
