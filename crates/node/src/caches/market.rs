//! A node's market caches: signs of life, recent search results and recent probes.
//!
//! Everything here is bounded, knows no store, and may be lost at any time. The time is an argument. It is
//! monotonic, except for signs of life, which are stored and use the wall clock.

mod compiled;
mod pages;
mod schemas;

pub use pages::{Asked, Moment};
pub use schemas::Takes;

use chorus_protocol::ids::{AgentId, WalletId};
use chorus_protocol::market::WalletDiscrepancy;
use compiled::CompiledSchemas;
use pages::Pages;
use schemas::Schemas;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;

/// More signs of life do not wait to be written; those beyond are lost, and the next ones are not.
const MOST_SEEN: usize = 100_000;
/// The least total that is cached. Smaller totals are cheap to count each time.
const MANY: i64 = 100;
const REMEMBERED_MS: i64 = 5000;
/// Cached searches. When there are more, the cache is cleared.
const MOST_REMEMBERED: usize = 1000;
/// The time for which it is cached whether few agents are online.
const ONLINE_MS: i64 = 1000;
/// The same search looks for those that are away no more often than this, when it is only a search.
const LOOK_PAUSE_MS: i64 = 1000;
/// Cached searches. When there are more, the cache is cleared.
const MOST_LOOKS: usize = 1000;
/// The number of times that the pause after silence doubles.
const MOST_DOUBLINGS: u32 = 3;
/// Agents with a recorded probe. Beyond that no agent is probed until some are forgotten.
const MOST_ASKED: usize = 10_000;

/// A node's market caches.
#[derive(Default)]
pub struct MarketCache {
    /// Signs of life: when, and whether that is still to be written.
    seen: Mutex<HashMap<AgentId, (i64, bool)>>,
    /// Totals of the latest searches.
    pub totals: Totals,
    /// Pages of the latest searches.
    pub pages: Pages,
    /// The cached answer whether few agents are online.
    pub online: Online,
    /// The last time it was all added up: whether it was right, and when.
    reconciled: Mutex<Option<(bool, i64)>>,
    /// The wallets that the last check of the books found to be off.
    discrepancies: Mutex<Vec<(WalletId, WalletDiscrepancy)>>,
    /// Recent probes of endpoints.
    pub probes: Probes,
    /// Input schemas of skills.
    pub schemas: Schemas,
    pub compiled: CompiledSchemas,
}

impl MarketCache {
    /// Returns whether an agent gave a sign of life in this range. A sign ahead of the clock dates from before
    /// the clock was set back, and does not count.
    pub fn was_seen(&self, agent: AgentId, lately: RangeInclusive<i64>) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&agent).is_some_and(|(at, _)| lately.contains(at))
    }

    /// An agent lives; it is written with the others.
    pub fn saw(&self, agent: AgentId, now: i64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < MOST_SEEN || seen.contains_key(&agent) {
            seen.insert(agent, (now, true));
        }
    }

    /// The last time it was all added up: whether it was right, and when.
    pub fn reconciled(&self) -> Option<(bool, i64)> {
        *self.reconciled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the wallets that the last check of the books found to be off.
    pub fn discrepancies(&self) -> Vec<(WalletId, WalletDiscrepancy)> {
        self.discrepancies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_discrepancies(&self, found: Vec<(WalletId, WalletDiscrepancy)>) {
        *self.discrepancies.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }

    pub fn added_up(&self, is_right: bool, now: i64) {
        *self.reconciled.lock().unwrap_or_else(PoisonError::into_inner) = Some((is_right, now));
    }

    /// The signs of life that are still to be written; all that are not of late are forgotten.
    pub fn take_seen(&self, lately: RangeInclusive<i64>) -> Vec<(AgentId, i64)> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let unwritten = seen.iter().filter(|(_, (_, unwritten))| *unwritten);
        let found: Vec<_> = unwritten.map(|(agent, (at, _))| (*agent, *at)).collect();
        seen.retain(|_, (at, _)| lately.contains(at));
        for (_, unwritten) in seen.values_mut() {
            *unwritten = false;
        }
        found
    }
}

/// Totals of the latest searches with many hits, each with its time.
#[derive(Default)]
pub struct Totals(Mutex<HashMap<Asked, (i64, i64)>>);

