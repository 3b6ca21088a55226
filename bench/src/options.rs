//! The options of a measurement, and the phases that follow them.

use crate::load::Outcome;
use crate::progress::Progress;
use crate::report::{millis, thousands};
use crate::request::{MAX_SIZE, MIN_SIZE};
use clap::builder::RangedU64ValueParser;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The longest warm-up.
const WARM_UP: Duration = Duration::from_secs(1);

fn whole(range: RangeInclusive<u64>) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(range)
}

/// The duration and number of the rounds, and the size of messages.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Pace {
    /// The duration of each phase of each round, in seconds
    #[arg(long, default_value = "5", value_parser = seconds)]
    pub(crate) seconds: Duration,
    /// The number of rounds; their median counts
    #[arg(long, default_value = "3", value_parser = whole(1..=1000))]
    pub(crate) rounds: usize,
    /// Characters in the text of a message
    #[arg(long, default_value = "200", value_parser = whole(MIN_SIZE as u64..=MAX_SIZE as u64))]
    pub(crate) size: usize,
}

/// The pace, with the number of senders and receivers.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Load {
    /// Connections that send at the same time, each one message after the other
    #[arg(long, default_value = "64", value_parser = whole(1..=10_000))]
    pub(crate) senders: usize,
    /// Open inboxes, to which the senders send in turn
    #[arg(long, default_value = "16", value_parser = whole(1..=10_000))]
    pub(crate) receivers: usize,
    #[command(flatten)]
    pub(crate) pace: Pace,
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, rounds, size } = self;
        write!(f, "{size} characters, {rounds} × {} s", seconds.as_secs_f64())
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} senders, {} receivers, {}", self.senders, self.receivers, self.pace)
    }
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or("must be a number of seconds from 0.01 to 3600")
}

impl Pace {
    /// Runs a phase once to warm up and once to be counted.
    pub(crate) async fn measured(
        &self,
        progress: &Progress,
        what: String,
        mut phase: impl AsyncFnMut(Duration) -> anyhow::Result<Outcome>,
    ) -> anyhow::Result<Outcome> {
        let warm_up = WARM_UP.min(self.seconds / 5);
        let both = async {
            phase(warm_up).await?;
            phase(self.seconds).await
        };
        let outcome = progress.during(&what, warm_up + self.seconds, both).await?;
        let (speed, p99) = (thousands(outcome.per_second), millis(&outcome.send, 0.99));
        progress.done(&format!("{what}: {speed}/s, p99 {p99:.2} ms"));
        Ok(outcome)
    }
}
