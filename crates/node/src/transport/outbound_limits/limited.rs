//! The reason why a request is not sent now, with the time of the next attempt.

use super::rests::TOO_MANY_FAILURES;
use std::time::Duration;

/// The wait after which a limit of open requests may have room again.
const SOON: Duration = Duration::from_secs(1);

/// The limit that prevents a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Limited {
    #[error(
        "{0} of this sender's requests to endpoints are open, which is the limit; try again when one has ended"
    )]
    Sender(u64),
    #[error(
        "too many requests to endpoints that were asked for from one address are open; try again when some have ended"
    )]
    Share,
    #[error(
        "too many requests to this receiver are open: at most {0} are, and for one address no more than it leaves to \
         others; try again"
    )]
    Receiver(u64),
    #[error(
        "too many requests to the receiver's host are open: at most {0} are, and for one address no more than it leaves \
         to others; try again"
    )]
    Host(u64),
    #[error(
        "the receiver's host got too many requests: at most {limit} a minute, and half of them for one address; try \
         again in {} s",
        seconds(*.wait)
    )]
    HostMinute { limit: u64, wait: Duration },
    #[error("{0} requests to endpoints are open, which is the limit of this hub; try again")]
    All(u64),
    #[error(
        "the receiver's endpoint failed {TOO_MANY_FAILURES} times in a row and is left alone; try again in {} s",
        seconds(*.0)
    )]
    Rests(Duration),
}

/// Whole seconds, of which a moment is one.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

impl Limited {
    /// Returns the shortest wait before the next attempt.
    pub fn wait(self) -> Duration {
        match self {
            Self::HostMinute { wait, .. } | Self::Rests(wait) => wait.max(SOON),
            Self::Sender(_) | Self::Share | Self::Receiver(_) | Self::Host(_) | Self::All(_) => SOON,
        }
    }
}
