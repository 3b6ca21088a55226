//! How often agents' endpoints were asked whether they want what the hub sends: ever more rarely.

use chorus_protocol::ids::AgentId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The pauses after each time an agent's endpoint was asked, the last one again and again.
const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(5),
    Duration::from_hours(1),
];
/// After so long, how often an agent's endpoint was asked is forgotten.
const FORGET: Duration = Duration::from_hours(2);
/// The most agents of which it is remembered.
const REMEMBERED: usize = 10_000;

/// How often agents' endpoints were asked, whatever these were: a new one is no new beginning.
#[derive(Default)]
pub struct Challenges(Mutex<HashMap<AgentId, (usize, Instant)>>);

impl Challenges {
    /// Whether an agent's endpoint may be asked now; if so, that is remembered.
    pub fn take(&self, agent: AgentId, now: Instant) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= REMEMBERED && !asked.contains_key(&agent) {
            asked.retain(|_, (_, at)| *at + FORGET > now);
            if let Some(any) = asked.keys().next().copied().filter(|_| asked.len() >= REMEMBERED) {
                asked.remove(&any);
            }
        }
        let (times, at) = asked.entry(agent).or_insert((0, now));
        if *at + FORGET <= now {
            *times = 0;
        }
        let pause = times.checked_sub(1).map_or(Duration::ZERO, |n| PAUSES[n.min(PAUSES.len() - 1)]);
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
        let (challenges, begin) = (Challenges::default(), Instant::now());
        let agent = AgentId(Uuid::nil());
        let asked = |until: u64| {
            (0..until).filter(|s| challenges.take(agent, begin + Duration::from_secs(*s))).count()
        };
        assert_eq!(asked(1), 1);
        assert_eq!(asked(60), 3, "at once, and after 1, 5 and 30 s");
        let hours = |from: u64| {
            let seconds = (from * 3600..(from + 1) * 3600).map(Duration::from_secs);
            seconds.filter(|since| challenges.take(agent, begin + *since)).count()
        };
        assert!(hours(1) + hours(2) <= 4);
        assert!(challenges.take(AgentId(Uuid::from_u128(1)), begin), "others are asked as before");
    }

    #[test]
    fn a_full_table_refuses_nobody() {
        let (challenges, now) = (Challenges::default(), Instant::now());
        for n in 0..REMEMBERED as u128 + 100 {
            assert!(challenges.take(AgentId(Uuid::from_u128(n)), now));
        }
        assert_eq!(challenges.0.lock().unwrap().len(), REMEMBERED);
    }
}
