//! Divides something of a fixed size between holders that use it at the same time: bytes of request bodies, slots for mails.
//!
//! A holder gets at most its own limit, and at most a tenth of what the others leave. No holder can use up the whole, and a
//! newcomer is refused only when many others hold everything. A [`Share`] returns what it holds when it is dropped. Limits hold
//! per node.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One holder gets at most this part of what the others leave.
const PART: u64 = 10;

/// A pool that holders share.
pub(crate) struct Shares<H> {
    size: u64,
    of_one: u64,
    part: u64,
    held: Mutex<Held<H>>,
}

struct Held<H> {
    total: u64,
    /// Holders of nothing are not listed.
    by: HashMap<H, u64>,
}

/// The limit that a request for more has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The holder's own limit.
    OfOne,
    /// The part of the pool that the other holders leave to this one.
    OfAll,
}

/// An amount that one holder has of a pool, until it is dropped.
pub(crate) struct Share<H: Copy + Eq + Hash> {
    pool: Arc<Shares<H>>,
    holder: H,
    amount: u64,
}

impl<H: Copy + Eq + Hash> Shares<H> {
    /// A pool of this size, of which one holder gets at most `of_one`.
    pub(crate) fn new(size: u64, of_one: u64) -> Arc<Self> {
        Self::of(size, of_one, PART)
    }

    /// A pool without limits for a single holder.
    pub(crate) fn undivided(size: u64) -> Arc<Self> {
        Self::of(size, size, 1)
    }

    fn of(size: u64, of_one: u64, part: u64) -> Arc<Self> {
        let held = Mutex::new(Held { total: 0, by: HashMap::new() });
        Arc::new(Self { size, of_one, part, held })
    }

    /// A share of nothing, which can grow.
    pub(crate) fn share(self: &Arc<Self>, holder: H) -> Share<H> {
        Share { pool: Arc::clone(self), holder, amount: 0 }
    }

    fn held(&self) -> MutexGuard<'_, Held<H>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Copy + Eq + Hash> Share<H> {
    pub(crate) fn holder(&self) -> H {
        self.holder
    }

    pub(crate) fn pool(&self) -> &Arc<Shares<H>> {
        &self.pool
    }

    /// Changes the amount. Less is always granted; a refusal changes nothing.
    pub(crate) fn resize(&mut self, amount: u64) -> Result<(), Shortage> {
        if amount == self.amount {
            return Ok(());
        }
        let Shares { size, of_one, part, .. } = *self.pool;
        let mut held = self.pool.held();
        let own = held.by.get(&self.holder).copied().unwrap_or_default();
        let (wanted, others) = ((own - self.amount).saturating_add(amount), held.total - own);
        if amount > self.amount {
            if wanted > of_one {
                return Err(Shortage::OfOne);
            }
            if wanted > size.saturating_sub(others).div_ceil(part) {
                return Err(Shortage::OfAll);
            }
        }
        held.total = others + wanted;
        if wanted == 0 {
            held.by.remove(&self.holder);
        } else {
            held.by.insert(self.holder, wanted);
        }
        self.amount = amount;
        Ok(())
    }
}

impl<H: Copy + Eq + Hash> Drop for Share<H> {
    fn drop(&mut self) {
        let released = self.resize(0);
        debug_assert!(released.is_ok(), "less is never refused");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::quotas::OFF;

    fn share(pool: &Arc<Shares<u32>>, holder: u32, amount: u64) -> Result<Share<u32>, Shortage> {
        let mut share = pool.share(holder);
        share.resize(amount).map(|()| share)
    }

    #[test]
    fn a_holder_has_its_limit_and_a_tenth_of_what_others_leave() {
        let pool = Shares::new(1000, 80);
        let first = share(&pool, 1, 50).unwrap();
        let second = share(&pool, 1, 30).unwrap();
        assert_eq!(share(&pool, 1, 1).err(), Some(Shortage::OfOne));
        let mut others: Vec<_> = (2..7).map(|holder| share(&pool, holder, 60).unwrap()).collect();
        assert_eq!(share(&pool, 7, 63).err(), Some(Shortage::OfAll), "a tenth of 620 is left");
        others.push(share(&pool, 7, 62).unwrap());
        drop((first, second));
        share(&pool, 1, 63).unwrap();
        drop(others);
        let held = pool.held();
        assert_eq!((held.total, held.by.len()), (0, 0), "nobody is remembered");
    }

    #[test]
    fn a_share_grows_and_shrinks() {
        let pool = Shares::new(1000, 100);
        let mut one = share(&pool, 1, 60).unwrap();
        let other = share(&pool, 1, 40).unwrap();
        assert_eq!(one.resize(61), Err(Shortage::OfOne));
        assert_eq!(one.resize(60), Ok(()), "a refusal changes nothing");
        drop(other);
        assert_eq!(one.resize(100), Ok(()));
        assert_eq!(one.resize(0), Ok(()));
        assert_eq!(pool.held().total, 0);
    }

    #[test]
    fn a_newcomer_gets_something_as_long_as_something_is_left() {
        let pool = Shares::new(64, OFF);
        let mut held = vec![];
        let mut holders = 0;
        while let Ok(one) = share(&pool, holders, 1) {
            held.push(one);
            while let Ok(more) = share(&pool, holders, 1) {
                held.push(more);
            }
            holders += 1;
        }
        assert_eq!((held.len(), pool.held().total), (64, 64));
        assert!(holders > 20, "{holders}");
    }

    #[test]
    fn a_pool_may_be_undivided_or_without_limit() {
        let whole = Shares::undivided(100);
        let one = share(&whole, 1, 100).unwrap();
        assert_eq!(share(&whole, 2, 1).err(), Some(Shortage::OfAll));
        drop(one);
        let endless = Shares::new(OFF, OFF);
        let _held = [share(&endless, 1, 1 << 60).unwrap(), share(&endless, 2, 1 << 60).unwrap()];
    }
}
