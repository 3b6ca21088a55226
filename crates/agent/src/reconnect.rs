//! The reconnection policy of inboxes, event streams and sessions.
//!
//! The pause grows with each lost connection. It starts again after a connection that delivered something or
//! held for a while; a successful open alone proves little. A longer pause that the server asks for is
//! respected, up to our own maximum, so that a proxy cannot make a client sleep for days.

use crate::{Backoff, ClientError};
use chorus_environment::Environment;

/// The default pauses. A hub may ask for another first one.
const BACKOFF: Backoff = Backoff { base_ms: 1000, max_ms: 60_000 };

/// The range of first pauses that a hub may ask for, in milliseconds.
const FIRST_MS: std::ops::RangeInclusive<u64> = 100..=60_000;

/// The duration, in milliseconds, after which a connection counts as successful.
const HELD_MS: i64 = 60_000;

/// The reconnection state of one connection; see the [module](self).
#[derive(Debug)]
pub(crate) struct Reconnect {
    backoff: Backoff,
    /// The number of lost connections since the last successful one.
    failures: u32,
    /// The time of the last open, by the monotonic clock, in milliseconds.
    opened_at: Option<i64>,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { backoff: BACKOFF, failures: 0, opened_at: None }
    }
}

impl Reconnect {
    /// Sets the first pause that the hub asks for.
    pub(crate) fn first_pause(&mut self, ms: u64) {
        self.backoff.base_ms = ms.clamp(*FIRST_MS.start(), *FIRST_MS.end());
    }

    pub(crate) fn opened(&mut self, environment: &Environment) {
        self.opened_at = Some(environment.elapsed());
    }

    /// Records that the connection delivered something.
    pub(crate) fn delivered(&mut self) {
        self.failures = 0;
    }

    /// Returns the pause before the next try, in milliseconds. `None` if a retry would fail for the same
    /// reason.
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
