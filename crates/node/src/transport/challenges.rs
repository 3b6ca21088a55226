//! The backoff between challenges of agents' endpoints.

use chorus_protocol::ids::AgentId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The pauses after each time an agent's endpoint was asked, the last one again and again.
const PAUSES_MS: [i64; 5] = [1000, 5000, 30_000, 5 * 60_000, HOUR_MS];
const HOUR_MS: i64 = 3_600_000;
/// After so long, how often an agent's endpoint was asked is forgotten.
const FORGET_MS: i64 = 2 * HOUR_MS;
/// The most agents of which it is remembered.
const REMEMBERED: usize = 10_000;

/// The challenges per agent, whatever its endpoints were: a new endpoint does not reset the backoff.
#[derive(Default)]
pub struct Challenges(Mutex<HashMap<AgentId, (usize, i64)>>);

impl Challenges {
    /// Returns whether an agent's endpoint may be challenged at this monotonic time, and records it if so.
    pub fn take(&self, agent: AgentId, now: i64) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= REMEMBERED && !asked.contains_key(&agent) {
            asked.retain(|_, (_, at)| *at + FORGET_MS > now);
            if let Some(any) = asked.keys().next().copied().filter(|_| asked.len() >= REMEMBERED) {
                asked.remove(&any);
            }
        }
        let (times, at) = asked.entry(agent).or_insert((0, now));
        if *at + FORGET_MS <= now {
            *times = 0;
        }
        let pause = times.checked_sub(1).map_or(0, |n| PAUSES_MS[n.min(PAUSES_MS.len() - 1)]);
        let may = *at + pause <= now;
        if may {
            (*times, *at) = (*times + 1, now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn ever_more_rarely() {
        let challenges = Challenges::default();
        let agent = AgentId(Uuid::nil());
        let asked = |until: i64| (0..until).filter(|second| challenges.take(agent, second * 1000)).count();
        assert_eq!(asked(1), 1);
        assert_eq!(asked(60), 3, "at once, and after 1, 5 and 30 s");
        let hours = |from: i64| {
            let seconds = from * 3600..(from + 1) * 3600;
            seconds.filter(|second| challenges.take(agent, second * 1000)).count()
        };
        assert!(hours(1) + hours(2) <= 4);
        assert!(challenges.take(AgentId(Uuid::from_u128(1)), 0), "others are asked as before");
    }

    #[test]
    fn a_full_table_refuses_nobody() {
        let challenges = Challenges::default();
        for n in 0..REMEMBERED as u128 + 100 {
            assert!(challenges.take(AgentId(Uuid::from_u128(n)), 0));
        }
        assert_eq!(challenges.0.lock().unwrap().len(), REMEMBERED);
    }
}