impl Totals {
    fn known(&self) -> MutexGuard<'_, HashMap<Asked, (i64, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn find(&self, asked: &Asked, now: i64) -> Option<i64> {
        self.known().get(asked).filter(|(_, at)| now - at < REMEMBERED_MS).map(|(total, _)| *total)
    }

    pub fn remember(&self, asked: Asked, total: i64, now: i64) {
        if total >= MANY {
            let mut known = self.known();
            if known.len() >= MOST_REMEMBERED {
                known.clear();
            }
            known.insert(asked, (total, now));
        }
    }
}

/// The answer whether few agents were online at the last check, with its time.
#[derive(Default)]
pub struct Online(Mutex<Option<(bool, i64)>>);

impl Online {
    fn looked(&self) -> MutexGuard<'_, Option<(bool, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last answer, or `false` if there is none.
    pub fn are_few(&self) -> bool {
        self.looked().is_some_and(|(few, _)| few)
    }

    /// Returns whether the cached answer is recent enough.
    pub fn is_known(&self, now: i64) -> bool {
        self.looked().is_some_and(|(_, at)| now - at < ONLINE_MS)
    }

    pub fn remember(&self, few: bool, now: i64) {
        *self.looked() = Some((few, now));
    }
}

/// A probe of an agent: its time and its answer. Concurrent callers wait for the same answer.
#[derive(Debug, Clone)]
pub struct Probe {
    at: i64,
    /// The wall-clock time of the probe, which is stored after an answer.
    pub seen_at: i64,
    /// Consecutive silent probes before this one.
    silences: u32,
    pub answered: Arc<OnceCell<bool>>,
}

impl Probe {
    fn was_silent(&self) -> bool {
        self.answered.get() == Some(&false)
    }

    /// Returns whether it is too early for another probe, for this length of one pause.
    fn is_recent(&self, now: i64, pause_ms: i64) -> bool {
        let doublings = if self.was_silent() { self.silences.min(MOST_DOUBLINGS) } else { 0 };
        now < self.at + (pause_ms << doublings)
    }
}

/// Recent probes of endpoints, and recent searches that probed.
#[derive(Debug, Default)]
pub struct Probes {
    asked: Mutex<HashMap<AgentId, Probe>>,
    looks: Mutex<HashMap<String, i64>>,
}

impl Probes {
    /// Returns whether an agent was silent at its last recent probe.
    pub fn is_silent(&self, agent: AgentId, now: i64, pause_ms: i64) -> bool {
        let probes = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        probes.get(&agent).is_some_and(|probe| probe.was_silent() && probe.is_recent(now, pause_ms))
    }

    /// The question to this one: the one that was put lately, or a new one.
    pub fn question(&self, agent: AgentId, now: i64, seen_at: i64, pause_ms: i64) -> Option<Probe> {
        let mut probes = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if probes.len() >= MOST_ASKED {
            probes.retain(|_, probe| probe.is_recent(now, pause_ms));
        }
        let known = probes.get(&agent);
        match known {
            Some(probe) if probe.is_recent(now, pause_ms) => Some(probe.clone()),
            None if probes.len() >= MOST_ASKED => None,
            _ => {
                let silences = known.filter(|probe| probe.was_silent()).map_or(0, |probe| probe.silences + 1);
                let probe = Probe { at: now, seen_at, silences, answered: Arc::default() };
                probes.insert(agent, probe.clone());
                Some(probe)
            }
        }
    }

    /// Returns whether this search probed offline agents just now.
    pub fn has_looked(&self, search: &str, now: i64) -> bool {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.get(search).is_some_and(|at| (now - LOOK_PAUSE_MS..=now).contains(at))
    }

    /// Records that this search probed offline agents.
    pub fn looked(&self, search: String, now: i64) {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        if looks.len() >= MOST_LOOKS {
            looks.clear();
        }
        looks.insert(search, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chorus_protocol::market::{Credits, Reputation};

    #[test]
    fn only_what_is_many_is_remembered_and_for_a_while() {
        let asked =
            |skill: &str| -> Asked { (Some(skill.to_owned()), Reputation::MIN, Credits::MAX, vec![], false) };
        let totals = Totals::default();
        totals.remember(asked("few"), MANY - 1, 0);
        totals.remember(asked("many"), MANY, 0);
        assert_eq!(totals.find(&asked("few"), 0), None);
        assert_eq!(totals.find(&asked("many"), REMEMBERED_MS - 1), Some(MANY));
        assert_eq!(totals.find(&asked("many"), REMEMBERED_MS), None);
        for n in 0..2 * MOST_REMEMBERED {
            totals.remember(asked(&n.to_string()), MANY, 0);
            assert!(totals.known().len() <= MOST_REMEMBERED);
        }
    }
}
