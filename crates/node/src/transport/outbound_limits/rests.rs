//! Pauses endpoints that fail again and again, with a growing pause until they recover.
//!
//! An endpoint is a receiver *and* its host: ten failures of one agent do not affect others at the same host,
//! and a new endpoint starts without history. Silence counts for every sender. An error response counts only
//! for the sender that got it, because a receiver may refuse a stranger's messages and must not be lost to
//! others for that.

use super::{Endpoint, Host, make_room};
use chorus_protocol::ids::AgentId;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// So many failures in a row are too many.
pub(super) const TOO_MANY_FAILURES: u32 = 10;
/// Rests double up to so many times the first.
const LONGEST_REST: u32 = 10;
/// Failures count until there was none for so long, rests apart.
const COUNTS: Duration = Duration::from_mins(10);

/// The verdict of a request on its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    Silent,
    Refused,
}

/// In which way an endpoint fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Failing {
    /// It does not answer, whoever sends.
    Silent,
    /// It answers this sender, or a push, with an error.
    Refuses(Option<AgentId>),
}

#[derive(Debug, Clone, Copy)]
struct Streak {
    failures: u32,
    rested: u32,
    rests_until: Option<Duration>,
    last: Duration,
}

impl Streak {
    fn counts(&self, now: Duration) -> bool {
        self.rests_until.map_or(self.last, |until| until.max(self.last)) + COUNTS > now
    }
}

/// The pauses of failing endpoints. See the [module](self).
#[derive(Debug)]
pub(super) struct Rests {
    first: Duration,
    failing: HashMap<(AgentId, Host, Failing), Streak>,
}

impl Rests {
    /// The first rest lasts so long.
    pub(super) fn new(first: Duration) -> Self {
        Self { first, failing: HashMap::new() }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.failing.len()
    }

    /// Returns the rest of an endpoint's pause.
    pub(super) fn wait(&self, to: &Endpoint, now: Duration) -> Option<Duration> {
        [Failing::Silent, Failing::Refuses(to.sender)].into_iter().find_map(|failing| {
            let streak = self.failing.get(&(to.receiver, Arc::clone(&to.host), failing))?;
            streak.rests_until?.checked_sub(now).filter(|left| !left.is_zero())
        })
    }

    /// Notes what came of a request.
    pub(super) fn note(&mut self, to: &Endpoint, verdict: Verdict, now: Duration) {
        let key = |failing| (to.receiver, Arc::clone(&to.host), failing);
        let failing = match verdict {
            Verdict::Silent => Failing::Silent,
            Verdict::Refused => Failing::Refuses(to.sender),
            Verdict::Good => {
                self.failing.remove(&key(Failing::Refuses(to.sender)));
                self.failing.remove(&key(Failing::Silent));
                return;
            }
        };
        if verdict == Verdict::Refused {
            // It answers.
            self.failing.remove(&key(Failing::Silent));
        }
        let key = key(failing);
        make_room(&mut self.failing, &key, |streak| streak.counts(now));
        let new = Streak { failures: 0, rested: 0, rests_until: None, last: now };
        let streak = self.failing.entry(key).or_insert(new);
        if !streak.counts(now) {
            *streak = new;
        }
        // A request that was sent before the pause says nothing new.
        if streak.rests_until.is_some_and(|until| until > now) {
            return;
        }
        (streak.failures, streak.last) = (streak.failures + 1, now);
        if streak.failures >= TOO_MANY_FAILURES {
            // Once it has rested, a single failure sends it back.
            let times = 1_u32.checked_shl(streak.rested).unwrap_or(LONGEST_REST).min(LONGEST_REST);
            streak.rests_until = Some(now + self.first * times);
            streak.rested += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limited;
    use super::super::tests::{REST, agent, limits, to};
    use super::*;

    #[test]
    fn what_fails_rests_longer_and_longer_until_it_is_well() {
        let (limits, mut now) = (limits(|_| ()), Duration::ZERO);
        let ill = to(7, "a:443");
        for _ in 0..9 {
            limits.note(&ill, Verdict::Silent, now);
        }
        limits.note(&ill, Verdict::Good, now);
        for _ in 0..10 {
            assert!(limits.begin(&ill, now).is_ok(), "not in a row");
            limits.note(&ill, Verdict::Silent, now);
        }
        for times in [1, 2, 4, 8, 10, 10] {
            // Those that were on their way add nothing.
            limits.note(&ill, Verdict::Silent, now);
            assert_eq!(limits.begin(&ill, now).unwrap_err(), Limited::Rests(REST * times));
            let push = Endpoint { sender: None, ..ill.clone() };
            assert!(limits.begin(&push, now).is_err(), "whoever sends");
            assert!(limits.begin(&to(8, "a:443"), now).is_ok(), "another receiver at the same host");
            assert!(limits.begin(&to(7, "b:443"), now).is_ok(), "another endpoint of it");
            now += REST * times;
            assert!(limits.begin(&ill, now).is_ok());
            limits.note(&ill, Verdict::Silent, now);
        }
        now += REST * 10;
        limits.note(&ill, Verdict::Good, now);
        limits.note(&ill, Verdict::Silent, now);
        assert!(limits.begin(&ill, now).is_ok());
    }

    /// Nine failures of last week and one of today are no reason to leave anybody alone.
    #[test]
    fn old_failures_do_not_count() {
        let (limits, mut now) = (limits(|_| ()), Duration::ZERO);
        let ill = to(7, "a:443");
        for _ in 0..9 {
            limits.note(&ill, Verdict::Silent, now);
        }
        now += COUNTS;
        for _ in 0..9 {
            limits.note(&ill, Verdict::Silent, now);
            assert!(limits.begin(&ill, now).is_ok());
        }
        limits.note(&ill, Verdict::Silent, now);
        assert_eq!(limits.begin(&ill, now).unwrap_err(), Limited::Rests(REST));
        // They begin anew after its rest, too, once that is long over.
        now += REST + COUNTS;
        limits.note(&ill, Verdict::Silent, now);
        assert!(limits.begin(&ill, now).is_ok());
    }

    /// A stranger whose messages are refused keeps nobody else from a receiver.
    #[test]
    fn errors_count_for_whoever_got_them() {
        let (limits, now) = (limits(|_| ()), Duration::ZERO);
        let stranger = to(7, "a:443");
        for _ in 0..10 {
            limits.note(&stranger, Verdict::Refused, now);
        }
        assert_eq!(limits.begin(&stranger, now).unwrap_err(), Limited::Rests(REST));
        assert!(limits.begin(&Endpoint { sender: Some(agent(2)), ..stranger.clone() }, now).is_ok());
        assert!(limits.begin(&Endpoint { sender: None, ..stranger }, now).is_ok());
    }
}
