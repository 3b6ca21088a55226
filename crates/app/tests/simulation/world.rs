//! Time, randomness and scheduling. This module knows neither hubs nor agents.
//!
//! Steps run one by one, in the order of their times, and of their creation at the same time. All randomness
//! comes from one seed, so the same seed gives the same world. A hash of the log proves it.

use chorus_environment::{Environment, ManualClock};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{Debug, Display};

/// The number of log lines kept for debugging.
const KEPT: usize = 60;

pub(crate) struct World<H> {
    pub(crate) clock: ManualClock,
    begun: i64,
    random: Environment,
    schedule: BTreeMap<(i64, u64), H>,
    made: u64,
    hash: Sha256,
    noted: VecDeque<String>,
}

impl<H: Debug> World<H> {
    pub(crate) fn new(seed: u64, begins_at: i64) -> Self {
        let clock = ManualClock::new(begins_at);
        Self {
            random: Environment::seeded(seed, &clock),
            clock,
            begun: begins_at,
            schedule: BTreeMap::new(),
            made: 0,
            hash: Sha256::new(),
            noted: VecDeque::new(),
        }
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Returns the elapsed time.
    pub(crate) fn age(&self) -> i64 {
        self.now() - self.begun
    }

    /// Schedules a step. A step in the past runs next.
    pub(crate) fn at(&mut self, time: i64, happening: H) {
        self.made += 1;
        self.schedule.insert((time.max(self.now()), self.made), happening);
    }

    pub(crate) fn after(&mut self, delay_ms: i64, happening: H) {
        self.at(self.now() + delay_ms, happening);
    }

    /// Advances to the next step; `None` once everything is at rest.
    pub(crate) fn next(&mut self) -> Option<H> {
        let ((time, _), happening) = self.schedule.pop_first()?;
        self.clock.set(time);
        Some(happening)
    }

    /// Returns a random number from 0 to `count` - 1.
    pub(crate) fn below(&mut self, count: i64) -> i64 {
        (self.random.random_u64() % count.max(1) as u64) as i64
    }

    /// Returns `true` in `percent` of a hundred cases.
    pub(crate) fn chance(&mut self, percent: i64) -> bool {
        self.below(100) < percent
    }

    /// Logs a step.
    pub(crate) fn note(&mut self, what: impl Display) {
        let line = format!("{:>7} {what}", self.age());
        self.hash.update(line.as_bytes());
        self.hash.update(b"\n");
        if self.noted.len() == KEPT {
            self.noted.pop_front();
        }
        self.noted.push_back(line);
    }

    /// Returns the last lines of the log.
    pub(crate) fn last_notes(&self) -> String {
        self.noted.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// Returns the hash of the whole log.
    pub(crate) fn hash(&self) -> String {
        HEXLOWER.encode(&self.hash.clone().finalize())
    }
}
