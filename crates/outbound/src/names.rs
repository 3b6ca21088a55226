//! A short-lived cache of resolved names. Rate limits and connections see the same addresses, even if a name
//! server changes its answer.

use crate::policy::Policy;
use std::collections::HashMap;
use std::error::Error;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The lifetime of an entry.
const KEPT: Duration = Duration::from_secs(30);
/// The maximum number of entries.
const MOST_NAMES: usize = 1000;
/// The maximum number of addresses used of one name, which bounds the cost of a request in rate limits.
const MOST_ADDRESSES: usize = 16;

type Known = HashMap<Box<str>, (Instant, Arc<[IpAddr]>)>;

#[derive(Debug)]
pub(crate) struct Names {
    policy: Policy,
    known: Mutex<Known>,
}

impl Names {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, known: Mutex::default() }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the addresses of a name, or an error if one of them is blocked.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Arc<[IpAddr]>, Box<dyn Error + Send + Sync>> {
        if let Some((since, found)) = self.known().get(name)
            && since.elapsed() < KEPT
        {
            return Ok(Arc::clone(found));
        }
        let found: Vec<_> = tokio::net::lookup_host((name, 0)).await?.map(|found| found.ip()).collect();
        for address in &found {
            self.policy.check(*address).map_err(|blocked| blocked.by_name(name))?;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "names and their addresses are the network's, and no simulation has one"
        )]
        let now = Instant::now();
        Ok(keep(&mut self.known(), name, found.into_iter().take(MOST_ADDRESSES).collect(), now))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores the addresses, unless another task stored some meanwhile. Returns the stored addresses.
fn keep(known: &mut Known, name: &str, found: Arc<[IpAddr]>, now: Instant) -> Arc<[IpAddr]> {
    let is_fresh = |since: Instant| now.saturating_duration_since(since) < KEPT;
    if let Some((_, theirs)) = known.get(name).filter(|(since, _)| is_fresh(*since)) {
        return Arc::clone(theirs);
    }
    if known.len() >= MOST_NAMES {
        known.retain(|_, (since, _)| is_fresh(*since));
    }
    if known.len() >= MOST_NAMES
        && let Some(any) = known.keys().next().cloned()
    {
        known.remove(&any);
    }
    known.insert(name.into(), (now, Arc::clone(&found)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "some moment")]
    fn a_name_keeps_its_addresses_for_a_while() {
        let (mut known, now) = (Known::default(), Instant::now());
        let [one, other] = [1, 2].map(|n| Arc::<[IpAddr]>::from([IpAddr::from([192, 0, 2, n])]));
        let mut kept = |found: &Arc<[IpAddr]>, at| keep(&mut known, "a.example", Arc::clone(found), at);
        assert_eq!(kept(&one, now), one);
        assert_eq!(kept(&other, now + KEPT / 2), one, "whatever a name server says meanwhile");
        assert_eq!(kept(&other, now + KEPT), other);
        for n in 0..2 * MOST_NAMES {
            keep(&mut known, &format!("{n}.example"), Arc::clone(&one), now + KEPT);
        }
        assert_eq!(known.len(), MOST_NAMES);
    }

    #[tokio::test]
    async fn what_may_not_be_called_is_not_kept() {
        let names = Names::new(Policy::default());
        assert!(names.addresses("localhost").await.is_err());
        assert!(names.known().is_empty());
        let allowed = Policy { allow: vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()] };
        let names = Names::new(allowed);
        let found = names.addresses("localhost").await.unwrap();
        assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty());
        assert_eq!(names.known().len(), 1);
    }
}
