//! What a node knows of the market in memory: signs of life, what searches found lately, and who was asked lately whether it lives.
//!
//! Everything here is bounded, knows no store, and may be lost at any time. What time it is, is an argument: that which passes
//! whatever is done to the clock, but for signs of life, which are written, and are the clock's.

mod pages;
mod schemas;

pub(crate) use pages::{Asked, Moment};
pub(crate) use schemas::Takes;

use chorus_protocol::ids::AgentId;
use pages::Pages;
use schemas::Schemas;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;

/// More signs of life do not wait to be written; those beyond are lost, and the next ones are not.
const MOST_SEEN: usize = 100_000;
/// Fewer than this are counted each time; a larger number is remembered for a while, because counting costs what is counted.
const MANY: i64 = 100;
const REMEMBERED_MS: i64 = 5000;
/// So many searches are remembered; when there are more, all are forgotten.
const MOST_REMEMBERED: usize = 1000;
/// How long it is remembered whether few are online.
const ONLINE_MS: i64 = 1000;
/// The same search looks for those that are away no more often than this, when it is only a search.
const LOOK_PAUSE_MS: i64 = 1000;
/// So many searches are remembered; then all are forgotten.
const MOST_LOOKS: usize = 1000;
/// However often somebody was silent, the pause is doubled no more than so many times.
const MOST_DOUBLINGS: u32 = 3;
/// Of no more is anything remembered; beyond that nobody is asked until some are forgotten.
const MOST_ASKED: usize = 10_000;

/// What a node knows of the market in memory.
#[derive(Default)]
pub struct MarketMemory {
    /// Signs of life: when, and whether that is still to be written.
    seen: Mutex<HashMap<AgentId, (i64, bool)>>,
    /// How many agents the latest searches found.
    pub(crate) totals: Totals,
    /// Pages of the latest searches.
    pub(crate) pages: Pages,
    /// Whether few are online.
    pub(crate) online: Online,
    /// The last time it was all added up: whether it was right, and when.
    reconciled: Mutex<Option<(bool, i64)>>,
    /// Whose endpoint was asked lately whether it lives.
    pub(crate) probes: Probes,
    /// What skills take.
    pub(crate) schemas: Schemas,
}

impl MarketMemory {
    /// Whether there was a sign of life of an agent lately. What is ahead of the clock was seen before that was set back, and says
    /// nothing.
    pub(crate) fn was_seen(&self, agent: AgentId, lately: RangeInclusive<i64>) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&agent).is_some_and(|(at, _)| lately.contains(at))
    }

    /// An agent lives; it is written with the others.
    pub(crate) fn saw(&self, agent: AgentId, now: i64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < MOST_SEEN || seen.contains_key(&agent) {
            seen.insert(agent, (now, true));
        }
    }

    /// The last time it was all added up: whether it was right, and when.
    pub fn reconciled(&self) -> Option<(bool, i64)> {
        *self.reconciled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn added_up(&self, is_right: bool, now: i64) {
        *self.reconciled.lock().unwrap_or_else(PoisonError::into_inner) = Some((is_right, now));
    }

    /// The signs of life that are still to be written; all that are not of late are forgotten.
    pub(crate) fn take_seen(&self, lately: RangeInclusive<i64>) -> Vec<(AgentId, i64)> {
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

/// How many agents the latest searches found, of those that found many, and when.
#[derive(Default)]
pub(crate) struct Totals(Mutex<HashMap<Asked, (i64, i64)>>);

impl Totals {
    fn known(&self) -> MutexGuard<'_, HashMap<Asked, (i64, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, asked: &Asked, now: i64) -> Option<i64> {
        self.known().get(asked).filter(|(_, at)| now - at < REMEMBERED_MS).map(|(total, _)| *total)
    }

    pub(crate) fn remember(&self, asked: Asked, total: i64, now: i64) {
        if total >= MANY {
            let mut known = self.known();
            if known.len() >= MOST_REMEMBERED {
                known.clear();
            }
            known.insert(asked, (total, now));
        }
    }
}

/// Whether few were online when that was last looked at, and when.
#[derive(Default)]
pub(crate) struct Online(Mutex<Option<(bool, i64)>>);

impl Online {
    fn looked(&self) -> MutexGuard<'_, Option<(bool, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As it was found the last time; what was never looked at is not few.
    pub(crate) fn are_few(&self) -> bool {
        self.looked().is_some_and(|(few, _)| few)
    }

    /// Whether that was looked at so lately that it still holds.
    pub(crate) fn is_known(&self, now: i64) -> bool {
        self.looked().is_some_and(|(_, at)| now - at < ONLINE_MS)
    }

    pub(crate) fn remember(&self, few: bool, now: i64) {
        *self.looked() = Some((few, now));
    }
}

/// When somebody was asked, and whether it answered. Whoever comes meanwhile waits for the same answer.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    at: i64,
    /// The same by the clock: what is kept of an answer.
    pub(crate) seen_at: i64,
    /// How often it had been silent before, one time after the other.
    silences: u32,
    pub(crate) answered: Arc<OnceCell<bool>>,
}

impl Probe {
    fn was_silent(&self) -> bool {
        self.answered.get() == Some(&false)
    }

    /// Whether it is too early to ask again, where one pause is so long.
    fn is_recent(&self, now: i64, pause_ms: i64) -> bool {
        let doublings = if self.was_silent() { self.silences.min(MOST_DOUBLINGS) } else { 0 };
        now < self.at + (pause_ms << doublings)
    }
}

/// Whose endpoint was asked lately, and for which searches that was looked at.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    asked: Mutex<HashMap<AgentId, Probe>>,
    looks: Mutex<HashMap<String, i64>>,
}

impl Probes {
    /// Whether this one has not answered lately.
    pub(crate) fn is_silent(&self, agent: AgentId, now: i64, pause_ms: i64) -> bool {
        let probes = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        probes.get(&agent).is_some_and(|probe| probe.was_silent() && probe.is_recent(now, pause_ms))
    }

    /// The question to this one: the one that was put lately, or a new one.
    pub(crate) fn question(
        &self,
        agent: AgentId,
        (now, seen_at): (i64, i64),
        pause_ms: i64,
    ) -> Option<Probe> {
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

    /// Whether somebody looked for those that are away with this search just now.
    pub(crate) fn has_looked(&self, search: &str, now: i64) -> bool {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.get(search).is_some_and(|at| (now - LOOK_PAUSE_MS..=now).contains(at))
    }

    /// Somebody looked.
    pub(crate) fn looked(&self, search: String, now: i64) {
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
