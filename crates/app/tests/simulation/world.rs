//! Time, chance, and what happens when. Nothing here knows hubs or agents.
//!
//! Things happen one after the other, in the order of their times, and of their making where these are the same. All chance
//! comes from one seed, so the same seed gives the same world; what is noted on the way is hashed, which proves it.

use chorus_environment::{Environment, ManualClock};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{Debug, Display};

/// How much of what was noted is kept for whoever looks for a mistake.
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

    /// How long it has lasted.
    pub(crate) fn age(&self) -> i64 {
        self.now() - self.begun
    }

    /// Something will happen then; what lies in the past happens next.
    pub(crate) fn at(&mut self, time: i64, happening: H) {
        self.made += 1;
        self.schedule.insert((time.max(self.now()), self.made), happening);
    }

    pub(crate) fn after(&mut self, delay_ms: i64, happening: H) {
        self.at(self.now() + delay_ms, happening);
    }

    /// What happens next, at its time; nothing once all is at rest.
    pub(crate) fn next(&mut self) -> Option<H> {
        let ((time, _), happening) = self.schedule.pop_first()?;
        self.clock.set(time);
        Some(happening)
    }

    /// One of so many numbers, from 0.
    pub(crate) fn below(&mut self, count: i64) -> i64 {
        (self.random.random_u64() % count.max(1) as u64) as i64
    }

    /// Whether something happens that does so in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: i64) -> bool {
        self.below(100) < percent
    }

    /// Writes down what happens.
    pub(crate) fn note(&mut self, what: impl Display) {
        let line = format!("{:>7} {what}", self.age());
        self.hash.update(line.as_bytes());
        self.hash.update(b"\n");
        if self.noted.len() == KEPT {
            self.noted.pop_front();
        }
        self.noted.push_back(line);
    }

    /// The last of it.
    pub(crate) fn last_notes(&self) -> String {
        self.noted.iter().flat_map(|line| [line, "\n"]).collect()
    }

    /// Stands for all of it.
    pub(crate) fn hash(&self) -> String {
        HEXLOWER.encode(&self.hash.clone().finalize())
    }
}
