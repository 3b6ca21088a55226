//! When a lost connection is opened anew: one policy for inboxes, streams of events and sessions.
//!
//! Pauses grow from one lost connection to the next, and begin anew after one that brought something or held for a while: that
//! it could be opened proves little. Whoever asks for a longer pause is heeded, up to the longest of our own, so that no
//! proxy puts a client to sleep for days.

use crate::{Backoff, ClientError};
use chorus_environment::Environment;

/// The pauses, unless a hub asks for another first one.
const BACKOFF: Backoff = Backoff { base_ms: 1000, max_ms: 60_000 };

/// A hub may ask for a first pause between these, in milliseconds.
const FIRST_MS: std::ops::RangeInclusive<u64> = 100..=60_000;

/// A connection that held so long, in milliseconds, was a good one.
const HELD_MS: i64 = 60_000;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Reconnect {
    backoff: Backoff,
    /// Lost connections since the last good one.
    failures: u32,
    /// When the last one was opened, on the clock that never goes back.
    opened_at: Option<i64>,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { backoff: BACKOFF, failures: 0, opened_at: None }
    }
}

impl Reconnect {
    /// The hub asks for another first pause.
    pub(crate) fn first_pause(&mut self, ms: u64) {
        self.backoff.base_ms = ms.clamp(*FIRST_MS.start(), *FIRST_MS.end());
    }

    pub(crate) fn opened(&mut self, environment: &Environment) {
        self.opened_at = Some(environment.elapsed());
    }

    /// Something came that was waited for.
    pub(crate) fn delivered(&mut self) {
        self.failures = 0;
    }

    /// The pause before the next try, in milliseconds; none if that would be refused for the same reason.
    pub(crate) fn lost(&mut self, why: &ClientError, environment: &Environment) -> Option<u64> {
        let asked = u64::try_from(why.transient()?.as_millis()).unwrap_or(u64::MAX);
        let held = self.opened_at.take().is_some_and(|since| environment.elapsed() - since >= HELD_MS);
        if held {
            self.failures = 0;
        }
        let own = self.backoff.delay_ms(self.failures, environment.random_u64());
        self.failures = self.failures.saturating_add(1);
        Some(own.max(asked.min(self.backoff.max_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn refused(seconds: u64) -> ClientError {
        let (code, message) = ("HTTP_503".into(), "no".into());
        ClientError::Refused { status: 503, code, message, retry_after: Some(Duration::from_secs(seconds)) }
    }

    #[test]
    fn who_asks_for_a_pause_is_heeded_up_to_a_minute() {
        let (mut reconnect, environment) = (Reconnect::default(), Environment::system());
        assert_eq!(reconnect.lost(&refused(7), &environment), Some(7000));
        assert_eq!(reconnect.lost(&refused(864_000), &environment), Some(60_000));
        assert_eq!(reconnect.lost(&ClientError::TakenOver, &environment), None);
    }

    #[test]
    fn only_a_connection_that_brought_something_begins_anew() {
        let (mut reconnect, environment) = (Reconnect::default(), Environment::system());
        let mut lose = |brought: bool| {
            reconnect.opened(&environment);
            if brought {
                reconnect.delivered();
            }
            reconnect.lost(&ClientError::Lost("gone"), &environment).unwrap()
        };
        let pauses: Vec<_> = [false, false, false, true].map(&mut lose).into();
        for (pause, most) in pauses.iter().zip([1000, 2000, 4000, 1000]) {
            assert!((most / 2..=most).contains(pause), "{pauses:?}");
        }
    }
}
